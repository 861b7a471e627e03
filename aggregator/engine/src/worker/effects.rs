//! The effects of a worker, which its shell executes.

use std::fmt;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::Topic;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::rollups::RollupBatch;
use tollgate_core::messages::signals::{Offset, SignalBatch};

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEffect {
    /// Start to read a partition of `calls`.
    Read {
        /// The partition.
        partition: Partition,
        /// The append time of the first record to read; nothing for the oldest record.
        since: Option<Timestamp>,
    },
    /// Stop reading a partition of `calls`, and drop its metrics.
    StopReading(Partition),
    /// Find the end of a partition of `calls`, and answer with [`LogEnd`](super::WorkerInput::LogEnd).
    FindLogEnd(Partition),
    /// Append to `signals`, in the partition of the batch.
    Publish {
        /// The tag of the batch in its delivery report, unique in this worker's life.
        tag: u64,
        /// The batch.
        batch: SignalBatch,
    },
    /// Append to `rollups` or `live`.
    PublishRollups {
        /// The topic.
        topic: Topic,
        /// The tag of the batch in its delivery report. Batches of `live` have tag 0, and nobody waits for a report on them.
        tag: u64,
        /// The rollups.
        batch: RollupBatch,
    },
    /// Append to `presence`. If the queue is full, the record is dropped; the next one follows soon.
    Announce(Presence),
    /// Keep a record that was passed over.
    DeadLetter {
        /// The record.
        letter: DeadLetter,
        /// The number of dead letters of this partition and topic that were not logged before this one; nothing if this
        /// one is not to be logged either.
        unlogged: Option<u64>,
    },
    /// Write a line to the log.
    Notice(WorkerNotice),
}

/// A record that was passed over: it is undecodable, or reports what cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The topic.
    pub topic: Topic,
    /// The partition.
    pub partition: Partition,
    /// The offset in the partition.
    pub offset: Offset,
    /// The append time.
    pub appended: Timestamp,
    /// The reason.
    pub reason: String,
}

/// A line for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerNotice {
    /// Aggregators came or went; this many are live, this one included.
    MembersChanged(usize),
    /// The counts of a partition are complete, and its signals are published from now on.
    Restored {
        /// The partition.
        partition: Partition,
        /// The number of counters.
        counters: usize,
    },
    /// Another aggregator counts the partition now.
    HandedOver(Partition),
    /// The partition of `calls` was recreated, or lost records.
    Recreated(Partition),
}

impl fmt::Display for WorkerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MembersChanged(members) => write!(f, "the number of live aggregators is now {members}"),
            Self::Restored { partition, counters } => {
                write!(f, "partition {partition} is restored with {counters} counters; its signals are published")
            }
            Self::HandedOver(partition) => write!(f, "partition {partition} is handed over to another aggregator"),
            Self::Recreated(partition) => write!(
                f,
                "partition {partition} of `calls` was recreated or lost records; it is counted again from its oldest record"
            ),
        }
    }
}
