//! Link of an agent to the bus: the rows on their way to it, the signals that come from it, and its state.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::Topic;

use crate::bus::dead_letters::{DeadLetterCounts, IgnoredRecord};
use crate::bus::row_buffer::RowBuffers;
use crate::bus::signals::Signals;

/// Link of one agent to the bus.
pub(crate) struct BusLink {
    rows: RowBuffers,
    signals: Signals,
    dead_letters: DeadLetterCounts,
    error: Mutex<Option<String>>,
    is_connected: AtomicBool,
}

impl BusLink {
    pub(crate) fn new(partitions: u32) -> Self {
        Self {
            rows: RowBuffers::default(),
            signals: Signals::new(partitions),
            dead_letters: DeadLetterCounts::default(),
            error: Mutex::default(),
            is_connected: AtomicBool::default(),
        }
    }

    #[inline]
    pub(crate) fn rows(&self) -> &RowBuffers {
        &self.rows
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Counts a record that changes nothing.
    pub(crate) fn pass_over(&self, now: Timestamp, topic: Topic, reason: String) -> IgnoredRecord {
        self.dead_letters.add(now, topic, reason)
    }

    pub(crate) fn dead_letters(&self, topic: Topic) -> u64 {
        self.dead_letters.count(topic)
    }

    /// Records that the bus cannot be used, with the reason, or that it can.
    pub(crate) fn set_error(&self, error: Option<String>) {
        self.is_connected.store(error.is_none(), Ordering::Relaxed);
        *self.error.lock() = error;
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }
}
