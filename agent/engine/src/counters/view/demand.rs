//! Demand of a counter for leases: the units that the agent admits for calls that can spend leases on all their counters.
//!
//! Calls with a request id, in a request of several, or beside a rule without leases ask the store anyway. A lease for them would
//! be charged and never spent, so they are no demand.
//!
//! The demand is counted in periods of a sub-window, and of [`PERIOD_MS_MAX`] where sub-windows are longer. So a lease is never
//! larger than the demand of so long, whatever the window: a caller that changes its agent leaves seconds of demand behind, and
//! the rate of a caller of a daily quota is known after seconds.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;

/// Maximum time for which a lease is asked for, in ms.
const PERIOD_MS_MAX: u64 = 5_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeaseDemand {
    /// Number of the newest period with demand.
    period: u64,
    newest: u32,
    before: u32,
}

impl LeaseDemand {
    pub(super) fn add(&mut self, policy: &LimitPolicy, at: Timestamp, units: u64) {
        let period = at.as_ms() / period_ms(policy);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        if period > self.period {
            self.before = if period == self.period + 1 { self.newest } else { 0 };
            (self.period, self.newest) = (period, 0);
        }
        // An admission may count a little earlier than one that was noted before.
        if period == self.period {
            self.newest = self.newest.saturating_add(units);
        } else if period + 1 == self.period {
            self.before = self.before.saturating_add(units);
        }
    }

    /// Returns the units of the current and the previous period, and the time in which they were observed, in ms.
    pub(super) fn lately(&self, policy: &LimitPolicy, now: Timestamp) -> (u64, u64) {
        let period_ms = period_ms(policy);
        let units = match (now.as_ms() / period_ms).checked_sub(self.period) {
            Some(0) => u64::from(self.newest) + u64::from(self.before),
            Some(1) => self.newest.into(),
            _ => 0,
        };
        (units, period_ms + now.as_ms() % period_ms)
    }
}

/// Returns the time for which a lease is asked for at most, in ms.
pub(super) fn period_ms(policy: &LimitPolicy) -> u64 {
    policy.window.sub_window_ms().clamp(1, PERIOD_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000_000 + ms)
    }

    #[test]
    fn demand_is_that_of_two_periods_whatever_the_window() {
        for (quota, period) in [("100/min", 5_000), ("100/1s", 100), ("1000/d", 5_000)] {
            let policy = LimitPolicy::of(quota.parse().unwrap());
            assert_eq!(period_ms(&policy), period, "{quota}");
        }
        let policy = LimitPolicy::of("1000/d".parse().unwrap());
        let mut demand = LeaseDemand::default();
        for (ms, units) in [(0, 7), (4_999, 1), (5_000, 2), (4_000, 1)] {
            demand.add(&policy, at(ms), units);
        }
        for (ms, units, observed_ms) in
            [(5_000, 11, 5_000), (9_000, 11, 9_000), (10_000, 2, 5_000), (14_999, 2, 9_999), (15_000, 0, 5_000)]
        {
            assert_eq!(demand.lately(&policy, at(ms)), (units, observed_ms), "at {ms}");
        }
    }
}
