//! Whether the store answers, and what its clock says.

use parking_lot::RwLock;
use tollgate_core::clock::Timestamp;

use crate::enforce::Breaker;
use crate::engine::Engine;
use crate::notice::Notice;
use crate::store_error::StoreError;
use crate::time_bounds::{StoreClock, TimeBounds};
use tollgate_core::counter::ChargeResults;

/// What the agent knows of its store.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    time: RwLock<StoreClock>,
    pub(crate) breaker: Breaker,
}

impl Engine {
    /// The store's time, as well as this agent knows it.
    #[must_use]
    pub fn store_time(&self, now: Timestamp) -> TimeBounds {
        if self.counts_in_own_table() { TimeBounds::exactly(now) } else { self.health.time.read().at(now) }
    }

    /// Whether the store is not asked, since it did not answer.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.health.breaker.is_open()
    }

    /// Whether someone should look if the store answers: it is not asked, or must be told what passed without it.
    #[must_use]
    pub fn needs_store(&self) -> bool {
        self.is_degraded() || self.has_unsynced()
    }

    /// The store answered a ping that was sent at `sent`: from here on it is asked again.
    pub fn store_answers(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        self.learn_time(sent, received, store_now);
        if self.health.breaker.close() {
            self.notices.push(Notice::StoreRecovered);
        }
    }

    /// The store did not answer a ping or another thing that no call asked for.
    pub fn store_is_silent(&self, error: StoreError) {
        self.unanswered(error);
    }

    pub(crate) fn answered(&self, sent: Timestamp, received: Timestamp, answers: &ChargeResults) {
        self.note_clock_step(answers);
        if let Some(taken) = answers.first() {
            self.health.breaker.answered();
            self.learn_time(sent, received, taken.at);
        }
    }

    /// Drops what was cached in store time if the store's clock stepped back.
    pub(crate) fn note_clock_step(&self, results: &ChargeResults) {
        if let Some(result) = results.iter().find(|result| result.rebased) {
            self.metrics.store_clock_steps.add(1);
            self.table.forget_denials();
            self.notices.push(Notice::StoreClockSteppedBack { store_now: result.at });
        }
    }

    pub(crate) fn unanswered(&self, error: StoreError) {
        self.metrics.store_error(error);
        if self.health.breaker.missed(error) {
            self.notices.push(Notice::StoreUnavailable(error));
        }
    }

    fn learn_time(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.health.time.read().would_learn(sent, received) {
            self.health.time.write().update(sent, received, store_now);
        }
    }
}
