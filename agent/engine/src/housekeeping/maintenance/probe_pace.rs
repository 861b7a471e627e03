//! Pace of the probes: a store that answers pings and then no calls, again and again, is probed less and less often,
//! because each attempt costs calls their deadline. With two probes a second, it has all units within a second of its
//! return. The first connection has its own time, in which calls wait for it until their deadlines, and a ping that is
//! not answered says nothing.

use tollgate_core::clock::Timestamp;

/// Interval between probes of a store that does not answer, in ms.
const PROBE_INTERVAL_MS: u64 = 10;
/// Time after the store was found within which another loss is a relapse, in ms.
const RELAPSE_MS: u64 = 1_000;
/// Maximum pause after a relapse, in ms.
const PAUSE_MS_MAX: u64 = 500;
/// Time from the first miss in which the first connection to the store may still be in progress, in ms.
const CONNECTING_MS_MAX: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct ProbePace {
    pub(super) probe_at: Timestamp,
    found_at: Option<Timestamp>,
    pause_ms: u64,
    missed_first: Option<Timestamp>,
}

impl ProbePace {
    pub(super) fn is_connecting(&self, now: Timestamp) -> bool {
        let has_time = self.missed_first.is_some_and(|first| now.ms_since(first) < CONNECTING_MS_MAX);
        has_time && self.found_at.is_none()
    }

    /// Records that the store answered a probe. If it had no room for some units, the next probe comes as after a relapse.
    pub(super) fn found(&mut self, now: Timestamp, are_units_left: bool) {
        let is_soon = |found_at| now.ms_since(found_at) < RELAPSE_MS + self.pause_ms;
        let relapsed = are_units_left || self.found_at.is_some_and(is_soon);
        self.pause_ms = if relapsed { (2 * self.pause_ms).clamp(PROBE_INTERVAL_MS, PAUSE_MS_MAX) } else { 0 };
        self.found_at = Some(now);
        self.probe_at = now.plus_ms(self.pause_ms);
    }

    pub(super) fn missed(&mut self, now: Timestamp) {
        self.missed_first.get_or_insert(now);
        self.probe_at = now.plus_ms(PROBE_INTERVAL_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn a_store_that_relapses_is_probed_less_and_less_often() {
        let mut pace = ProbePace::default();
        pace.found(at(10_000), false);
        let mut pauses = Vec::new();
        let mut now = at(10_000);
        for _ in 0..12 {
            now = pace.probe_at.plus_ms(20);
            pace.found(now, false);
            pauses.push(pace.probe_at.ms_since(now));
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 500, 500, 500, 500, 500, 500]);
        pace.found(now.plus_ms(RELAPSE_MS + PAUSE_MS_MAX), false);
        assert_eq!(pace.probe_at, now.plus_ms(RELAPSE_MS + PAUSE_MS_MAX), "it held for a while");
        pace.found(now.plus_ms(60_000), true);
        assert_eq!(pace.probe_at, now.plus_ms(60_010), "it had no room");
    }

    #[test]
    fn the_first_connection_is_in_progress_until_the_store_was_found_or_its_time_is_over() {
        let mut pace = ProbePace::default();
        assert!(!pace.is_connecting(at(10_000)), "nothing was missed");
        pace.missed(at(10_000));
        pace.missed(at(10_060));
        assert!(pace.is_connecting(at(10_999)) && !pace.is_connecting(at(11_000)));
        pace.found(at(10_500), false);
        pace.missed(at(10_600));
        assert!(!pace.is_connecting(at(10_700)), "it was made");
    }

    #[test]
    fn a_silent_store_is_probed_at_a_steady_pace() {
        let mut pace = ProbePace::default();
        assert_eq!(pace.probe_at, at(0));
        pace.missed(at(1_000));
        assert_eq!(pace.probe_at, at(1_010));
    }
}
