//! A run of heartbeats that arrive without a longer gap: the proof that their source works.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::GAP_MS_MAX;

/// Gap between heartbeats that ends a streak, in ms.
pub(super) const SILENT_MS: u64 = GAP_MS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PresenceSource {
    Bus,
    Store,
}

/// Run of heartbeats from one source. It ends when the next one is more than [`SILENT_MS`] late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    first: Timestamp,
    last: Timestamp,
}

impl PresenceSource {
    pub(super) const LEN: usize = 2;
    pub(super) const ALL: [Self; Self::LEN] = [Self::Bus, Self::Store];
}

impl Streak {
    pub(super) fn heard(&mut self, now: Timestamp) {
        if !self.goes_on(now) {
            self.first = now;
        }
        self.last = now;
    }

    /// Returns true if the last heartbeat is recent.
    pub(super) fn goes_on(&self, now: Timestamp) -> bool {
        now.ms_since(self.last) <= SILENT_MS
    }

    /// Returns the time between the first and the last heartbeat in ms; 0 once the streak has ended.
    pub(super) fn lasted_ms(&self, now: Timestamp) -> u64 {
        if self.goes_on(now) { self.last.ms_since(self.first) } else { 0 }
    }

    pub(super) fn first(&self) -> Timestamp {
        self.first
    }

    pub(super) fn last(&self) -> Timestamp {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_lasts_as_long_as_no_gap_is_longer_than_three_heartbeats() {
        let at = Timestamp::from_ms;
        let mut streak = Streak::default();
        assert!(!streak.goes_on(at(1_000_000)));
        for ms in [1_000_000, 1_001_000, 1_004_000] {
            streak.heard(at(ms));
        }
        assert_eq!(streak.lasted_ms(at(1_007_000)), 4_000);
        assert_eq!((streak.lasted_ms(at(1_007_001)), streak.goes_on(at(1_007_001))), (0, false));
        streak.heard(at(1_008_000));
        assert_eq!((streak.first(), streak.last()), (at(1_008_000), at(1_008_000)));
    }
}
