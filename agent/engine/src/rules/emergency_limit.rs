//! Limit of the emergency switch: one quota for each caller, counted by this agent alone.
//!
//! Callers have their counts in a fixed number of slots, chosen by the keyed digest of the caller, so a flood of invented
//! callers takes no memory; two callers share a slot only by chance.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::algorithm::{Algorithm, CounterState, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::decision::{EMERGENCY, LimitKind, LimitStatus};
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::name::Name;
use tollgate_core::rules::Quota;
use tollgate_core::window::{Estimate, Window};

use crate::report::RuleCounts;

const SLOTS_LEN: usize = 1 << 16;

#[derive(Default)]
pub(crate) struct LearnedEmergency {
    pub(crate) newest: Option<EmergencySwitch>,
    /// True if a newer change is refused.
    pub(crate) is_refused: bool,
}

pub(crate) struct EmergencyLimit {
    limit: Limit,
    pub(crate) name: Name,
    pub(crate) counts: Arc<RuleCounts>,
    slots: Box<[Mutex<Option<CounterState>>]>,
}

impl EmergencyLimit {
    pub(crate) fn new(quota: Quota, counts: Arc<RuleCounts>) -> Self {
        let window = Window::with_default_sub_windows(quota.width_ms()).expect("a quota's width is in range");
        let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
        let limit = Limit { algorithm, units: quota.units(), window, burst: 0 };
        Self { limit, name: EMERGENCY.into(), counts, slots: (0..SLOTS_LEN).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn charge(&self, caller: CounterId, now: Timestamp, cost: u64) -> Verdict {
        let slot = usize::try_from(caller.as_u128() % SLOTS_LEN as u128).expect("less than the length");
        let mut slot = self.slots[slot].lock();
        slot.get_or_insert_with(|| CounterState::new(&self.limit)).step(&self.limit, now, cost)
    }

    pub(crate) fn status(&self, verdict: Verdict, now: Timestamp, cost: u64) -> LimitStatus {
        let mut status = LimitStatus::new(self.name.clone(), LimitKind::Window, cost);
        (status.limit, status.at_once, status.window_ms) =
            (self.limit.units, self.limit.units, self.limit.window.width_ms());
        (status.remaining, status.reset_ms) = (verdict.remaining, verdict.reset_at.ms_since(now));
        status.retry_after_ms = if verdict.admitted { 0 } else { verdict.retry_at.ms_since(now).max(1) };
        status
    }
}

impl fmt::Debug for EmergencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmergencyLimit").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::EngineMetrics;

    #[test]
    fn each_caller_has_the_quota_in_every_window() {
        let counts = EngineMetrics::default().of_rule(&EMERGENCY.into());
        let limit = EmergencyLimit::new("10/s".parse().expect("a quota"), counts);
        let caller = CounterId::from_u128;
        let admitted = |id, ms| limit.charge(caller(id), Timestamp::from_ms(ms), 1).admitted;
        assert_eq!((0..11).filter(|_| admitted(1, 5_000)).count(), 10);
        assert_eq!((0..11).filter(|_| admitted(2, 5_000)).count(), 10, "another caller");
        assert!(!admitted(1, 5_999) && admitted(1, 6_100), "room comes back after a window");
        let denied = limit.charge(caller(2), Timestamp::from_ms(5_500), 1);
        let status = limit.status(denied, Timestamp::from_ms(5_500), 1);
        assert_eq!((&*status.rule, status.limit, status.remaining), (EMERGENCY, 10, 0));
        assert!((500..=600).contains(&status.retry_after_ms), "{status:?}");
    }
}
