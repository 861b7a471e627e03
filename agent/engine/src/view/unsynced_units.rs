//! Unsynced units: units of one counter that were admitted without the store and must be backfilled.
//!
//! A view holds them while the counter is in the queue of unsynced counters, or in a backfill request.

use tollgate_core::clock::Timestamp;

/// Maximum number of entries that are not being backfilled; past the cap units of neighbouring times become one.
const UNSYNCED_LEN_MAX: usize = 128;

/// Units that were admitted without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// Instant of the admission in store time; never too early.
    pub(crate) at: Timestamp,
    /// Number of units.
    pub(crate) units: u64,
}

/// Progress of a backfill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackfillStep {
    /// All units were sent to the store.
    Sent,
    /// The units that were sent are charged, or may be, or never will be.
    Ended,
    /// The units that were sent are not charged.
    Failed,
}

/// Unsynced units of one counter, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedUnits {
    entries: Vec<Unsynced>,
    /// Number of the oldest entries that are being backfilled. They do not change until the store has answered.
    sent: usize,
}

impl Unsynced {
    /// Returns true if these are at least so many units of exactly this instant.
    pub(crate) fn contains(&self, at: Timestamp, units: u64) -> bool {
        self.at == at && self.units >= units
    }
}

impl UnsyncedUnits {
    /// Returns true if there are none: all were refunded, or the backfill has ended.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the units that are not being backfilled, oldest first.
    pub(super) fn unsent(&self) -> &[Unsynced] {
        &self.entries[self.sent..]
    }

    /// Enters units. When there are many entries, units within `part_ms` become one; the later time is never too early.
    pub(super) fn add(&mut self, at: Timestamp, units: u64, part_ms: u64) {
        let near_ms = if self.unsent().len() < UNSYNCED_LEN_MAX { 0 } else { part_ms };
        match self.entries[self.sent..].last_mut() {
            Some(newest) if at.ms_since(newest.at) <= near_ms => {
                newest.at = newest.at.max(at);
                newest.units += units;
            }
            _ => self.entries.push(Unsynced { at, units }),
        }
        if self.unsent().len() > UNSYNCED_LEN_MAX {
            self.entries.remove(self.sent);
        }
    }

    /// Removes units of exactly this instant. If they are being backfilled, they are not sent again after a failure.
    pub(super) fn remove(&mut self, at: Timestamp, units: u64) {
        // The newest entry: one that is being backfilled only if there is no other.
        if let Some(position) = self.entries.iter().rposition(|unsynced| unsynced.contains(at, units)) {
            self.entries[position].units -= units;
            if self.entries[position].units == 0 {
                self.entries.remove(position);
                self.sent -= usize::from(position < self.sent);
            }
        }
    }

    /// Follows a backfill. Units that were added after it was sent stay.
    pub(super) fn backfill(&mut self, step: BackfillStep) {
        if let BackfillStep::Ended = step {
            self.entries.drain(..self.sent);
        }
        self.sent = if let BackfillStep::Sent = step { self.entries.len() } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn units_are_unsynced_until_the_store_has_charged_them() {
        let mut unsynced = UnsyncedUnits::default();
        unsynced.add(at(10), 2, 100);
        assert_eq!(unsynced.unsent(), [Unsynced { at: at(10), units: 2 }]);
        unsynced.backfill(BackfillStep::Sent);
        unsynced.add(at(10), 3, 100);
        assert_eq!(unsynced.unsent(), [Unsynced { at: at(10), units: 3 }], "units are sent once");
        assert!(unsynced.unsent()[0].contains(at(10), 3) && !unsynced.unsent()[0].contains(at(10), 4));
        unsynced.backfill(BackfillStep::Ended);
        assert_eq!(unsynced.unsent(), [Unsynced { at: at(10), units: 3 }]);
        unsynced.backfill(BackfillStep::Sent);
        unsynced.backfill(BackfillStep::Failed);
        unsynced.remove(at(10), 3);
        assert!(unsynced.is_empty());
    }

    /// C6: the end of a backfill concerns the units that were sent, and refunds of those are kept until it is known.
    #[test]
    fn the_end_of_a_backfill_concerns_only_the_units_that_were_sent() {
        // Name, instant of a refund meanwhile, end of the backfill, the units that are left.
        let cases: [(&str, Option<u64>, BackfillStep, &[u64]); 6] = [
            ("charged or dropped", None, BackfillStep::Ended, &[30]),
            ("failed", None, BackfillStep::Failed, &[10, 20, 30]),
            ("a sent unit is refunded, failed", Some(10), BackfillStep::Failed, &[20, 30]),
            ("a sent unit is refunded, charged", Some(10), BackfillStep::Ended, &[30]),
            ("a later unit is refunded, failed", Some(30), BackfillStep::Failed, &[10, 20]),
            ("a later unit is refunded, charged", Some(30), BackfillStep::Ended, &[]),
        ];
        for (name, refunded, end, left) in cases {
            let mut unsynced = UnsyncedUnits::default();
            unsynced.add(at(10), 1, 100);
            unsynced.add(at(20), 1, 100);
            unsynced.backfill(BackfillStep::Sent);
            unsynced.add(at(30), 1, 100);
            if let Some(ms) = refunded {
                unsynced.remove(at(ms), 1);
            }
            unsynced.backfill(end);
            let seen: Vec<_> = unsynced.unsent().iter().map(|unsynced| unsynced.at.as_ms()).collect();
            assert_eq!((&seen[..], unsynced.is_empty()), (left, left.is_empty()), "{name}");
        }
    }
}
