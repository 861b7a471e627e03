//! Dead letters of an agent: records of the bus that cannot be decoded, or that report what cannot be. They change nothing.
//!
//! The engine counts them by topic and decides which of them are logged; the shell writes the line.

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::log_throttle::LogThrottle;
use tollgate_core::messages::Topic;

use crate::report::Total;

#[derive(Debug, Default)]
pub(crate) struct DeadLetterCounts {
    counts: [Total; Topic::ALL.len()],
    throttles: Mutex<[LogThrottle; Topic::ALL.len()]>,
}

/// Record that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredRecord {
    /// Reason, for the log.
    pub reason: String,
    /// Number of dead letters of this topic that were not logged before this one; nothing if this one is not to be logged
    /// either.
    pub unlogged: Option<u64>,
}

impl DeadLetterCounts {
    pub(crate) fn add(&self, now: Timestamp, topic: Topic, reason: String) -> IgnoredRecord {
        self.counts[topic as usize].add(1);
        IgnoredRecord { reason, unlogged: self.throttles.lock()[topic as usize].count(now) }
    }

    pub(crate) fn count(&self, topic: Topic) -> u64 {
        self.counts[topic as usize].get()
    }
}
