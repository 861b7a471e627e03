//! Limit of the emergency switch: one quota for each caller, counted by this agent alone.
//!
//! Callers are counted in a [sketch](crate::counters), as those past the cap on counters are: a flood of invented callers takes
//! no more memory, and costs honest ones little.

use std::fmt;
use std::sync::Arc;

use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::decision::{EMERGENCY, LimitKind, LimitStatus};
use tollgate_core::name::Name;
use tollgate_core::rules::{Consistency, LimitPolicy, Quota};

use crate::counters::{SketchCharge, Sketches};
use crate::report::RuleCounts;

/// Memory of the sketch, in bytes; the system gives it as cells are used.
const SKETCH_BYTES: usize = 8 << 20;

pub(crate) struct EmergencyLimit {
    policy: LimitPolicy,
    rule: Arc<str>,
    name: Name,
    counts: Arc<RuleCounts>,
    sketch: Sketches,
}

impl EmergencyLimit {
    pub(crate) fn new(quota: Quota, counts: Arc<RuleCounts>) -> Self {
        let mut policy = LimitPolicy::of(quota);
        // No window holds more than the quota.
        policy.set_consistency(Consistency::Strict);
        Self { policy, rule: EMERGENCY.into(), name: EMERGENCY.into(), counts, sketch: Sketches::new(SKETCH_BYTES) }
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn counts(&self) -> &RuleCounts {
        &self.counts
    }

    pub(crate) fn charge(&self, caller: CounterId, now: Timestamp, cost: u64) -> Verdict {
        let Self { policy, rule, .. } = self;
        let charge = SketchCharge { rule, policy, shares: None, caller, cost, is_forced: false };
        self.sketch.charge(now, &charge, 1).0
    }

    pub(crate) fn status(&self, verdict: Verdict, now: Timestamp, cost: u64) -> LimitStatus {
        let mut status = LimitStatus::new(self.name.clone(), LimitKind::Window, cost);
        let units = self.policy.quota.units();
        (status.limit, status.at_once, status.window_ms) = (units, units, self.policy.window.width_ms());
        (status.remaining, status.reset_ms) = (verdict.remaining, verdict.reset_at.ms_since(now));
        status.retry_after_ms = if verdict.admitted { 0 } else { verdict.retry_at.ms_since(now).max(1) };
        status
    }
}

impl fmt::Debug for EmergencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmergencyLimit").field("quota", &self.policy.quota).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::EngineMetrics;

    fn limit(quota: &str) -> EmergencyLimit {
        EmergencyLimit::new(quota.parse().expect("a quota"), EngineMetrics::default().of_rule(&EMERGENCY.into()))
    }

    #[test]
    fn each_caller_has_the_quota_in_every_window() {
        let limit = limit("10/s");
        let caller = CounterId::from_u128;
        let admitted = |id, ms| limit.charge(caller(id), Timestamp::from_ms(ms), 1).admitted;
        assert_eq!((0..11).filter(|_| admitted(1, 5_000)).count(), 10);
        assert_eq!((0..11).filter(|_| admitted(2, 5_000)).count(), 10, "another caller");
        let denied = limit.charge(caller(2), Timestamp::from_ms(5_500), 1);
        let status = limit.status(denied, Timestamp::from_ms(5_500), 1);
        assert_eq!((&*status.rule, status.limit, status.remaining), (EMERGENCY, 10, 0));
        assert!((500..=750).contains(&status.retry_after_ms), "{status:?}");
        assert!(!admitted(1, 5_999) && admitted(1, 6_250), "room comes back after a window");
    }

    /// The sketch has four sub-windows, and units count until theirs has left the window whole.
    #[test]
    fn a_steady_caller_has_four_fifths_of_the_quota() {
        let limit = limit("10/s");
        let calls = (0..50_000).step_by(20).map(|ms| Timestamp::from_ms(600_000 + ms));
        let admitted = calls.filter(|now| limit.charge(CounterId::from_u128(1), *now, 1).admitted).count();
        assert_eq!(admitted, 400, "of 500 in 50 s");
    }

    /// capped: invented callers take no memory, and few units of honest ones.
    #[test]
    fn after_a_flood_newcomers_have_nearly_their_quota() {
        let limit = limit("10/min");
        let now = Timestamp::from_ms(600_000);
        let caller = |number: u64| CounterId::from_u128(u128::from(number) << 64 | u128::from(number));
        (0..100_000).for_each(|number| assert!(limit.charge(caller(number), now, 1).admitted || number > 50_000));
        let units = |number| (0..10).filter(|_| limit.charge(caller(number), now, 1).admitted).count();
        let admitted: usize = (200_000..201_000).map(units).sum();
        assert!(admitted > 9_800, "{admitted} of 10,000");
        assert!(limit.sketch.bytes() <= SKETCH_BYTES);
    }
}
