//! Local usage: what the agent itself has admitted on one counter.
//!
//! The same units are kept in three forms: per sub-window for the last W (`on_failure: share`), those that no signal contains
//! yet (answers by signal), and those that the store does not know and must be backfilled.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::window::{Estimate, Ring, Window};

use super::uncovered::{CoveredBatches, Sequence, UncoveredUnits};

/// Maximum number of entries of unsynced units; past the cap units of neighbouring times become one.
const UNSYNCED_LEN_MAX: usize = 128;

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
    uncovered: UncoveredUnits,
    unsynced: VecDeque<Unsynced>,
    /// Number of the oldest unsynced entries that are being backfilled. They do not change until the store has answered.
    sent: usize,
    /// True if the counter is in the queue of unsynced counters, or in a backfill request.
    pub(super) is_queued: bool,
}

impl LocalUsage {
    /// Creates an empty record; the last W is that of this window.
    #[must_use]
    pub(crate) fn new(window: Window) -> Self {
        let (uncovered, unsynced) = (UncoveredUnits::default(), VecDeque::new());
        Self { ring: Ring::new(window), uncovered, unsynced, sent: 0, is_queued: false }
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
        self.uncovered.admit(at, units, sequence);
    }

    /// Sets the batch of units that were admitted before it was known.
    pub(super) fn published(&mut self, at: Timestamp, units: u64, sequence: Sequence) {
        self.uncovered.published(at, units, sequence);
    }

    /// Removes units that were refunded.
    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        self.ring.subtract(self.ring.window().sub_window(at), units);
        self.uncovered.remove(at, units);
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
        self.position_of(at, units).is_some_and(|position| position >= self.sent)
    }

    /// Removes unsynced units of exactly this instant. If they are being backfilled, they are not sent again after a failure.
    pub(super) fn remove_unsynced(&mut self, at: Timestamp, units: u64) {
        if let Some(position) = self.position_of(at, units) {
            self.unsynced[position].units -= units;
            if self.unsynced[position].units == 0 {
                self.unsynced.remove(position);
                self.sent -= usize::from(position < self.sent);
            }
        }
    }

    /// Marks all unsynced units as sent to the store. A counter without any leaves the queue.
    pub(super) fn backfill_sent(&mut self) {
        self.sent = self.unsynced.len();
        self.is_queued = self.has_unsynced();
    }

    /// Removes the units that were sent: the store has charged them, or never will. Later units stay.
    pub(super) fn backfill_ended(&mut self) {
        self.unsynced.drain(..self.sent);
        self.backfill_failed();
    }

    /// Keeps the units that were sent: the store has not charged them.
    pub(super) fn backfill_failed(&mut self) {
        self.sent = 0;
        self.is_queued = self.has_unsynced();
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
        self.uncovered.beyond(covered, now, width_ms)
    }

    /// Returns true if nothing here matters any more.
    #[must_use]
    pub(crate) fn is_idle_at(&self, now: Timestamp) -> bool {
        !self.is_queued && !self.has_unsynced() && self.ring.is_empty_at(now)
    }

    /// Returns the newest entry with so many units: one that is being backfilled only if there is no other.
    fn position_of(&self, at: Timestamp, units: u64) -> Option<usize> {
        self.unsynced.iter().rposition(|unsynced| unsynced.at == at && unsynced.units >= units)
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

    #[test]
    fn units_are_unsynced_until_the_store_has_charged_them() {
        let mut local = local();
        local.add_unsynced(at(10), 2);
        assert_eq!(local.unsynced().collect::<Vec<_>>(), [Unsynced { at: at(10), units: 2 }]);
        local.backfill_sent();
        local.add_unsynced(at(10), 3);
        assert_eq!(local.unsynced().map(|unsynced| unsynced.units).sum::<u64>(), 3, "units are sent once");
        assert!(local.has_unsynced_of(at(10), 3) && !local.has_unsynced_of(at(10), 4));
        local.backfill_ended();
        assert_eq!(local.unsynced().collect::<Vec<_>>(), [Unsynced { at: at(10), units: 3 }]);
        local.backfill_sent();
        local.backfill_failed();
        local.remove_unsynced(at(10), 3);
        assert!(!local.has_unsynced());
    }

    /// C6: the end of a backfill concerns the units that were sent, and refunds of those are kept until it is known.
    #[test]
    fn the_end_of_a_backfill_concerns_only_the_units_that_were_sent() {
        // Name, instant of a refund meanwhile, end of the backfill, the units that are left.
        type End = fn(&mut LocalUsage);
        let cases: [(&str, Option<u64>, End, &[u64]); 6] = [
            ("charged or dropped", None, LocalUsage::backfill_ended, &[30]),
            ("failed", None, LocalUsage::backfill_failed, &[10, 20, 30]),
            ("a sent unit is refunded, failed", Some(10), LocalUsage::backfill_failed, &[20, 30]),
            ("a sent unit is refunded, charged", Some(10), LocalUsage::backfill_ended, &[30]),
            ("a later unit is refunded, failed", Some(30), LocalUsage::backfill_failed, &[10, 20]),
            ("a later unit is refunded, charged", Some(30), LocalUsage::backfill_ended, &[]),
        ];
        for (name, refunded, end, left) in cases {
            let mut local = local();
            local.is_queued = true;
            local.add_unsynced(at(10), 1);
            local.add_unsynced(at(20), 1);
            local.backfill_sent();
            local.add_unsynced(at(30), 1);
            if let Some(ms) = refunded {
                local.remove_unsynced(at(ms), 1);
            }
            end(&mut local);
            assert_eq!(local.unsynced().map(|unsynced| unsynced.at.as_ms()).collect::<Vec<_>>(), left, "{name}");
            assert_eq!(local.is_queued, !left.is_empty(), "{name}");
        }
    }

    #[test]
    fn units_that_another_counter_denied_are_removed() {
        let mut local = local();
        local.admit(at(10), 2, Sequence::Unknown);
        local.refund(at(10), 2);
        assert_eq!((local.used(at(10)), local.uncovered(&CoveredBatches::default(), at(10), 1_000)), (0, 0));
    }
}
