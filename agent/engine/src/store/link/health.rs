//! Health of the store: every answer and every missed deadline is recorded here, for the breaker and the store's time.
//!
//! `housekeeping/maintenance` sends the pings that close the breaker, and hands the notices to the shell.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResults, StoreError};

use super::state::StoreLink;
use crate::report::Notice;
use crate::store::breaker::Breaker;
use crate::store::losses::WitnessedLoss;
use crate::store::outbox::Outbox;
use crate::time::{ClockStepMs, LeaseEpoch, TimeBounds};

/// Number of deadlines after which a request that is found late tells nothing about the store: the agent itself did not run.
const OWN_DELAY_DEADLINES: u64 = 2;

impl StoreLink {
    /// Returns the interval in which the store's time lies.
    #[inline]
    pub(crate) fn time(&self, now: Timestamp) -> TimeBounds {
        if self.settings.owns_table { TimeBounds::exactly(now) } else { self.clock.read().at(now) }
    }

    /// Returns true if the counts are in a store outside of the agent.
    pub(crate) fn is_outside(&self) -> bool {
        !self.settings.owns_table && !self.settings.lacks_store
    }

    #[inline]
    pub(crate) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns true if the store has to be probed: the breaker is open, or unsynced units wait for the store.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.breaker.is_open() || self.has_unsynced()
    }

    /// Returns true if the store has answered a ping in this life, or the counts are in the engine's own table.
    pub(crate) fn is_reached(&self) -> bool {
        self.settings.owns_table || self.is_reached.load(Ordering::Relaxed)
    }

    /// Returns the epoch of leases that are asked for now.
    #[inline]
    pub(crate) fn lease_epoch(&self) -> LeaseEpoch {
        self.lease_epochs.current()
    }

    /// Ends all leases, because they may not be charged any more or the store's time is not known.
    pub(crate) fn end_leases(&self) {
        self.lease_epochs.end();
    }

    /// Records a loss of units of the whole store.
    pub(crate) fn note_loss(&self, loss: WitnessedLoss) {
        self.losses.note(loss);
        self.end_leases();
        self.reports.metrics().store_losses.add(1);
        self.reports.notify(Notice::StoreLost);
    }

    /// Records the store's time in an answer, which was sent for and received by this agent's clock. Each answer shows
    /// a step of the store's clock, whatever it is about.
    pub(crate) fn note_time(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.clock.read().updated(sent, received, store_now).is_none() {
            return;
        }
        let mut clock = self.clock.write();
        // Another answer may have narrowed the bounds meanwhile.
        let Some((updated, step)) = clock.updated(sent, received, store_now) else { return };
        let contradicts = clock.contradicts(sent, received, store_now);
        *clock = updated;
        drop(clock);
        if contradicts {
            self.end_leases();
        }
        self.losses.note_shown(updated.shown, updated.shown_by_small_steps);
        if let Some(by_ms) = step {
            self.store_clock_stepped(by_ms, store_now);
        }
    }

    pub(crate) fn note_time_of(
        &self,
        sent: Timestamp,
        received: Timestamp,
        answer: &Result<ChargeResults, StoreError>,
    ) {
        let store_now = match answer {
            Ok(results) => results.first().map(|result| result.at),
            Err(StoreError::Expired(at)) => Some(*at),
            Err(_) => None,
        };
        if let Some(store_now) = store_now {
            self.note_time(sent, received, store_now);
        }
    }

    /// Drops or re-bases what is cached in store time, and reports the step.
    fn store_clock_stepped(&self, by_ms: ClockStepMs, store_now: Timestamp) {
        self.reports.metrics().store_clock_steps.add(1);
        let size_ms = by_ms.unsigned_abs();
        if by_ms < 0 {
            self.counters.rebase(size_ms, store_now);
        }
        self.losses.clock_was_set();
        self.resets.clock_was_set();
        let size = Duration::from_millis(size_ms);
        let is_back = by_ms < 0;
        self.reports.notify(if is_back {
            Notice::StoreClockSteppedBack(size)
        } else {
            Notice::StoreClockSteppedForward(size)
        });
    }

    /// Closes the breaker: the store has answered a ping and received the unsynced units.
    pub(crate) fn reached(&self, now: Timestamp) {
        self.is_reached.store(true, Ordering::Relaxed);
        if self.breaker.close(now) {
            self.reports.notify(Notice::StoreRecovered);
        }
    }

    /// Records a request of calls that the store did not answer before their deadline. If the agent itself did not run for a
    /// while, the miss is its own: it says nothing about the store.
    pub(crate) fn unanswered_check(&self, sent: Timestamp, deadline: Duration, now: Timestamp, error: StoreError) {
        let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        let is_own_delay = now.ms_since(sent) > deadline_ms.saturating_mul(OWN_DELAY_DEADLINES);
        if is_own_delay && error.is_late() {
            self.reports.metrics().store_error(error);
        } else {
            if error.is_late() {
                self.breaker.missed_deadline(deadline);
            }
            self.unanswered(sent, deadline, now, error);
        }
    }

    /// Records a request that the store did not answer within this deadline.
    pub(crate) fn unanswered(&self, sent: Timestamp, deadline: Duration, now: Timestamp, error: StoreError) {
        self.reports.metrics().store_error(error);
        if matches!(error, StoreError::AnswerLost | StoreError::Unreachable) {
            // The server of the next connection may have lost the leased units.
            self.end_leases();
        }
        if self.breaker.missed(sent, deadline, now, error) {
            self.reports.notify(Notice::StoreUnavailable(error));
        } else if self.breaker.is_suspected() {
            self.reports.wake_maintenance();
        }
    }

    /// Records that the connection to the store was lost. A ping makes the next one.
    pub(crate) fn lost_connection(&self, error: StoreError) {
        self.reports.metrics().store_error(error);
        // The server of the next connection may have lost the leased units.
        self.end_leases();
        self.breaker.suspect();
        self.reports.wake_maintenance();
    }
}
