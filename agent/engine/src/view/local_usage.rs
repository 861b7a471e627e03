//! What an agent itself has admitted on one counter.
//!
//! Three views of the same units: per sub-window for the last W (`on_failure: share`), those that the signals do not count
//! yet (answers by signal), and those that the store was never asked for and must be told when it is back.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::window::{Estimate, Ring, Window};

/// Entries of units that signals do not count yet; past that the two oldest become one.
const UNCOVERED_LEN_MAX: usize = 64;
/// Entries that the store must be told; past that units of neighbouring times become one.
const OWED_LEN_MAX: usize = 128;

/// The number of the batch that publishes something, within this life of the agent and the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sequence {
    /// In this batch.
    Batch(u64),
    /// In none that is known: dropped, or not handed over yet.
    Unknown,
}

/// Which of the agent's own batches a signal counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoveredBatches {
    /// None up to this one...
    pub(crate) none_through: u64,
    /// ...then all up to this one...
    pub(crate) through: u64,
    /// ...but these, which never reached the log.
    pub(crate) lost: Vec<u64>,
}

/// Units that passed without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// When, in the store's time; never before it happened.
    pub(crate) at: Timestamp,
    /// How many.
    pub(crate) units: u64,
}

/// What an agent itself has admitted on one counter.
#[derive(Clone, Debug)]
pub(crate) struct LocalUsage {
    ring: Ring,
    uncovered: VecDeque<Uncovered>,
    unsynced: VecDeque<Unsynced>,
    /// How many of the oldest debts are being paid: they are neither changed nor forgotten until that is known.
    paying: usize,
}

#[derive(Clone, Copy, Debug)]
struct Uncovered {
    /// The first batch that publishes some of it, and the last.
    first: Sequence,
    sequence: Sequence,
    at: Timestamp,
    units: u64,
}

impl CoveredBatches {
    /// Whether all batches of a range are counted.
    fn covers(&self, first: Sequence, last: Sequence) -> bool {
        let (Sequence::Batch(first), Sequence::Batch(last)) = (first, last) else {
            return false;
        };
        let all_there = !self.lost.iter().any(|lost| (first..=last).contains(lost));
        self.none_through < first && last <= self.through && all_there
    }
}

impl LocalUsage {
    /// Nothing yet; the last W is that of this window.
    #[must_use]
    pub(crate) fn new(window: Window) -> Self {
        Self { ring: Ring::new(window), uncovered: VecDeque::new(), unsynced: VecDeque::new(), paying: 0 }
    }

    /// Keeps what was admitted when the window changed; units move to the end of their sub-window, never to be too early.
    pub(crate) fn fit(&mut self, window: Window) {
        if self.ring.window() != window {
            self.ring = self.ring.carried_to(window);
        }
    }

    /// Enters units that passed at `at`.
    pub(crate) fn admit(&mut self, at: Timestamp, units: u64, sequence: Sequence) {
        self.ring.add(self.ring.window().sub_window(at), units);
        match self.uncovered.back_mut() {
            Some(last) if last.sequence == sequence && sequence != Sequence::Unknown => {
                last.units += units;
                last.at = last.at.max(at);
            }
            _ => self.uncovered.push_back(Uncovered { first: sequence, sequence, at, units }),
        }
        if self.uncovered.len() > UNCOVERED_LEN_MAX {
            self.merge_oldest();
        }
    }

    /// Says in which batch units are that were admitted before that was known.
    pub(crate) fn published(&mut self, at: Timestamp, units: u64, sequence: Sequence) {
        let unknown =
            |entry: &&mut Uncovered| entry.sequence == Sequence::Unknown && entry.at == at && entry.units == units;
        if let Some(entry) = self.uncovered.iter_mut().rev().find(unknown) {
            (entry.first, entry.sequence) = (sequence, sequence);
        }
    }

    /// Takes back units of a call that another counter denied.
    pub(crate) fn refund(&mut self, at: Timestamp, units: u64) {
        self.ring.subtract(self.ring.window().sub_window(at), units);
        let last = self.uncovered.iter().rposition(|entry| entry.at == at && entry.units == units);
        last.map(|index| self.uncovered.remove(index));
    }

    /// Remembers that the store must be told of units.
    pub(crate) fn owe(&mut self, at: Timestamp, units: u64) {
        // When there are many entries, units of neighbouring times become one; the later time is never too early.
        let unpaid = self.unsynced.len() - self.paying;
        let near_ms = if unpaid < OWED_LEN_MAX { 0 } else { self.ring.window().part_ms() };
        match self.unsynced.back_mut() {
            Some(last) if unpaid > 0 && at.ms_since(last.at) <= near_ms => {
                last.at = last.at.max(at);
                last.units += units;
            }
            _ => self.unsynced.push_back(Unsynced { at, units }),
        }
        if self.unsynced.len() - self.paying > OWED_LEN_MAX {
            self.unsynced.remove(self.paying);
        }
    }

    /// Whether the store must be told something.
    #[must_use]
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// What the store must be told. It stays unsynced until [`LocalUsage::paid`] or [`LocalUsage::unpaid`].
    pub(crate) fn pay(&mut self) -> Vec<Unsynced> {
        let unsent = self.unsynced.iter().skip(self.paying).copied().collect();
        self.paying = self.unsynced.len();
        unsent
    }

    /// Forgets units of this very time that are unsynced and not being paid, if there are so many.
    pub(crate) fn forgive(&mut self, at: Timestamp, units: u64) -> bool {
        let unsynced = |unsynced: &Unsynced| unsynced.at == at && unsynced.units >= units;
        let Some(place) = self.unsynced.iter().skip(self.paying).position(unsynced).map(|place| place + self.paying)
        else {
            return false;
        };
        self.unsynced[place].units -= units;
        if self.unsynced[place].units == 0 {
            self.unsynced.remove(place);
        }
        true
    }

    /// The store was told what [`LocalUsage::pay`] returned.
    pub(crate) fn paid(&mut self) {
        self.unsynced.drain(..self.paying);
        self.paying = 0;
    }

    /// The store was not told.
    pub(crate) fn unpaid(&mut self) {
        self.paying = 0;
    }

    /// The store will never be told.
    pub(crate) fn forget_debts(&mut self) {
        self.unsynced.clear();
        self.paying = 0;
    }

    /// Units admitted in the last W.
    #[must_use]
    pub(crate) fn used(&self, now: Timestamp) -> u64 {
        self.ring.used(now, Estimate::Conservative)
    }

    /// When at most `units` of them are left.
    #[must_use]
    pub(crate) fn falls_to(&self, units: u64, now: Timestamp) -> Timestamp {
        self.ring.falls_to(units, now, Estimate::Conservative)
    }

    /// Units admitted in the last `width_ms` that the signals do not count yet.
    pub(crate) fn uncovered(&mut self, covered: &CoveredBatches, now: Timestamp, width_ms: u64) -> u64 {
        self.uncovered.retain(|entry| !covered.covers(entry.first, entry.sequence) && entry.at.plus_ms(width_ms) > now);
        self.uncovered.iter().map(|entry| entry.units).sum()
    }

    /// Whether nothing here matters any more.
    #[must_use]
    pub(crate) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.unsynced.is_empty() && self.ring.is_empty_at(now)
    }

    /// Two entries become one that is covered when all batches from the one to the other are.
    fn merge_oldest(&mut self) {
        if let (Some(oldest), Some(second)) = (self.uncovered.pop_front(), self.uncovered.front_mut()) {
            second.units += oldest.units;
            second.at = second.at.max(oldest.at);
            second.first = second.first.min(oldest.first);
            second.sequence = second.sequence.max(oldest.sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn own() -> LocalUsage {
        LocalUsage::new(Window::new(1_000, 10).unwrap())
    }

    /// E8: what the signal counts is not counted again.
    #[test]
    fn units_count_beyond_the_signal_until_their_batch_is_counted() {
        let mut own = own();
        own.admit(at(10), 2, Sequence::Batch(1));
        own.admit(at(20), 3, Sequence::Batch(2));
        own.admit(at(30), 5, Sequence::Unknown);
        own.published(at(30), 5, Sequence::Batch(3));
        let covered = |through, lost: &[u64]| CoveredBatches { none_through: 0, through, lost: lost.to_vec() };
        assert_eq!(own.uncovered(&covered(0, &[]), at(40), 1_000), 10);
        assert_eq!(own.uncovered(&covered(1, &[]), at(40), 1_000), 8);
        assert_eq!(own.uncovered(&covered(3, &[2]), at(40), 1_000), 3, "a lost batch is never covered");
        assert_eq!(own.uncovered(&covered(3, &[2]), at(1_020), 1_000), 0, "until it leaves the window");
        assert_eq!(own.used(at(40)), 10);
    }

    #[test]
    fn many_batches_are_kept_in_little_space_and_never_forgotten() {
        let mut own = own();
        for number in 1..=1_000 {
            own.admit(at(number), 1, Sequence::Batch(number));
        }
        assert!(own.uncovered.len() <= UNCOVERED_LEN_MAX);
        let through = CoveredBatches { through: 990, ..CoveredBatches::default() };
        assert!(own.uncovered(&through, at(1_000), 5_000) >= 10);
    }

    #[test]
    fn a_lost_batch_stays_uncovered_when_its_entry_is_merged() {
        let mut own = own();
        for number in 1..=200 {
            own.admit(at(number), 1, Sequence::Batch(number));
        }
        let covered = CoveredBatches { none_through: 0, through: 200, lost: vec![5] };
        assert!(own.uncovered(&covered, at(200), 5_000) >= 1);
    }

    #[test]
    fn a_debt_is_owed_until_it_is_paid() {
        let mut own = own();
        own.owe(at(10), 2);
        assert_eq!(own.pay(), [Unsynced { at: at(10), units: 2 }]);
        own.owe(at(10), 3);
        assert!(own.has_unsynced());
        own.unpaid();
        assert_eq!(own.pay().len(), 2, "what comes while paying is another debt");
        own.paid();
        assert!(!own.has_unsynced());
    }

    #[test]
    fn what_another_counter_denied_is_taken_back() {
        let mut own = own();
        own.admit(at(10), 2, Sequence::Unknown);
        own.refund(at(10), 2);
        assert_eq!((own.used(at(10)), own.uncovered(&CoveredBatches::default(), at(10), 1_000)), (0, 0));
    }
}
