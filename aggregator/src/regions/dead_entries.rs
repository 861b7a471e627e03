//! Dead letters of the ledger. Each reader of the ledger finds the same records undecodable, so they change no reader's state.

use std::path::PathBuf;

use tollgate_aggregator_engine::worker::DeadLetter;
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::log_throttle::LogThrottle;

use crate::dead_letters::DeadLetters;

/// Dead letters of the ledger, by their number.
pub(super) struct DeadEntries {
    letters: DeadLetters,
    throttle: LogThrottle,
}

impl DeadEntries {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { letters: DeadLetters::new(folder), throttle: LogThrottle::default() }
    }

    /// Keeps a record, and logs it if few were logged lately.
    pub(super) fn keep(&mut self, now: Timestamp, record: &BusRecord, reason: String) {
        let BusRecord { partition, offset, appended, ref payload } = *record;
        let letter = DeadLetter { topic: Topic::Ledger, partition, offset, appended, reason };
        let unlogged = self.throttle.count(now);
        self.letters.keep(letter, unlogged, payload);
    }
}
