//! Demand of a region for a counter, estimated from the units that its callers asked for, admitted or not.

use tollgate_core::clock::Timestamp;

/// Time constant of the estimate, as a part of the window, and its maximum in ms.
const MEMORY_PARTS: u64 = 2;
const MEMORY_MS_MAX: u64 = 30_000;
/// Maximum time for which a lower rate is not taken as it is, in ms. Callers pause, and a budget that falls at once
/// would move with each pause.
const PAUSE_MS_MAX: u64 = 2_000;
/// Thousandths of a unit.
const MILLI: u64 = 1_000;
/// Standard deviations beyond which an interval shows another rate, which is taken as it is.
const DEVIATIONS: u64 = 4;

/// Estimate of a rate.
#[derive(Clone, Debug)]
pub(super) struct DemandMeter {
    started: Timestamp,
    since: Timestamp,
    offered: u64,
    /// Last instant at which there was a call, or may have been one.
    called_at: Timestamp,
    /// Last instant at which calls may have been missing from the counts.
    missed_at: Option<Timestamp>,
    /// Thousandths of units in a window at the estimated rate. Whole units would lose the rest of small rates in each
    /// interval.
    milli_per_window: u64,
}

impl DemandMeter {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { started: now, since: now, offered: 0, called_at: now, missed_at: None, milli_per_window: 0 }
    }

    /// Returns false while the estimate may be low only because it has just begun.
    pub(super) fn is_settled(&self, now: Timestamp, window_ms: u64) -> bool {
        self.missed_at.is_none() && now.ms_since(self.started) >= memory_ms(window_ms)
    }

    /// Notes that calls may be missing from the counts. The interval goes on until some time after the counts are
    /// complete again, because the missing calls come late, and all at once.
    pub(super) fn miss(&mut self, now: Timestamp) {
        (self.started, self.called_at, self.missed_at) = (now, now, Some(now));
    }

    pub(super) fn offer(&mut self, now: Timestamp, units: u64) {
        if units > 0 {
            self.called_at = self.called_at.max(now);
        }
        self.offered = self.offered.saturating_add(units);
    }

    /// Ends an interval. Returns the units in a window at the estimated rate.
    pub(super) fn tick(&mut self, now: Timestamp, window_ms: u64) -> u64 {
        let interval_ms = now.ms_since(self.since);
        if interval_ms == 0 {
            return self.milli_per_window / MILLI;
        }
        let observed = scaled(self.offered.saturating_mul(MILLI), window_ms, interval_ms);
        let memory_ms = memory_ms(window_ms);
        if let Some(missed_at) = self.missed_at {
            if now.ms_since(missed_at) >= memory_ms.max(PAUSE_MS_MAX) {
                // Agents may have lost a part of the calls.
                self.milli_per_window = observed.max(self.milli_per_window);
                (self.since, self.offered, self.missed_at) = (now, 0, None);
            }
            return self.milli_per_window / MILLI;
        }
        if now.ms_since(self.called_at) >= window_ms {
            // Nothing is left in the window. A small rate would fade more slowly, and its units would lie idle.
            (self.since, self.offered, self.milli_per_window) = (now, 0, 0);
            return 0;
        }
        // Independent calls deviate by the root of their number.
        let expected = scaled(self.milli_per_window, interval_ms, window_ms.saturating_mul(MILLI));
        let is_other = self.offered.abs_diff(expected) > DEVIATIONS * (expected.isqrt() + 1);
        if is_other && self.offered < expected && interval_ms < PAUSE_MS_MAX.min(memory_ms) {
            // The interval goes on.
            return self.milli_per_window / MILLI;
        }
        self.milli_per_window = if is_other || interval_ms >= memory_ms {
            observed
        } else {
            let (new, old) = (scaled(observed, interval_ms, memory_ms), memory_ms - interval_ms);
            new.saturating_add(scaled(self.milli_per_window, old, memory_ms))
        };
        (self.since, self.offered) = (now, 0);
        self.milli_per_window / MILLI
    }
}

/// Returns the units that a region with a demand asks for. Calls rarely exceed them by chance. They are fewer if the
/// quota is scarce, because other regions could use them.
pub(super) fn wanted(demand: u64, is_scarce: bool) -> u64 {
    let root = demand.isqrt();
    match (demand, is_scarce) {
        (0, _) => 0,
        (_, true) => demand.saturating_add(root / 2 + 1),
        (_, false) => demand.saturating_add(demand / 8).saturating_add(2 * root + 1),
    }
}

/// Returns the units below which a region asks for more. They are fewer than [`wanted`], or each change would make a request.
pub(super) fn needed(demand: u64, is_scarce: bool) -> u64 {
    if is_scarce || demand == 0 { demand } else { demand.saturating_add(demand.isqrt() / 2) }
}

fn memory_ms(window_ms: u64) -> u64 {
    (window_ms / MEMORY_PARTS).clamp(1, MEMORY_MS_MAX)
}

fn scaled(units: u64, by: u64, of: u64) -> u64 {
    let exact = u128::from(units) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_a_rate_over_a_window() {
        let mut meter = DemandMeter::new(Timestamp::from_ms(0));
        let mut tick = |offered, at_ms| {
            meter.offer(Timestamp::from_ms(at_ms), offered);
            meter.tick(Timestamp::from_ms(at_ms), 60_000)
        };
        assert_eq!(tick(100, 1_000), 6_000, "the first calls are taken as they are");
        assert_eq!(tick(130, 2_000), 6_060, "chance is smoothed over 30 s");
        assert_eq!(tick(130, 2_000), 6_060, "no time, no change");
        assert_eq!(tick(270, 3_000), 24_000, "a rate that chance does not explain is taken as it is");
        assert_eq!((tick(0, 4_000), tick(0, 4_999)), (24_000, 24_000), "callers may pause");
        assert_eq!(tick(0, 5_000), 0, "they pause for too long");
        assert_eq!(tick(10, 60_000), 10 * 60 / 55, "a long interval is taken as it is");
        assert_eq!(DemandMeter::new(Timestamp::default()).tick(Timestamp::from_ms(9), 10), 0);
    }

    /// 30 units in a window of 10 s: no second without calls is remarkable.
    #[test]
    fn a_demand_ends_after_a_window_without_calls() {
        let ms = Timestamp::from_ms;
        let mut meter = DemandMeter::new(ms(0));
        for now_ms in (1_000..=20_000).step_by(1_000) {
            meter.offer(ms(now_ms), 3);
            meter.tick(ms(now_ms), 10_000);
        }
        let mut at = |now_ms| meter.tick(ms(now_ms), 10_000);
        assert_eq!((21_000..=29_000).step_by(1_000).map(&mut at).last(), Some(3), "it fades");
        assert_eq!((at(29_999), at(30_000)), (3, 0));
    }

    /// The bus is away from 2 s to 12 s. The estimate of 6,000 units stays, whatever comes in the meantime.
    #[test]
    fn a_demand_is_kept_while_calls_are_missing() {
        let ms = Timestamp::from_ms;
        for (case, backlog, afterwards) in [
            ("all calls come late", 4_000, 6_000),
            ("agents have lost calls", 1_000, 6_000),
            ("no call has come", 0, 6_000),
            ("the demand has risen", 6_000, 9_000),
        ] {
            let mut meter = DemandMeter::new(ms(0));
            meter.offer(ms(2_000), 200);
            assert_eq!(meter.tick(ms(2_000), 60_000), 6_000, "{case}");
            for now_ms in (2_000..12_000).step_by(500) {
                meter.miss(ms(now_ms));
                assert_eq!(meter.tick(ms(now_ms), 60_000), 6_000, "{case}: {now_ms}");
            }
            meter.miss(ms(12_000));
            meter.offer(ms(12_000), backlog);
            assert_eq!(meter.tick(ms(12_000), 60_000), 6_000, "{case}: the backlog is no burst");
            assert_eq!(
                (meter.tick(ms(41_999), 60_000), meter.is_settled(ms(41_999), 60_000)),
                (6_000, false),
                "{case}"
            );
            let tick = meter.tick(ms(42_000), 60_000);
            assert_eq!((tick, meter.is_settled(ms(42_000), 60_000)), (afterwards, true), "{case}");
            assert_eq!(meter.tick(ms(44_000), 60_000), 0, "{case}: the callers have gone");
        }
    }

    #[test]
    fn a_region_asks_for_more_than_it_needs() {
        for (is_scarce, expected) in [(true, (100, 106)), (false, (105, 133))] {
            assert_eq!((needed(0, is_scarce), wanted(0, is_scarce)), (0, 0));
            assert_eq!((needed(100, is_scarce), wanted(100, is_scarce)), expected);
            assert_eq!((needed(u64::MAX, is_scarce), wanted(u64::MAX, is_scarce)), (u64::MAX, u64::MAX));
        }
    }
}
