//! Sliding log: the timestamps of the last L admitted units. A call is admitted when the L-th last has left the window.
//!
//! Error: none. Space: 4 bytes per unit, so it suits small quotas that must be exact. Timestamps are stored as the low
//! 32 bits of their milliseconds; all of them lie within one window of the counter's last step, so none is ambiguous.

use std::collections::VecDeque;

use super::limit::Limit;
use super::verdict::Verdict;
use crate::clock::Timestamp;
use crate::window::Window;

/// Maximum quota of a rule with a log, in units.
pub const QUOTA_MAX: u64 = 10_000;
/// Maximum window of a log, in ms (24 days): ages within two such windows fit in 32 bits.
pub const WIDTH_MS_MAX: u64 = 24 * 24 * 3_600 * 1_000;

/// Admitted timestamps, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    window: Window,
    entries: VecDeque<u32>,
    pub(super) last: Timestamp,
}

impl SlidingLog {
    pub(super) fn new(window: Window) -> Self {
        Self { window, entries: VecDeque::new(), last: Timestamp::default() }
    }

    pub(super) fn window(&self) -> Window {
        self.window
    }

    pub(super) fn evaluate(&self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        let expired = self.entries.partition_point(|entry| self.has_left(*entry, now));
        let used = (self.entries.len() - expired) as u64;
        let left = limit.units.saturating_sub(used);
        if let Some(remaining) = left.checked_sub(cost) {
            let newest = if cost > 0 { Some(now) } else { self.newest() };
            return Verdict::admission(now, remaining, self.leaves_at(newest, now));
        }
        let retry_at = if cost > limit.units {
            now.plus_ms(self.window.width_ms())
        } else {
            // The last of the oldest units that must leave determines the time.
            let leaving = usize::try_from(used + cost - limit.units).unwrap_or(usize::MAX);
            self.leaves_at(self.entries.get(expired + leaving - 1).map(|entry| self.time_of(*entry)), now)
        };
        Verdict::denial(left, retry_at, self.leaves_at(self.newest(), now))
    }

    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        if at.plus_ms(self.window.width_ms()) <= self.last {
            return;
        }
        self.move_to(self.last.max(at));
        let index = self.entries.partition_point(|entry| self.time_of(*entry) <= at);
        let units = usize::try_from(units.min(QUOTA_MAX)).unwrap_or(usize::MAX);
        let later = self.entries.split_off(index);
        self.entries.extend(std::iter::repeat_n(low_bits(at), units));
        self.entries.extend(later);
        // Only the last L units affect decisions.
        let excess = self.entries.len().saturating_sub(usize::try_from(QUOTA_MAX).unwrap_or(usize::MAX));
        self.entries.drain(..excess);
    }

    /// Removes up to `units` entries with exactly this timestamp.
    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        let from = self.entries.partition_point(|entry| self.time_of(*entry) < at);
        let through = self.entries.partition_point(|entry| self.time_of(*entry) <= at);
        let units = usize::try_from(units).unwrap_or(usize::MAX).min(through - from);
        self.entries.drain(from..from + units);
    }

    /// Returns the number of entries.
    pub(super) fn held(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns the number of entries in the sub-window of `at`.
    pub(super) fn held_around(&self, at: Timestamp) -> u64 {
        let sub_window = self.window.sub_window(at);
        let (start, end) = (self.window.start_of(sub_window), self.window.start_of(sub_window + 1));
        let before = |bound: Timestamp| self.entries.partition_point(|entry| self.time_of(*entry) < bound);
        (before(end) - before(start)) as u64
    }

    /// Drops the entries that have left the window by `now`, while their low bits are still unambiguous.
    pub(super) fn move_to(&mut self, now: Timestamp) {
        let expired = self.entries.partition_point(|entry| self.has_left(*entry, now));
        self.entries.drain(..expired);
        self.last = now;
    }

    pub(super) fn rebase(&mut self, now: Timestamp) {
        let back = low_bits(self.last).wrapping_sub(low_bits(now));
        self.entries.iter_mut().for_each(|entry| *entry = entry.wrapping_sub(back));
        self.last = now;
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.newest().is_none_or(|newest| newest.plus_ms(self.window.width_ms()) <= now)
    }

    pub(super) fn admitted(&self) -> Vec<(Timestamp, u64)> {
        self.entries.iter().map(|entry| (self.time_of(*entry), 1)).collect()
    }

    fn newest(&self) -> Option<Timestamp> {
        self.entries.back().map(|entry| self.time_of(*entry))
    }

    fn time_of(&self, entry: u32) -> Timestamp {
        self.last.minus_ms(u64::from(low_bits(self.last).wrapping_sub(entry)))
    }

    fn has_left(&self, entry: u32, now: Timestamp) -> bool {
        self.time_of(entry).plus_ms(self.window.width_ms()) <= now
    }

    /// Returns the instant at which a unit admitted at `admitted` leaves the window, or `now` without one.
    fn leaves_at(&self, admitted: Option<Timestamp>, now: Timestamp) -> Timestamp {
        admitted.map_or(now, |at| at.plus_ms(self.window.width_ms()).max(now))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the low bits are stored")]
fn low_bits(at: Timestamp) -> u32 {
    at.as_ms() as u32
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, CounterState};
    use super::*;

    const DAY_MS: u64 = 24 * 3_600 * 1_000;

    fn login() -> Limit {
        Limit { algorithm: Algorithm::SlidingLog, units: 2, window: Window::new(10, 1).unwrap(), burst: 0 }
    }

    /// A1: a unit admitted exactly W ago has left the window.
    #[test]
    fn the_first_call_after_the_oldest_leaves_passes() {
        let mut state = CounterState::new(&login());
        let mut admitted = |ms| state.step(&login(), Timestamp::from_ms(ms), 1).admitted;
        assert_eq!(
            [admitted(100), admitted(104), admitted(109), admitted(110), admitted(113)],
            [true, true, false, true, false]
        );
    }

    #[test]
    fn a_counter_idle_for_more_than_32_bits_is_empty() {
        let mut state = CounterState::new(&login());
        let start = 3 * 49 * DAY_MS - 5;
        assert!(state.step(&login(), Timestamp::from_ms(start), 2).admitted);
        assert!(!state.step(&login(), Timestamp::from_ms(start + 9), 1).admitted, "across the wrap of 32 bits");
        assert!(state.step(&login(), Timestamp::from_ms(start + (1 << 32) + 3), 2).admitted);
    }

    #[test]
    fn late_units_are_charged_at_their_own_time() {
        let mut state = CounterState::new(&login());
        state.charge(Timestamp::from_ms(108), 1);
        state.charge(Timestamp::from_ms(102), 1);
        let refused = state.step(&login(), Timestamp::from_ms(109), 1);
        assert_eq!((refused.admitted, refused.retry_at), (false, Timestamp::from_ms(112)));
    }
}
