//! What the aggregator tells agents: the admitted units of the counters that are worth their attention.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::counter::{CounterId, Partition};
use crate::rules::Generation;
use crate::window::Ring;

/// A place in one partition of a log.
pub type Offset = u64;
/// The identity of a log: a topic that was deleted and made anew is another log, whose offsets mean other records.
pub type LogId = u64;

/// One record of the log `signals`, and the heartbeat of its partition.
///
/// It says: up to `as_of`, every counter of this partition that changed and holds `threshold_permille` of its quota or more
/// has been signalled, here or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalBatch {
    /// Who says it.
    pub aggregator: Arc<str>,
    /// Of which partition of `calls`.
    pub partition: Partition,
    /// Of which log `calls`.
    pub log: LogId,
    /// The last offset of `calls` that is counted.
    pub as_of: Offset,
    /// When the record at `as_of` was appended.
    pub as_of_appended: Timestamp,
    /// The part of a quota from which on counters are signalled, in thousandths.
    pub threshold_permille: u32,
    /// What changed; empty in a mere heartbeat.
    pub signals: Vec<Signal>,
}

/// What is known of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The counter.
    pub counter: CounterId,
    /// Its rule.
    pub rule: Arc<str>,
    /// How people see it.
    pub label: Arc<str>,
    /// The newest generation by which it was charged.
    pub generation: Generation,
    /// Its quota, in units.
    pub quota: u64,
    /// Units admitted, per sub-window. Only these limit.
    pub admitted: Ring,
    /// Units denied in the window. Only shown.
    pub denied: u64,
    /// Units admitted and denied per second over the window, in thousandths.
    pub rate_milli: u64,
    /// What of a global quota this region may spend, in units.
    pub budget: Option<u64>,
    /// The time of the newest charge that is counted.
    pub newest_at: Timestamp,
}
