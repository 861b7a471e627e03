//! Completeness of the counts at present: the bus answers, and nearly all records of a partition are counted.
//!
//! A silent log has two causes: nobody calls, or the bus is unavailable. The worker tells them apart by its own signals, of which
//! one leaves each 200 ms for each partition: the bus acknowledges them.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;

use super::{AssignedPartition, SentSignals, Worker};

/// Age of signals without an acknowledgement from which on the bus counts as unavailable, in ms.
const UNACKNOWLEDGED_MS_MAX: u64 = 500;
/// Maximum number of records of a partition that are not counted yet while its counts pass for complete.
const LAG_RECORDS_MAX: u64 = 1_000;

impl Worker {
    /// Returns true if the counts of an own partition contain nearly all calls up to now. False while it is restored, while the bus
    /// takes no signals, and while the reader is far behind.
    #[must_use]
    pub fn counts_all(&self, now: Timestamp, partition: Partition) -> bool {
        let is_read = |assigned: &AssignedPartition| {
            let has_counts = assigned.is_owned() && assigned.counting.restored;
            has_counts && assigned.lag_records.is_none_or(|lag| lag <= LAG_RECORDS_MAX)
        };
        self.bus_answers(now) && self.assigned.get(&partition).is_some_and(is_read)
    }

    fn bus_answers(&self, now: Timestamp) -> bool {
        let is_late = |sent: &SentSignals| now.ms_since(sent.at) > UNACKNOWLEDGED_MS_MAX;
        !self.loses_signals && !self.in_flight.first().is_some_and(|(_, sent)| is_late(sent))
    }
}
