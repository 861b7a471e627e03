//! The bound of an outage: the most units that a window may hold while the store is down. Under `consistency:
//! eventual`, where no store decides, it is the bound at all times.

use std::num::NonZeroU32;

use super::{Consistency, LimitPolicy, OnFailure};

/// Most units that any window holds while the store is down, as the rule's algorithm and estimate count them: calls around an
/// edge may get [`LimitPolicy::edge_units`] more. Units that the store admitted before are included. An agent that restarts meanwhile, and agents that do not know each other, add units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageBound {
    /// With fresh signals, beside the units that callers use while the signals of two agents differ: for at most
    /// [`FRESH_MS`](crate::messages::signals::FRESH_MS). Units that were leased when the store went down are included.
    /// `closed` admits none, so nothing is added, unless the rule is `eventual`.
    pub by_signals: u64,
    /// Without signals; nothing if all calls pass.
    pub alone: Option<u64>,
}

impl OutageBound {
    /// Returns the bound of a policy in a fleet.
    #[must_use]
    pub fn of(policy: &LimitPolicy, agents: NonZeroU32) -> Self {
        let agents = u64::from(agents.get());
        let quota = policy.most_in_window();
        // If an equal part is less than one unit, agents have one each, unless units are placed.
        let is_short = policy.quota.units() < agents;
        let has_one_each = is_short && policy.consistency != Consistency::Strict;
        let (by_signals, parts) = match policy.on_failure {
            OnFailure::Share if has_one_each => (quota + agents, agents),
            OnFailure::Share if is_short => (quota, quota),
            OnFailure::Share => (quota, quota / agents * agents),
            OnFailure::Closed => (quota, 0),
            OnFailure::Open => {
                let by_signals = quota.saturating_add(leased(policy, quota, agents));
                return Self { by_signals, alone: None };
            }
            OnFailure::Limit(limit) => {
                // A window can overlap one more window of the limit than fits into it.
                let windows = policy.quota.width_ms().div_ceil(limit.width_ms());
                let windows = if limit.width_ms() == policy.quota.width_ms() { windows } else { windows + 1 };
                (quota, limit.units().saturating_mul(agents).saturating_mul(windows))
            }
        };
        // Without a store, each agent admits while the signals leave units free, whatever its part of them is.
        let by_signals = if policy.consistency == Consistency::Eventual { quota } else { by_signals };
        let by_signals = by_signals.saturating_add(leased(policy, quota.min(parts), agents));
        Self { by_signals, alone: Some(quota.saturating_add(parts)) }
    }

    /// Returns the bound over all regions of a policy with a global scope while the store of one region does not answer: the
    /// agents there admit calls by this floor, beside the units of all regions that stores have admitted.
    #[must_use]
    pub fn over_regions(policy: &LimitPolicy, floor: u64, agents: NonZeroU32) -> Self {
        let quota = policy.quota.with_units(floor).unwrap_or(policy.quota);
        let Self { by_signals, alone } = Self::of(&LimitPolicy { quota, ..*policy }, agents);
        let others = policy.units_over_regions().saturating_sub(quota.units());
        Self { by_signals: by_signals.saturating_add(others), alone: alone.map(|units| units.saturating_add(others)) }
    }
}

/// Returns the units that agents admit beside leases which no signal contains: one agent may have leased all units just before
/// the store went down, and spends them until it notices; the others divide the same units.
fn leased(policy: &LimitPolicy, parts: u64, agents: u64) -> u64 {
    if policy.may_lease() && agents > 1 { parts - parts / agents } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::Quota;
    use super::*;

    /// J4: a region whose store does not answer adds at most what its floor and `on_failure` admit there.
    #[test]
    fn a_region_without_its_store_adds_no_more_than_its_floor() {
        let agents = NonZeroU32::new(4).unwrap();
        let limit = OnFailure::Limit(Quota::new(5, 60_000).unwrap());
        // `on_failure`, floor of the region; the bounds for 100/min over all regions.
        for (on_failure, floor, expected, alone) in [
            (OnFailure::Share, 10, 106, Some(108)),
            (OnFailure::Share, 1, 101, Some(101)),
            (OnFailure::Closed, 10, 100, Some(100)),
            (OnFailure::Open, 10, 108, None),
            (limit, 10, 108, Some(120)),
        ] {
            let mut policy = LimitPolicy::of(Quota::new(100, 60_000).unwrap());
            policy.on_failure = on_failure;
            policy.set_consistency(Consistency::Strict);
            let bound = OutageBound::over_regions(&policy, floor, agents);
            assert_eq!(bound, OutageBound { by_signals: expected, alone }, "{on_failure:?} {floor}");
        }
    }

    /// I4, R8: never more than twice the quota, or one unit for each agent where the quota has fewer.
    #[test]
    fn the_bound_follows_on_failure_and_the_fleet() {
        let limit = |units, width_ms| OnFailure::Limit(Quota::new(units, width_ms).unwrap());
        // `on_failure`, strict or not, agents; the bounds for 100/min, by signals without and with leases.
        let cases = [
            (OnFailure::Share, false, 3, [100, 166], Some(199)),
            (OnFailure::Share, true, 3, [100, 166], Some(199)),
            (OnFailure::Share, true, 1, [100, 100], Some(200)),
            (OnFailure::Share, false, 200, [300, 400], Some(300)),
            (OnFailure::Share, true, 200, [100, 200], Some(200)),
            (OnFailure::Open, false, 3, [100, 167], None),
            (OnFailure::Closed, false, 3, [100, 100], Some(100)),
            (limit(5, 60_000), false, 3, [100, 110], Some(115)),
            (limit(5, 30_000), false, 3, [100, 130], Some(145)),
        ];
        for (on_failure, is_strict, agents, [without, with], alone) in cases {
            let mut policy = LimitPolicy::of(Quota::new(100, 60_000).unwrap());
            policy.on_failure = on_failure;
            policy.set_consistency(if is_strict { Consistency::Strict } else { Consistency::Bounded });
            let agents = NonZeroU32::new(agents).unwrap();
            for (leases, by_signals) in [(false, without), (true, with)] {
                policy.leases = leases;
                let bound = OutageBound::of(&policy, agents);
                assert_eq!(bound, OutageBound { by_signals, alone }, "{on_failure:?} {is_strict} {agents} {leases}");
            }
            // Free units are not divided under `eventual`, so no agent needs a unit of its own.
            policy.set_consistency(Consistency::Eventual);
            let eventual = OutageBound::of(&policy, agents).by_signals;
            assert_eq!(eventual, 100, "{on_failure:?} {agents}");
        }
    }
}
