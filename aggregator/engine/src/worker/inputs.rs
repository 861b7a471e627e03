//! The inputs of a worker: facts that its shell has observed, decoded.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::{LogEnd, Offset};

/// A fact that the shell passes to the worker.
#[derive(Debug)]
pub enum WorkerInput<'a> {
    /// A record of `calls`, in the order of its partition.
    Record {
        /// The partition.
        partition: Partition,
        /// The offset in the partition.
        offset: Offset,
        /// The append time.
        appended: Timestamp,
        /// The decoded record, or the reason for which it is undecodable.
        batch: Result<&'a Batch, String>,
    },
    /// A record of `presence`, this aggregator's own records included.
    Presence {
        /// The decoded record, or the reason for which it is undecodable.
        presence: Result<&'a Presence, String>,
        /// The offset in the log.
        offset: Offset,
        /// The append time.
        appended: Timestamp,
    },
    /// The answer to [`FindLogEnd`](super::WorkerEffect::FindLogEnd).
    LogEnd {
        /// The partition of `calls`.
        partition: Partition,
        /// The end of its log; nothing if the bus did not answer.
        end: Option<LogEnd>,
    },
    /// The reading position in a partition after [`Read`](super::WorkerEffect::Read). It is needed until the partition
    /// is restored, because the last records before the end of the log may have been deleted or may be none of `calls`.
    Position {
        /// The partition of `calls`.
        partition: Partition,
        /// The offset of the next record.
        next: Offset,
    },
    /// A batch of [`Publish`](super::WorkerEffect::Publish) reached the log, or was lost.
    Reported {
        /// The tag of the batch.
        tag: u64,
        /// True if it was lost, or not taken because the queue of the bus is full.
        is_lost: bool,
    },
    /// A batch of [`PublishRollups`](super::WorkerEffect::PublishRollups) with a tag reached the log, or was lost.
    RollupsReported {
        /// The tag of the batch.
        tag: u64,
        /// True if it was lost, or not taken because the queue of the bus is full.
        is_lost: bool,
    },
    /// The end of a round.
    Tick,
    /// The end of this worker: it publishes what is due and leaves. No input follows, except delivery reports.
    Stop,
}
