//! Notices: changes of state that an operator should read in the log.
//!
//! An engine writes no log: any thread queues a notice here, and [`crate::maintenance`] hands it to the shell.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

/// Maximum number of notices that wait for the shell. Past it, the oldest are dropped.
const NOTICES_LEN_MAX: usize = 64;

/// Change of state that belongs in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// The store answers again.
    #[error("the store answers again and decides")]
    StoreRecovered,
    /// The breaker opened.
    #[error("deciding by signals, or by each rule's on_failure, until the store answers a ping: {0}")]
    StoreUnavailable(StoreError),
    /// The store's clock stepped back.
    #[error(
        "the store's clock stepped back to {}; counters were re-based; check the time service of the store's host",
        .store_now.as_ms()
    )]
    StoreClockSteppedBack {
        /// The store's time after the step.
        store_now: Timestamp,
    },
}

/// Notices that wait for the shell.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<VecDeque<Notice>>);

impl Notices {
    pub(crate) fn push(&self, notice: Notice) {
        let mut waiting = self.0.lock();
        if waiting.len() >= NOTICES_LEN_MAX {
            waiting.pop_front();
        }
        waiting.push_back(notice);
    }

    /// Returns true if notices wait.
    pub(crate) fn wait(&self) -> bool {
        !self.0.lock().is_empty()
    }

    pub(crate) fn take(&self) -> VecDeque<Notice> {
        std::mem::take(&mut self.0.lock())
    }
}
