//! The bounds of a policy while the store answers: in time, and late.

use std::num::NonZeroU32;

use super::{Consistency, LimitPolicy, OnFailure};
use crate::algorithm::Algorithm;
use crate::window::Estimate;

impl LimitPolicy {
    /// Returns the largest number of units that any window holds while the store answers in time.
    #[doc(hidden)]
    #[must_use]
    pub fn most_at_worst(&self) -> u64 {
        self.most_in_window().saturating_add(self.edge_units())
    }

    /// Returns the largest number of units that a window holds beyond those that the algorithm and its estimate count: calls
    /// that come together around the edge of a sub-window (interpolated) or of a fixed window may get a second quota.
    #[doc(hidden)]
    #[must_use]
    pub fn edge_units(&self) -> u64 {
        match self.algorithm {
            Algorithm::SlidingWindow(Estimate::Interpolated) | Algorithm::FixedWindow => self.quota.units(),
            _ => 0,
        }
    }

    /// Returns true if agents admit every call whose answer from the store is late. Such calls come on top of the units that a
    /// window holds while the store answers in time.
    #[doc(hidden)]
    #[must_use]
    pub fn admits_late_calls(&self) -> bool {
        self.on_failure == OnFailure::Open && self.consistency != Consistency::Eventual
    }

    /// Returns the largest number of units that a window holds, as the algorithm and its estimate count them, while the answers of
    /// the store are late for so many agents out of `agents`: the store admits the quota, and each of these agents its part, once.
    /// There is none if all late calls pass. An agent that restarts may admit its part again.
    #[doc(hidden)]
    #[must_use]
    pub fn most_while_late(&self, late: u32, agents: NonZeroU32) -> Option<u64> {
        let quota = self.most_in_window();
        if self.admits_late_calls() {
            return None;
        }
        let admits_part = self.consistency == Consistency::Bounded && self.algorithm != Algorithm::Concurrency;
        let part = match self.on_failure {
            _ if !admits_part => 0,
            OnFailure::Share if self.quota.units() >= u64::from(agents.get()) => quota / u64::from(agents.get()),
            OnFailure::Share | OnFailure::Closed | OnFailure::Open => 0,
            // A window can overlap one more window of the limit than fits into it.
            OnFailure::Limit(limit) => {
                let windows = self.quota.width_ms().div_ceil(limit.width_ms());
                let is_same = limit.width_ms() == self.quota.width_ms();
                limit.units().saturating_mul(if is_same { windows } else { windows + 1 })
            }
        };
        Some(quota.saturating_add(part.saturating_mul(late.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C5, N5: while the store is late, only `bounded` admits beyond what the store has charged, and each agent its part once.
    #[test]
    fn a_late_store_adds_the_parts_of_the_late_agents() {
        type Change = fn(&mut LimitPolicy);
        let limit = |policy: &mut LimitPolicy| policy.on_failure = OnFailure::Limit("5/30s".parse().unwrap());
        // Quota, change of the default, agents; the bounds with one late agent and with all.
        let cases: [(&str, Change, u32, [Option<u64>; 2]); 9] = [
            ("100/min", |_| {}, 3, [Some(133), Some(199)]),
            ("100/min", |_| {}, 1, [Some(200), Some(200)]),
            ("100/min", |_| {}, 200, [Some(100), Some(100)]),
            ("100/min", |policy| policy.set_consistency(Consistency::Strict), 3, [Some(100), Some(100)]),
            ("100/min", |policy| policy.set_consistency(Consistency::Eventual), 3, [Some(100), Some(100)]),
            ("100/min", |policy| policy.on_failure = OnFailure::Closed, 3, [Some(100), Some(100)]),
            ("100/min", |policy| policy.on_failure = OnFailure::Open, 3, [None, None]),
            ("100/min", limit, 3, [Some(115), Some(145)]),
            ("100/min", |policy| policy.algorithm = Algorithm::Concurrency, 3, [Some(100), Some(100)]),
        ];
        for (place, (quota, change, agents, bounds)) in cases.into_iter().enumerate() {
            let mut policy = LimitPolicy::of(quota.parse().expect("a quota"));
            change(&mut policy);
            let of = |late| policy.most_while_late(late, NonZeroU32::new(agents).unwrap());
            assert_eq!([of(1), of(agents)], bounds, "case {place}");
        }
    }
}
