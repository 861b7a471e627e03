//! Parts of a strict counter while signals divide its units: the units that this agent may admit by parts that other agents
//! still reckon with.
//!
//! Agents have different signals at the same time. An agent that has a newer one than the others would take a part of
//! units that the others may still admit by the older one. So an agent also keeps to its part as it was in this period
//! and in the one before. The parts end with their periods, and when the store's clock steps back.

use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;

/// Length of a period, in ms: longer than the signals of two agents usually differ.
const PERIOD_MS: u64 = 250;

/// Units that may be admitted by the parts of the last two periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalParts {
    /// Period of the last admission.
    period: u64,
    /// Units left of the part at the first admission in that period, and in the one before.
    left: [u64; 2],
}

impl SignalParts {
    /// Holds an admission by this agent's part to those of the last periods. A denial ends with the two periods at the latest.
    pub(crate) fn held(&self, now: Timestamp, cost: u64, verdict: Verdict) -> Verdict {
        let left = self.left(now);
        if let Some(remaining) = left.checked_sub(cost) {
            return Verdict { remaining: verdict.remaining.min(remaining), ..verdict };
        }
        let retry_at = now.plus_ms(2 * PERIOD_MS);
        Verdict { admitted: false, remaining: left, retry_at, reset_at: verdict.reset_at.max(retry_at), delay_ms: 0 }
    }

    fn left(&self, now: Timestamp) -> u64 {
        match (now.as_ms() / PERIOD_MS).checked_sub(self.period) {
            Some(0) => self.left[0].min(self.left[1]),
            Some(1) => self.left[0],
            _ => u64::MAX,
        }
    }

    pub(crate) fn spend(&mut self, now: Timestamp, part: u64, units: u64) {
        let period = now.as_ms() / PERIOD_MS;
        match period.checked_sub(self.period) {
            Some(0) => {}
            Some(1) => self.left = [part, self.left[0]],
            _ => self.left = [part, u64::MAX],
        }
        self.period = period;
        self.left = self.left.map(|left| if left == u64::MAX { left } else { left.saturating_sub(units) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Earlier parts hold an agent, and take nothing from the parts of later periods.
    #[test]
    fn calls_in_each_period_use_a_part_that_stays_as_large() {
        let mut parts = SignalParts::default();
        for call in 0..400 {
            let now = Timestamp::from_ms(1_000_000 + 50 * call);
            let verdict = Verdict { admitted: true, remaining: 24, retry_at: now, reset_at: now, delay_ms: 0 };
            assert!(parts.held(now, 1, verdict).admitted, "call {call}");
            parts.spend(now, 25, 1);
        }
        let now = Timestamp::from_ms(1_000_000 + 50 * 400);
        let verdict = Verdict { admitted: true, remaining: 70, retry_at: now, reset_at: now, delay_ms: 0 };
        let held = parts.held(now, 30, verdict);
        assert_eq!((held.admitted, held.retry_at.ms_since(now)), (false, 500));
    }

    #[test]
    fn a_part_counts_in_its_period_and_the_next() {
        let at = |ms: u64| Timestamp::from_ms(1_000_000 + ms);
        let mut parts = SignalParts::default();
        assert_eq!(parts.left(at(0)), u64::MAX);
        parts.spend(at(10), 3, 1);
        assert_eq!((parts.left(at(11)), parts.left(at(260)), parts.left(at(500))), (2, 2, u64::MAX));
        parts.spend(at(260), 2, 1);
        assert_eq!((parts.left(at(261)), parts.left(at(510))), (1, 1));
        parts.spend(at(510), 9, 1);
        assert_eq!(parts.left(at(511)), 0, "one was left of the period before");
    }
}
