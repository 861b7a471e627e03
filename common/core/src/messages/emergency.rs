//! Emergency switch as heartbeats carry it: every agent repeats the newest change that it knows, so an agent that
//! starts later learns it, too.

use crate::clock::Timestamp;
use crate::rules::Quota;

/// Descriptor that identifies a caller. A call without it is identified by all its descriptors.
pub const EMERGENCY_PER: &str = "ip";

/// Latest change of the emergency switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmergencySwitch {
    /// Quota of each caller at each agent; `None` if the switch is off.
    pub quota: Option<Quota>,
    /// Time of the change by the clock of the agent that was asked, and later than that of the change before it.
    pub changed_at: Timestamp,
}

impl EmergencySwitch {
    /// Returns true if this change replaces the other one. Of two changes at the same instant, the smaller quota is kept.
    #[must_use]
    pub fn is_newer_than(&self, other: Option<&Self>) -> bool {
        let rank = |switch: &Self| {
            let quota = switch.quota.map_or((u64::MAX, 0), |quota| (quota.units(), quota.width_ms()));
            (switch.changed_at, std::cmp::Reverse(quota))
        };
        other.is_none_or(|other| rank(self) > rank(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_agents_keep_the_same_change() {
        let switch = |ms, units: Option<u64>| EmergencySwitch {
            quota: units.map(|units| Quota::new(units, 1_000).expect("a quota")),
            changed_at: Timestamp::from_ms(ms),
        };
        let order = [switch(1, Some(5)), switch(2, None), switch(2, Some(10)), switch(2, Some(5)), switch(3, None)];
        for (nth, older) in order.iter().enumerate() {
            assert!(older.is_newer_than(None) && !older.is_newer_than(Some(older)));
            for newer in &order[nth + 1..] {
                assert!(newer.is_newer_than(Some(older)) && !older.is_newer_than(Some(newer)), "{older:?} {newer:?}");
            }
        }
    }
}
