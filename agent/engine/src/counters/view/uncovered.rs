//! Units that the agent has admitted and that no signal contains yet. They count beyond the signal (E8).
//!
//! Each entry names the rounds that publish its units, so that an entry is dropped once signals contain all batches of these
//! rounds. Other forms of the same units are in [`local_usage`](super::local_usage).

use std::collections::{BTreeSet, VecDeque};

use tollgate_core::clock::Timestamp;

/// Maximum number of entries of units that no signal contains; past the cap the two oldest become one.
const UNCOVERED_LEN_MAX: usize = 64;

/// Number of the round that publishes a charge at the latest, within this life of the agent. An agent without a bus has none:
/// it gets no signals, and needs no entries.
pub(crate) type RoundNumber = Option<u64>;

/// Stands for the round of a charge that was dropped. No signal contains it.
pub(crate) const UNPUBLISHED: u64 = u64::MAX;
/// Stands for the round of a charge that is not handed over yet.
pub(super) const NOT_HANDED_OVER: u64 = 0;

/// The agent's own rounds whose rows for a partition signals contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoveredRounds {
    /// Last round of those that never count as contained, because too many batches were lost or the log was recreated.
    pub(crate) none_through: u64,
    /// Later rounds up to this one are contained, unless rows of them are lost.
    pub(crate) through: u64,
    /// Rounds of which rows never reached the log.
    pub(crate) lost: BTreeSet<u64>,
}

/// Units that no signal contains yet, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct UncoveredUnits {
    entries: VecDeque<Uncovered>,
}

/// Units of neighbouring rounds.
#[derive(Clone, Copy, Debug)]
struct Uncovered {
    /// First and last round that publish some of them.
    first: u64,
    last: u64,
    at: Timestamp,
    units: u64,
}

impl CoveredRounds {
    fn covers(&self, first: u64, last: u64) -> bool {
        self.none_through < first && last <= self.through && self.lost.range(first..=last).next().is_none()
    }
}

impl Uncovered {
    /// Returns true if the units were admitted in the last `width_ms` and are not all contained.
    fn counts(&self, covered: &CoveredRounds, now: Timestamp, width_ms: u64) -> bool {
        !covered.covers(self.first, self.last) && self.at.plus_ms(width_ms) > now
    }
}

impl UncoveredUnits {
    pub(super) fn admit(&mut self, at: Timestamp, units: u64, round: u64) {
        match self.entries.back_mut() {
            Some(newest) if newest.last == round && round != NOT_HANDED_OVER => {
                newest.units += units;
                newest.at = newest.at.max(at);
            }
            _ => {
                // Most counters have one at a time.
                self.entries.reserve_exact(usize::from(self.entries.is_empty()));
                self.entries.push_back(Uncovered { first: round, last: round, at, units });
            }
        }
        if self.entries.len() > UNCOVERED_LEN_MAX {
            self.merge_oldest();
        }
    }

    /// Sets the round of units that were admitted before it was known.
    pub(super) fn published(&mut self, at: Timestamp, units: u64, round: RoundNumber) {
        let is_of_charge = |entry: &Uncovered| entry.last == NOT_HANDED_OVER && entry.at == at && entry.units == units;
        let Some(index) = self.entries.iter().rposition(is_of_charge) else { return };
        match round {
            Some(round) => (self.entries[index].first, self.entries[index].last) = (round, round),
            None => drop(self.entries.remove(index)),
        }
    }

    /// Corrects the round of units that were entered with an earlier one.
    pub(super) fn published_later(&mut self, at: Timestamp, units: u64, entered: u64, published: u64) {
        let is_of_round = |entry: &&mut Uncovered| (entry.first..=entry.last).contains(&entered);
        // If a signal contained the earlier round, the units were forgotten.
        if let Some(entry) = self.entries.iter_mut().rev().find(is_of_round) {
            entry.units = entry.units.saturating_sub(units);
        }
        self.admit(at, units, published);
    }

    pub(super) fn remove(&mut self, at: Timestamp, units: u64) {
        let newest = self.entries.iter().rposition(|entry| entry.at == at && entry.units == units);
        newest.map(|index| self.entries.remove(index));
    }

    /// Returns the units admitted in the last `width_ms` that no signal contains.
    pub(crate) fn beyond(&self, covered: &CoveredRounds, now: Timestamp, width_ms: u64) -> u64 {
        self.entries.iter().filter(|entry| entry.counts(covered, now, width_ms)).map(|entry| entry.units).sum()
    }

    /// Keeps only the units admitted in the last `width_ms` that no signal contains.
    pub(super) fn forget_covered(&mut self, covered: &CoveredRounds, now: Timestamp, width_ms: u64) {
        self.entries.retain(|entry| entry.counts(covered, now, width_ms));
    }

    pub(super) fn rebase(&mut self, by_ms: u64, now: Timestamp) {
        self.entries.iter_mut().filter(|entry| entry.at > now).for_each(|entry| entry.at = entry.at.minus_ms(by_ms));
    }

    /// Merges the two oldest entries into one, which is covered when all rounds from the first to the last are.
    fn merge_oldest(&mut self) {
        if let (Some(oldest), Some(second)) = (self.entries.pop_front(), self.entries.front_mut()) {
            second.units += oldest.units;
            second.at = second.at.max(oldest.at);
            second.first = second.first.min(oldest.first);
            second.last = second.last.max(oldest.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// E8: units that a signal contains are not counted again.
    #[test]
    fn units_count_beyond_the_signal_until_their_round_is_counted() {
        let mut uncovered = UncoveredUnits::default();
        uncovered.admit(at(10), 2, 1);
        uncovered.admit(at(20), 3, 2);
        uncovered.admit(at(30), 5, NOT_HANDED_OVER);
        uncovered.published(at(30), 5, Some(3));
        let covered =
            |through, lost: &[u64]| CoveredRounds { none_through: 0, through, lost: lost.iter().copied().collect() };
        assert_eq!(uncovered.beyond(&covered(0, &[]), at(40), 1_000), 10);
        assert_eq!(uncovered.beyond(&covered(1, &[]), at(40), 1_000), 8);
        assert_eq!(uncovered.beyond(&covered(3, &[2]), at(40), 1_000), 3, "a lost round is never covered");
        assert_eq!(uncovered.beyond(&covered(3, &[2]), at(1_020), 1_000), 0, "until it leaves the window");
    }

    /// E8: a round may begin between an admission and the adding of its row.
    #[test]
    fn units_of_a_row_that_came_after_its_round_wait_for_the_round_of_the_row() {
        let covered = |through| CoveredRounds { through, ..CoveredRounds::default() };
        let mut uncovered = UncoveredUnits::default();
        uncovered.admit(at(10), 2, 1);
        uncovered.admit(at(20), 3, 2);
        uncovered.published_later(at(10), 2, 1, 2);
        assert_eq!([0, 1, 2].map(|through| uncovered.beyond(&covered(through), at(40), 1_000)), [5, 5, 0]);
        uncovered.forget_covered(&covered(2), at(40), 1_000);
        uncovered.published_later(at(20), 3, 2, 3);
        assert_eq!([2, 3].map(|through| uncovered.beyond(&covered(through), at(40), 1_000)), [3, 0]);
        uncovered.admit(at(50), 1, 4);
        uncovered.published_later(at(50), 1, 4, UNPUBLISHED);
        uncovered.admit(at(50), 7, 4);
        uncovered.published_later(at(50), 7, 4, UNPUBLISHED);
        uncovered.admit(at(50), 3, 4);
        assert_eq!(uncovered.beyond(&covered(1_000), at(60), 1_000), 8, "of two rows that were dropped");
    }

    #[test]
    fn many_rounds_are_kept_in_little_space_and_never_forgotten() {
        let mut uncovered = UncoveredUnits::default();
        for number in 1..=1_000 {
            uncovered.admit(at(number), 1, number);
        }
        assert!(uncovered.entries.len() <= UNCOVERED_LEN_MAX);
        let through = CoveredRounds { through: 990, ..CoveredRounds::default() };
        assert!(uncovered.beyond(&through, at(1_000), 5_000) >= 10);
    }

    #[test]
    fn a_lost_round_stays_uncovered_when_its_entry_is_merged() {
        let mut uncovered = UncoveredUnits::default();
        for number in 1..=200 {
            uncovered.admit(at(number), 1, number);
        }
        let covered = CoveredRounds { none_through: 0, through: 200, lost: [5].into() };
        assert!(uncovered.beyond(&covered, at(200), 5_000) >= 1);
    }
}
