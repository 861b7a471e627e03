//! Dead letters of a topic that all regions share. Each reader of the ledger finds the same records undecodable, so they change no
//! reader's state.

use std::path::PathBuf;

use tollgate_aggregator_engine::worker::DeadLetter;
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::log_throttle::LogThrottle;

use crate::dead_letters::DeadLetters;
use crate::metrics::DeadLetterTotals;

pub(super) struct DeadEntries {
    topic: Topic,
    letters: DeadLetters,
    throttle: LogThrottle,
    totals: DeadLetterTotals,
}

impl DeadEntries {
    pub(super) fn new(topic: Topic, folder: Option<PathBuf>, totals: DeadLetterTotals) -> Self {
        Self { topic, letters: DeadLetters::new(folder), throttle: LogThrottle::default(), totals }
    }

    /// Counts and keeps a record, and logs it if few were logged lately.
    pub(super) fn keep(&mut self, now: Timestamp, record: &BusRecord, reason: String) {
        let BusRecord { partition, offset, appended, ref payload } = *record;
        let letter = DeadLetter { topic: self.topic, partition, offset, appended, reason };
        let unlogged = self.throttle.count(now);
        self.totals.count(self.topic);
        self.letters.keep(letter, unlogged, payload);
    }
}
