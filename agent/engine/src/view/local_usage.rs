//! Local usage: what the agent itself has admitted on one counter.
//!
//! The same units are kept in three forms: per sub-window for the last W (`on_failure: share`), those that no signal contains
//! yet (answers by signal), and those that the store does not know and must be backfilled.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::window::{Estimate, Ring, Window};

/// Maximum number of entries of units that no signal contains; past the cap the two oldest become one.
const UNCOVERED_LEN_MAX: usize = 64;
/// Maximum number of entries of unsynced units; past the cap units of neighbouring times become one.
const UNSYNCED_LEN_MAX: usize = 128;

/// Number of the batch that publishes a charge, within this life of the agent and the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sequence {
    /// In this batch.
    Batch(u64),
    /// In no known batch: dropped, or not handed over yet.
    Unknown,
}

/// The agent's own batches that a signal contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoveredBatches {
    /// No batch up to this one is known to be contained.
    pub(crate) none_through: u64,
    /// All later ones up to this one are contained,
    pub(crate) through: u64,
    /// except these, which never reached the log.
    pub(crate) lost: Vec<u64>,
}

/// Units that were admitted without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// Instant of the admission in store time; never too early.
    pub(crate) at: Timestamp,
    /// Number of units.
    pub(crate) units: u64,
}

/// Units that the agent itself has admitted on one counter.
#[derive(Clone, Debug)]
pub(crate) struct LocalUsage {
    ring: Ring,
    uncovered: VecDeque<Uncovered>,
    unsynced: VecDeque<Unsynced>,
    /// Number of the oldest unsynced entries that are being backfilled. They do not change until the store has answered.
    sent: usize,
}

/// Units that no signal contains yet.
#[derive(Clone, Copy, Debug)]
struct Uncovered {
    /// First and last batch that publish some of them.
    first: Sequence,
    last: Sequence,
    at: Timestamp,
    units: u64,
}

impl CoveredBatches {
    /// Returns true if all batches of a range are contained.
    fn covers(&self, first: Sequence, last: Sequence) -> bool {
        let (Sequence::Batch(first), Sequence::Batch(last)) = (first, last) else {
            return false;
        };
        let is_lost = self.lost.iter().any(|lost| (first..=last).contains(lost));
        self.none_through < first && last <= self.through && !is_lost
    }
}

impl LocalUsage {
    /// Creates an empty record; the last W is that of this window.
    #[must_use]
    pub(crate) fn new(window: Window) -> Self {
        Self { ring: Ring::new(window), uncovered: VecDeque::new(), unsynced: VecDeque::new(), sent: 0 }
    }

    /// Converts the record to another window; units move to the end of their sub-window, so that none leaves too early.
    pub(crate) fn fit(&mut self, window: Window) {
        if self.ring.window() != window {
            self.ring = self.ring.carried_to(window);
        }
    }

    /// Enters units that were admitted at `at`.
    pub(crate) fn admit(&mut self, at: Timestamp, units: u64, sequence: Sequence) {
        self.ring.add(self.ring.window().sub_window(at), units);
        match self.uncovered.back_mut() {
            Some(newest) if newest.last == sequence && sequence != Sequence::Unknown => {
                newest.units += units;
                newest.at = newest.at.max(at);
            }
            _ => self.uncovered.push_back(Uncovered { first: sequence, last: sequence, at, units }),
        }
        if self.uncovered.len() > UNCOVERED_LEN_MAX {
            self.merge_oldest();
        }
    }

    /// Sets the batch of units that were admitted before it was known.
    pub(super) fn published(&mut self, at: Timestamp, units: u64, sequence: Sequence) {
        let unknown =
            |entry: &&mut Uncovered| entry.last == Sequence::Unknown && entry.at == at && entry.units == units;
        if let Some(entry) = self.uncovered.iter_mut().rev().find(unknown) {
            (entry.first, entry.last) = (sequence, sequence);
        }
    }

    /// Removes units that were refunded.
    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        self.ring.subtract(self.ring.window().sub_window(at), units);
        let newest = self.uncovered.iter().rposition(|entry| entry.at == at && entry.units == units);
        newest.map(|index| self.uncovered.remove(index));
    }

    /// Enters units that must be backfilled.
    pub(super) fn add_unsynced(&mut self, at: Timestamp, units: u64) {
        // When there are many entries, units of neighbouring times become one; the later time is never too early.
        let unsent = self.unsynced.len() - self.sent;
        let near_ms = if unsent < UNSYNCED_LEN_MAX { 0 } else { self.ring.window().part_ms() };
        match self.unsynced.back_mut() {
            Some(newest) if unsent > 0 && at.ms_since(newest.at) <= near_ms => {
                newest.at = newest.at.max(at);
                newest.units += units;
            }
            _ => self.unsynced.push_back(Unsynced { at, units }),
        }
        if self.unsynced.len() - self.sent > UNSYNCED_LEN_MAX {
            self.unsynced.remove(self.sent);
        }
    }

    /// Returns true if units must be backfilled.
    #[must_use]
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Returns the unsynced units that are not being backfilled, oldest first.
    pub(super) fn unsynced(&self) -> impl Iterator<Item = Unsynced> + '_ {
        self.unsynced.iter().skip(self.sent).copied()
    }

    /// Returns true if at least so many units of exactly this instant are unsynced and not being backfilled.
    pub(super) fn has_unsynced_of(&self, at: Timestamp, units: u64) -> bool {
        self.position_of(at, units).is_some()
    }

    /// Removes unsynced units of exactly this instant that are not being backfilled.
    pub(super) fn remove_unsynced(&mut self, at: Timestamp, units: u64) {
        if let Some(position) = self.position_of(at, units) {
            self.unsynced[position].units -= units;
            if self.unsynced[position].units == 0 {
                self.unsynced.remove(position);
            }
        }
    }

    /// Marks all unsynced units as sent to the store.
    pub(super) fn backfill_sent(&mut self) {
        self.sent = self.unsynced.len();
    }

    /// Removes the units that were sent: the store has charged them.
    pub(super) fn backfill_charged(&mut self) {
        self.unsynced.drain(..self.sent);
        self.sent = 0;
    }

    /// Keeps the units that were sent: the store has not charged them.
    pub(super) fn backfill_failed(&mut self) {
        self.sent = 0;
    }

    /// Removes all unsynced units.
    pub(super) fn drop_unsynced(&mut self) {
        self.unsynced.clear();
        self.sent = 0;
    }

    /// Returns the units admitted in the last W.
    #[must_use]
    pub(crate) fn used(&self, now: Timestamp) -> u64 {
        self.ring.used(now, Estimate::Conservative)
    }

    /// Returns the instant at which at most `units` of them are left.
    #[must_use]
    pub(crate) fn falls_to(&self, units: u64, now: Timestamp) -> Timestamp {
        self.ring.falls_to(units, now, Estimate::Conservative)
    }

    /// Returns the units admitted in the last `width_ms` that no signal contains, and forgets the others.
    pub(crate) fn uncovered(&mut self, covered: &CoveredBatches, now: Timestamp, width_ms: u64) -> u64 {
        self.uncovered.retain(|entry| !covered.covers(entry.first, entry.last) && entry.at.plus_ms(width_ms) > now);
        self.uncovered.iter().map(|entry| entry.units).sum()
    }

    /// Returns true if nothing here matters any more.
    #[must_use]
    pub(crate) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.unsynced.is_empty() && self.ring.is_empty_at(now)
    }

    /// Merges the two oldest entries into one, which is covered when all batches from the first to the last are.
    fn merge_oldest(&mut self) {
        if let (Some(oldest), Some(second)) = (self.uncovered.pop_front(), self.uncovered.front_mut()) {
            second.units += oldest.units;
            second.at = second.at.max(oldest.at);
            second.first = second.first.min(oldest.first);
            second.last = second.last.max(oldest.last);
        }
    }

    fn position_of(&self, at: Timestamp, units: u64) -> Option<usize> {
        let is_meant = |unsynced: &Unsynced| unsynced.at == at && unsynced.units >= units;
        self.unsynced.iter().skip(self.sent).position(is_meant).map(|position| position + self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn local() -> LocalUsage {
        LocalUsage::new(Window::new(1_000, 10).unwrap())
    }

    /// E8: units that a signal contains are not counted again.
    #[test]
    fn units_count_beyond_the_signal_until_their_batch_is_counted() {
        let mut local = local();
        local.admit(at(10), 2, Sequence::Batch(1));
        local.admit(at(20), 3, Sequence::Batch(2));
        local.admit(at(30), 5, Sequence::Unknown);
        local.published(at(30), 5, Sequence::Batch(3));
        let covered = |through, lost: &[u64]| CoveredBatches { none_through: 0, through, lost: lost.to_vec() };
        assert_eq!(local.uncovered(&covered(0, &[]), at(40), 1_000), 10);
        assert_eq!(local.uncovered(&covered(1, &[]), at(40), 1_000), 8);
        assert_eq!(local.uncovered(&covered(3, &[2]), at(40), 1_000), 3, "a lost batch is never covered");
        assert_eq!(local.uncovered(&covered(3, &[2]), at(1_020), 1_000), 0, "until it leaves the window");
        assert_eq!(local.used(at(40)), 10);
    }

    #[test]
    fn many_batches_are_kept_in_little_space_and_never_forgotten() {
        let mut local = local();
        for number in 1..=1_000 {
            local.admit(at(number), 1, Sequence::Batch(number));
        }
        assert!(local.uncovered.len() <= UNCOVERED_LEN_MAX);
        let through = CoveredBatches { through: 990, ..CoveredBatches::default() };
        assert!(local.uncovered(&through, at(1_000), 5_000) >= 10);
    }

    #[test]
    fn a_lost_batch_stays_uncovered_when_its_entry_is_merged() {
        let mut local = local();
        for number in 1..=200 {
            local.admit(at(number), 1, Sequence::Batch(number));
        }
        let covered = CoveredBatches { none_through: 0, through: 200, lost: vec![5] };
        assert!(local.uncovered(&covered, at(200), 5_000) >= 1);
    }

    #[test]
    fn units_are_unsynced_until_the_store_has_charged_them() {
        let mut local = local();
        local.add_unsynced(at(10), 2);
        assert_eq!(local.unsynced().collect::<Vec<_>>(), [Unsynced { at: at(10), units: 2 }]);
        local.backfill_sent();
        local.add_unsynced(at(10), 3);
        assert_eq!(local.unsynced().map(|unsynced| unsynced.units).sum::<u64>(), 3, "units are sent once");
        assert!(local.has_unsynced_of(at(10), 3) && !local.has_unsynced_of(at(10), 4));
        local.backfill_charged();
        assert_eq!(local.unsynced().collect::<Vec<_>>(), [Unsynced { at: at(10), units: 3 }]);
        local.backfill_sent();
        local.backfill_failed();
        local.remove_unsynced(at(10), 3);
        assert!(!local.has_unsynced());
    }

    #[test]
    fn units_that_another_counter_denied_are_removed() {
        let mut local = local();
        local.admit(at(10), 2, Sequence::Unknown);
        local.refund(at(10), 2);
        assert_eq!((local.used(at(10)), local.uncovered(&CoveredBatches::default(), at(10), 1_000)), (0, 0));
    }
}
