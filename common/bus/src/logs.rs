//! The interface of every bus: its logs, their writers and readers, and the records.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::Topic;
use tollgate_core::messages::signals::{LogEnd, LogId, Offset};

use crate::error::BusError;

/// Position at which a reader starts in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The oldest record that is kept.
    Oldest,
    /// The next record to be appended.
    Next,
    /// The record at this offset, or the oldest kept record after it.
    Offset(Offset),
    /// The first record that was appended at this time or later.
    Time(Timestamp),
}

/// Record as a reader receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusRecord {
    /// Partition of the record.
    pub partition: Partition,
    /// Offset of the record in its partition.
    pub offset: Offset,
    /// Time at which the bus appended the record, by the clock of the bus.
    pub appended: Timestamp,
    /// Content of the record.
    pub payload: Vec<u8>,
}

/// Result of writing one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Partition of the record.
    pub partition: Partition,
    /// Tag that the writer passed with the record.
    pub tag: u64,
    /// Offset of the record, or `None` if it was lost.
    pub offset: Option<Offset>,
}

/// Error of a writer whose queue is full. It returns the record, which was not enqueued.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue of the bus is full")]
pub struct QueueFull(pub Vec<u8>);

/// Access to the logs of a deployment; clones share their connections.
pub trait Bus: Clone + Send + Sync + 'static {
    /// Writer of one topic.
    type Writer: LogWriter;
    /// Reader of one topic.
    type Reader: LogReader;

    /// Creates missing topics and verifies the existing ones, within about `wait`. Nothing is written or read before
    /// the first success, so callers retry; see [`supervise`](crate::supervise()).
    ///
    /// # Errors
    /// Returns an error if the bus does not answer, if a topic is not as required, or if one rejects what was appended.
    fn prepare(&self, wait: Duration) -> Result<(), BusError> {
        let _ = wait;
        Ok(())
    }

    /// Returns true if agents of several processes may share the logs.
    fn is_shared(&self) -> bool {
        true
    }

    /// Returns the number of partitions of a topic. `calls` and `signals` have the same number.
    fn partitions(&self, topic: Topic) -> u32;

    /// Returns the identity of a topic's log, or 0 while it is unknown. Offsets of logs with different identities are
    /// not comparable.
    fn log_id(&self, topic: Topic) -> LogId;

    /// Creates a writer.
    fn writer(&self, topic: Topic) -> Self::Writer;

    /// Creates a reader of the given partitions.
    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> Self::Reader;

    /// Returns the offset of the next record of a partition, or `None` if the bus does not answer. May block.
    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset>;

    /// Returns the end of a partition's log, or `None` if the bus does not answer. May block.
    fn log_end(&self, topic: Topic, partition: Partition) -> Option<LogEnd> {
        let next = self.next_offset(topic, partition)?;
        let log = self.log_id(topic);
        (log != 0).then_some(LogEnd { log, next })
    }
}

/// Writer of one topic.
pub trait LogWriter: Send + 'static {
    /// Enqueues a record and returns at once. The record's delivery report contains `tag`.
    ///
    /// # Errors
    /// Returns the record if the queue is full.
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), QueueFull>;

    /// Returns the delivery reports since the last call, in the order of each partition.
    fn reports(&mut self) -> Vec<DeliveryReport>;

    /// Waits until all enqueued records are reported, at most `wait`.
    fn flush(&mut self, wait: Duration);
}

/// Reader of some partitions of one topic; each partition is read in its order.
pub trait LogReader: Send + 'static {
    /// Waits up to `wait` for records and returns at most `records_max` of them.
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<BusRecord>;

    /// Starts reading a partition at the given position.
    fn add(&mut self, partition: Partition, from: ReadFrom);

    /// Stops reading a partition.
    fn remove(&mut self, partition: Partition);

    /// Returns the offset of the next record to be read from a partition, or `None` while it is unknown.
    fn next(&self, partition: Partition) -> Option<Offset>;

    /// Returns the number of records that the bus dropped before this reader reached them.
    fn missed(&self) -> u64;
}

/// Returns the number of partitions of a topic, if the topics of counters have `partitions`.
pub(crate) const fn partitions_of(topic: Topic, partitions: u32) -> u32 {
    match topic {
        Topic::Calls | Topic::Signals | Topic::Decisions => partitions,
        Topic::Presence | Topic::Rules | Topic::Ledger | Topic::Usage | Topic::Rollups | Topic::Live => 1,
    }
}
