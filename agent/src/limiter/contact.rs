//! Whether the store answers, and what its clock says.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tollgate_common::clock::Timestamp;

use super::Limiter;
use crate::enforce::{Span, StoreTime};
use crate::store::{Answers, StoreError};

/// What the agent knows of its store.
#[derive(Debug, Default)]
pub(super) struct Contact {
    time: RwLock<StoreTime>,
    degraded: AtomicBool,
}

impl Limiter {
    /// The store's time, as well as this agent knows it.
    #[must_use]
    pub fn store_time(&self, now: Timestamp) -> Span {
        self.contact.time.read().at(now)
    }

    /// Whether the last question to the store went unanswered.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.contact.degraded.load(Ordering::Relaxed)
    }

    /// The store answers a question that was asked at `sent`.
    pub fn store_answers(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.contact.time.read().would_learn(sent, received) {
            self.contact.time.write().learn(sent, received, store_now);
        }
        if self.contact.degraded.swap(false, Ordering::Relaxed) {
            self.metrics.degraded.set(0);
            tracing::info!(node = %self.settings.node, "the store answers again and decides");
        }
    }

    pub(super) fn answered(&self, sent: Timestamp, received: Timestamp, answers: &Answers) {
        if let Some(taken) = answers.iter().find(|taken| taken.rebased) {
            self.metrics.rebased.inc();
            self.seen.forget_denials();
            tracing::warn!(node = %self.settings.node, store_now = ?taken.at, "the store's clock stepped back; counters were moved with it; check its time service");
        }
        if let Some(taken) = answers.first() {
            self.store_answers(sent, received, taken.at);
        }
    }

    pub(super) fn unanswered(&self, error: StoreError) {
        self.metrics.store_error(error.as_str());
        if !self.contact.degraded.swap(true, Ordering::Relaxed) {
            self.metrics.degraded.set(1);
            tracing::warn!(node = %self.settings.node, %error, "deciding by signals, or by each rule's on_failure, until the store answers");
        }
    }
}
