//! Whether the store answers, and what its clock says.

use parking_lot::RwLock;
use tollgate_core::clock::Timestamp;

use super::Limiter;
use crate::enforce::{Span, StoreTime};
use crate::store::{Breaker, StoreError};
use tollgate_core::counter::ChargeResults;

/// What the agent knows of its store.
#[derive(Debug, Default)]
pub(super) struct Contact {
    time: RwLock<StoreTime>,
    pub(super) breaker: Breaker,
}

impl Limiter {
    /// The store's time, as well as this agent knows it.
    #[must_use]
    pub fn store_time(&self, now: Timestamp) -> Span {
        self.contact.time.read().at(now)
    }

    /// Whether the store is not asked, since it did not answer.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.contact.breaker.is_open()
    }

    /// Whether someone should look if the store answers: it is not asked, or must be told what passed without it.
    #[must_use]
    pub fn needs_store(&self) -> bool {
        self.is_degraded() || self.is_in_debt()
    }

    /// The store answered a ping that was sent at `sent`: from here on it is asked again.
    pub fn store_answers(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        self.learn_time(sent, received, store_now);
        if self.contact.breaker.close() {
            self.metrics.degraded.set(0);
            tracing::info!(node = %self.settings.node, "the store answers again and decides");
        }
    }

    /// The store did not answer a ping or another thing that no call asked for.
    pub fn store_is_silent(&self, error: StoreError) {
        self.unanswered(error);
    }

    pub(super) fn answered(&self, sent: Timestamp, received: Timestamp, answers: &ChargeResults) {
        if let Some(taken) = answers.iter().find(|taken| taken.rebased) {
            self.metrics.rebased.inc();
            self.seen.forget_denials();
            tracing::warn!(node = %self.settings.node, store_now = ?taken.at, "the store's clock stepped back; counters were moved with it; check its time service");
        }
        if let Some(taken) = answers.first() {
            self.contact.breaker.answered();
            self.learn_time(sent, received, taken.at);
        }
    }

    pub(super) fn unanswered(&self, error: StoreError) {
        self.metrics.store_error(error.as_str());
        if self.contact.breaker.missed(error) {
            self.metrics.degraded.set(1);
            tracing::warn!(node = %self.settings.node, %error, "deciding by signals, or by each rule's on_failure, until the store answers a ping");
        }
    }

    fn learn_time(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.contact.time.read().would_learn(sent, received) {
            self.contact.time.write().learn(sent, received, store_now);
        }
    }
}
