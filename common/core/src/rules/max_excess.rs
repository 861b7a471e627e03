//! The maximum excess of a policy: units beyond the quota that a window may hold while the store answers, because agents admit
//! calls before the store has charged them.

use super::{Consistency, LimitPolicy, OnFailure};
use crate::algorithm::{Algorithm, Limit};
use crate::window::Estimate;

impl LimitPolicy {
    /// Returns the maximum units that a window may hold beyond the quota because agents admit calls before the store has charged
    /// them.
    #[must_use]
    pub fn excess_units(&self) -> u64 {
        let has_lines = self.may_lease() && self.consistency == Consistency::Bounded;
        let units = u128::from(self.quota.units()) * u128::from(self.max_excess_ppm) / 1_000_000;
        if has_lines { u64::try_from(units).unwrap_or(u64::MAX) } else { 0 }
    }

    /// Returns the limit of the counter that holds the lines of credit; none if agents have no lines. A unit of a line leaves it
    /// a window after the sub-window in which the line ends.
    #[doc(hidden)]
    #[must_use]
    pub fn line_limit(&self) -> Option<Limit> {
        let units = self.excess_units();
        // Also for fixed windows: an edge has no second excess.
        let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
        (units > 0).then_some(Limit { algorithm, units, window: self.window, burst: 0 })
    }

    /// Returns the largest number of units that a window holds while the store answers in time, as the algorithm and
    /// its estimate count them.
    #[doc(hidden)]
    #[must_use]
    pub fn most_with_store(&self) -> u64 {
        self.most_in_window().saturating_add(self.excess_units())
    }

    /// Returns true if agents admit calls whose answer from the store is late without a charged or granted unit. Such
    /// calls come on top of the units that a window holds while the store answers.
    #[doc(hidden)]
    #[must_use]
    pub fn admits_late_calls(&self) -> bool {
        self.on_failure == OnFailure::Open && self.consistency != Consistency::Eventual
    }

    /// Returns the largest number of units that any window holds while the store answers in time.
    #[doc(hidden)]
    #[must_use]
    pub fn most_at_worst(&self) -> u64 {
        self.most_with_store().saturating_add(self.edge_units())
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C5: the bound is a whole number of units, and 0 where the store decides each admission.
    #[test]
    fn the_excess_is_a_part_of_the_quota_where_agents_have_lines() {
        type Change = fn(&mut LimitPolicy);
        let cases: [(&str, Change, u64); 8] = [
            ("100/min", |_| {}, 5),
            ("19/min", |_| {}, 0),
            ("1000/min", |policy| policy.max_excess_ppm = 15_500, 15),
            ("1000/min", |policy| policy.max_excess_ppm = 0, 0),
            ("1000/min", |policy| policy.leases = false, 0),
            ("1000/min", |policy| policy.set_consistency(Consistency::Strict), 0),
            ("1000/min", |policy| policy.set_consistency(Consistency::Eventual), 0),
            ("1000/min", |policy| *policy = policy.counted_by(Algorithm::TokenBucket), 0),
        ];
        for (place, (quota, change, units)) in cases.into_iter().enumerate() {
            let mut policy = LimitPolicy::of(quota.parse().expect("a quota"));
            change(&mut policy);
            assert_eq!(policy.excess_units(), units, "case {place}");
            assert_eq!(policy.line_limit().map_or(0, |limit| limit.units), units, "case {place}");
        }
    }
}
