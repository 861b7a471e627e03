//! The limit of a caller in a sketch: the window of its rule in few sub-windows.
//!
//! Fewer sub-windows leave more cells to each. `strict` rules have four, because each of their sub-windows counts until it
//! has left the window whole: with one, a caller at a steady rate would get half of its quota. No refund reaches a sketch.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, LimitPolicy};
use tollgate_core::window::{Estimate, Window};

use crate::counters::enforce::{Facts, equal_part};

/// Maximum number of sub-windows of a conservative estimate.
const PARTS_MAX: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SketchLimit {
    pub(super) units: u64,
    pub(super) window: Window,
    pub(super) estimate: Estimate,
}

/// Window of a sketch, and the size of the numbers in its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SketchForm {
    pub(super) window: Window,
    /// A cell counts multiples of two to this power, so that it can hold the quota.
    pub(super) unit_bits: u32,
}

impl SketchForm {
    /// Returns the form under a policy, which does not depend on the number of agents.
    pub(super) fn of(policy: &LimitPolicy) -> Self {
        let limit = SketchLimit::of(policy, None);
        let bits = u64::BITS - limit.units.leading_zeros();
        Self { window: limit.window, unit_bits: bits.saturating_sub(u32::BITS) }
    }
}

impl SketchLimit {
    /// Returns the limit under a policy. An agent with a store admits its part of the quota only, because the others
    /// have sketches of their own. If the part is less than one unit, a `bounded` rule admits one.
    pub(super) fn of(policy: &LimitPolicy, shares: Option<&Facts>) -> Self {
        let (width_ms, quota) = (policy.window.width_ms(), policy.quota.units());
        let estimate = policy.algorithm.estimate();
        let (whole, width_ms) = match policy.algorithm {
            // The burst, in the time in which the rate gives it.
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let fill_ms = u128::from(policy.burst) * u128::from(width_ms) / u128::from(quota.max(1));
                (policy.burst, u64::try_from(fill_ms).unwrap_or(width_ms).max(1))
            }
            _ => (quota, width_ms),
        };
        let least = u64::from(policy.consistency != Consistency::Strict);
        let units = shares.map_or(whole, |facts| equal_part(policy, facts, whole).max(least));
        let parts_max = if estimate == Estimate::Conservative { PARTS_MAX } else { 1 };
        let window = (1..=parts_max).rev().find_map(|parts| Window::new(width_ms, parts).ok());
        Self { units, window: window.unwrap_or(policy.window), estimate }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tollgate_core::clock::Timestamp;

    use super::*;
    use crate::counters::enforce::Authority;
    use crate::fleet::FleetPart;
    use crate::time::TimeBounds;

    #[test]
    fn a_limit_is_that_of_the_policy_in_fewer_sub_windows() {
        let strict = |mut policy: LimitPolicy| {
            policy.set_consistency(Consistency::Strict);
            policy
        };
        let of = |text: &str| LimitPolicy::of(text.parse().expect("a quota"));
        let mut bucket = of("100/min").counted_by(Algorithm::TokenBucket);
        bucket.burst = 20;
        let agents = |n| Some(FleetPart::OneOf(NonZeroU32::new(n).unwrap()));
        let now = TimeBounds::exactly(Timestamp::from_ms(1_000_000));
        let own_now = now.latest;
        let facts = |part| Facts { now, at: now.latest, own_now, authority: Authority::Store, part, rank: Some(1) };
        let cases = [
            (of("100/min"), None, 100, 60_000, 1),
            (of("100/min"), agents(3), 33, 60_000, 1),
            (of("2/min"), agents(3), 1, 60_000, 1),
            (of("2/min"), Some(FleetPart::Nothing), 1, 60_000, 1),
            (strict(of("2/min")), agents(3), 1, 60_000, 4),
            (strict(of("1/min")), agents(3), 0, 60_000, 4),
            (strict(of("100/min")), None, 100, 60_000, 4),
            (of("100/min").counted_by(Algorithm::FixedWindow), None, 100, 60_000, 1),
            (of("100/min").counted_by(Algorithm::SlidingLog), None, 100, 60_000, 4),
            (bucket, None, 20, 12_000, 1),
            (bucket, agents(2), 10, 12_000, 1),
        ];
        for (policy, part, units, width_ms, parts) in cases {
            let limit = SketchLimit::of(&policy, part.map(facts).as_ref());
            assert_eq!(
                (limit.units, limit.window),
                (units, Window::new(width_ms, parts).unwrap()),
                "{policy:?} {part:?}"
            );
        }
    }
}
