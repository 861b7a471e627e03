//! One assigned partition: restored from the log, counted, and kept until another aggregator counts it.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::log_throttle::LogThrottle;
use tollgate_core::messages::signals::{Offset, SignalBatch};

use super::WorkerSettings;
use super::effects::{DeadLetter, WorkerEffect};
use crate::counting::{Counting, DueBatch, WantedThreshold};
use crate::membership::PartitionOwner;

/// Maximum time for which a partition of another owner is counted while that owner does not announce it, in ms.
const HANDOVER_MS_MAX: u64 = 600_000;

/// A partition that a worker counts.
#[derive(Clone, Debug)]
pub struct AssignedPartition {
    /// The count.
    pub counting: Counting,
    /// The number of records that are not counted yet, as of the last comparison with the end of the log.
    pub lag_records: Option<u64>,
    /// The offset of the next record to read, as the reader reported it last.
    pub(super) position: Offset,
    /// The offset after the last counted record when the end of the log was asked for.
    pub(super) next_when_asked: Offset,
    /// The end of the log at the assignment; the counts are complete once everything before it is read.
    restore_to: Offset,
    handing_over_since: Option<Timestamp>,
    dead_letters: LogThrottle,
}

impl AssignedPartition {
    pub(super) fn new(counting: Counting, restore_to: Offset) -> Self {
        Self {
            counting,
            lag_records: None,
            position: 0,
            next_when_asked: 0,
            restore_to,
            handing_over_since: None,
            dead_letters: LogThrottle::default(),
        }
    }

    /// Returns whether this aggregator owns the partition; false while it is being handed over.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        self.handing_over_since.is_none()
    }

    /// Returns the offset after the last counted record.
    pub(super) fn next(&self) -> Offset {
        self.counting.read.map_or(0, |(offset, _)| offset + 1)
    }

    /// Marks the count as restored once the log is read as far as it reached at the assignment; returns whether it did.
    pub(super) fn restore(&mut self) -> bool {
        let is_read = self.position.max(self.next()) >= self.restore_to;
        let restored = is_read && !self.counting.restored;
        self.counting.restored |= is_read;
        restored
    }

    /// Returns the batch of signals that is due, which is empty for a heartbeat.
    pub(super) fn signals_due(
        &mut self,
        now: Timestamp,
        partition: Partition,
        settings: &WorkerSettings,
        threshold: WantedThreshold,
    ) -> Option<SignalBatch> {
        let DueBatch { threshold_permille, agents, signals } = self.counting.signals_due(now, threshold)?;
        let (as_of, as_of_appended) = self.counting.read?;
        Some(SignalBatch {
            aggregator: settings.id.clone(),
            partition,
            log: self.counting.log,
            as_of,
            as_of_appended,
            threshold_permille,
            agents,
            signals,
        })
    }

    /// Returns true if the partition stays assigned. Until a new owner announces that it counts the partition, agents
    /// depend on this one's signals.
    pub(super) fn is_kept(&mut self, owner: PartitionOwner, now: Timestamp) -> bool {
        match owner {
            PartitionOwner::Own => {
                self.handing_over_since = None;
                true
            }
            PartitionOwner::PeerRestoring => {
                now.ms_since(*self.handing_over_since.get_or_insert(now)) < HANDOVER_MS_MAX
            }
            PartitionOwner::PeerCounting => false,
        }
    }

    /// Passes over a record; returns the effect unless the record was read before.
    pub(super) fn skip(&mut self, now: Timestamp, letter: DeadLetter) -> Option<WorkerEffect> {
        if !self.counting.skip(letter.offset, letter.appended) {
            return None;
        }
        Some(WorkerEffect::DeadLetter { letter, unlogged: self.dead_letters.count(now) })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::messages::Topic;

    use super::*;

    fn partition(restore_to: Offset) -> AssignedPartition {
        AssignedPartition::new(Counting::new(1, 10, None), restore_to)
    }

    #[test]
    fn it_is_restored_once_it_is_read_to_the_end_it_had() {
        // End of the log, reported position, last record that was read; whether it is restored.
        let cases = [
            (0, 0, None, true),
            (5, 0, None, false),
            (5, 3, None, false),
            (5, 3, Some(3), false),
            (5, 3, Some(4), true),
            (5, 0, Some(4), true),
            (5, 5, None, true),
            (5, 7, None, true),
        ];
        for (restore_to, position, read, restored) in cases {
            let mut partition = partition(restore_to);
            partition.position = position;
            if let Some(offset) = read {
                partition.counting.skip(offset, Timestamp::default());
            }
            assert_eq!(partition.restore(), restored, "{restore_to} {position} {read:?}");
            assert!(!partition.restore(), "once only");
        }
    }

    #[test]
    fn it_is_kept_until_its_new_owner_counts_it_or_for_ten_minutes() {
        use PartitionOwner::{Own, PeerCounting, PeerRestoring};
        // Owners at instants in ms; whether it is kept, and whether it is owned.
        let cases = [
            (Own, 0, true, true),
            (PeerRestoring, 1_000, true, false),
            (PeerRestoring, 600_999, true, false),
            (PeerRestoring, 601_000, false, false),
            (Own, 602_000, true, true),
            (PeerRestoring, 602_000, true, false),
            (PeerCounting, 602_001, false, false),
        ];
        let mut partition = partition(0);
        for (owner, ms, kept, owned) in cases {
            assert_eq!(partition.is_kept(owner, Timestamp::from_ms(ms)), kept, "{owner:?} at {ms}");
            assert_eq!(partition.is_owned(), owned, "{owner:?} at {ms}");
        }
    }

    #[test]
    fn dead_letters_are_counted_once_and_logged_once_a_minute() {
        // Instant in ms and offset; nothing if it was read before, else the number of unlogged ones if it is logged.
        let cases = [
            (0, 1, Some(Some(0))),
            (1, 1, None),
            (2, 2, Some(None)),
            (59_999, 3, Some(None)),
            (60_000, 4, Some(Some(2))),
            (120_000, 5, Some(Some(0))),
        ];
        let mut partition = partition(0);
        for (ms, offset, expected) in cases {
            let letter = DeadLetter {
                topic: Topic::Calls,
                partition: 0,
                offset,
                appended: Timestamp::default(),
                reason: "torn".into(),
            };
            let effect = partition.skip(Timestamp::from_ms(ms), letter.clone());
            assert_eq!(effect, expected.map(|unlogged| WorkerEffect::DeadLetter { letter, unlogged }), "at {ms}");
        }
        assert_eq!(partition.counting.tally().dead_letters, 5);
    }
}
