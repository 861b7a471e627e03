//! The bus: partitioned logs that carry calls, signals and presence.
//!
//! Nothing here blocks a call. Writers hand records over and learn later where they lie ([`Log::reports`]); readers run on
//! threads of their own. Records are bytes on every backend, the embedded one included, so nothing works in one process
//! that would not work in many. One conformance suite holds every backend to this.

pub mod embedded;
#[cfg(feature = "kafka")]
pub mod kafka;
mod keep;
#[doc(hidden)]
pub mod conformance;

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

pub use keep::keep_prepared;

/// The logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Every call, partitioned by counter.
    Calls,
    /// What the aggregator says, partitioned as the calls are.
    Signals,
    /// Who is there; one partition.
    Presence,
    /// Rule sets as they were published; one partition. The newest is kept for ever, older ones are not.
    Rules,
}

/// Where a reader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the oldest record that is kept.
    Oldest,
    /// At the next record to come.
    Next,
    /// At this offset, or the oldest that is kept after it.
    Offset(Offset),
    /// At the first record that was appended at this time or later.
    Time(Timestamp),
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Calls, Self::Signals, Self::Presence, Self::Rules];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Signals => "signals",
            Self::Presence => "presence",
            Self::Rules => "rules",
        }
    }
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// From which partition.
    pub partition: Partition,
    /// At which place of it.
    pub offset: Offset,
    /// When the bus appended it, by the clock of the bus.
    pub appended: Timestamp,
    /// The record.
    pub payload: Vec<u8>,
}

/// What became of a record that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its partition.
    pub partition: Partition,
    /// What the writer called it.
    pub tag: u64,
    /// Where it lies, or nothing if it is lost.
    pub offset: Option<Offset>,
}

/// A record that was not taken: the log's queue is full. Nothing of it was kept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue of the bus is full")]
pub struct Full(pub Vec<u8>);

/// Why a bus cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unusable {
    /// What is wrong, and the remedy.
    pub reason: String,
    /// Whether it may be right in a moment, by itself.
    pub transient: bool,
}

/// A way to logs.
pub trait Bus: Clone + Send + Sync + 'static {
    /// Writes one topic.
    type Log: Log;
    /// Reads partitions of one topic.
    type Reader: Reader;

    /// Makes sure that the topics are there and are what they should be, waiting at most so long. Until this has succeeded
    /// once, nothing is written and nothing read; whoever uses the bus asks again and again.
    ///
    /// # Errors
    /// Returns an error if the bus does not answer, or a topic is not what it should be.
    fn prepare(&self, wait: Duration) -> Result<(), Unusable> {
        let _ = wait;
        Ok(())
    }

    /// How many partitions a topic has; `calls` and `signals` have the same number.
    fn partitions(&self, topic: Topic) -> u32;

    /// Which log the topic is: another number means that offsets mean other records, 0 that it is not known yet.
    fn log_id(&self, topic: Topic) -> LogId;

    /// A writer.
    fn log(&self, topic: Topic) -> Self::Log;

    /// A reader of some partitions.
    fn read(&self, topic: Topic, partitions: &[Partition], from: From) -> Self::Reader;

    /// The offset that the next record of a partition will have; nothing when the bus does not answer. May wait for it.
    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset>;
}

/// Writes one topic.
pub trait Log: Send + 'static {
    /// Hands a record over; returns at once. `tag` comes back in its report.
    ///
    /// # Errors
    /// Returns an error if the queue is full.
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), Full>;

    /// What became of records since the last time this was asked, in the order of each partition.
    fn reports(&mut self) -> Vec<Report>;

    /// Waits until all that was handed over is in the log, at most so long.
    fn flush(&mut self, wait: Duration);
}

/// Reads partitions of one topic, each in its order.
pub trait Reader: Send + 'static {
    /// Waits until there is something, at most so long, and takes what is there, at most `records_max`.
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<Delivered>;

    /// Reads one more partition, from here on.
    fn add(&mut self, partition: Partition, from: From);

    /// Reads a partition no longer.
    fn remove(&mut self, partition: Partition);

    /// The offset of the record that it will read next in a partition; nothing when that is not known yet.
    fn next(&self, partition: Partition) -> Option<Offset>;

    /// How many records were dropped by the bus before this reader came to them.
    fn missed(&self) -> u64;
}
