//! A probe of the store: a ping, and then the backfill. Its answer tells for which calls the store is used again.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

use super::state::{LastAnswer, Maintenance, Probe};
use super::work::{MaintenanceEffect, MaintenanceRequest};
use crate::request::{Operation, Progress, UNATTENDED_DEADLINE};

/// Time from the ping after which no further backfill is sent, in ms. Calls then use the store again even if units are
/// left. Calls that are decided without the store would make new units as fast as the backfill removes them.
const BACKFILL_MS_MAX: u64 = 1_000;

impl Maintenance {
    /// Sends the request that follows an answered ping: the witness, which the backfill follows, or the backfill.
    pub(super) fn follow_ping(&mut self, now: Timestamp, effects: &mut Vec<MaintenanceEffect>) {
        let awaits_witness = self.raise_witness(now, effects);
        match &mut self.probe {
            Some(probe) if awaits_witness => probe.awaits_witness = true,
            _ => self.backfill_next(now, effects),
        }
    }

    /// Sends the next unsynced units. When the round is over, the store is used again. Units that are left, because
    /// it has no room for them or the time is over, are sent with the next probe.
    pub(super) fn backfill_next(&mut self, now: Timestamp, effects: &mut Vec<MaintenanceEffect>) {
        if let Some(probe) = &self.probe
            && now.ms_since(probe.ping_sent) < BACKFILL_MS_MAX
            && let Progress::NeedsStore(request) = self.engine.begin(now, Operation::Backfill)
        {
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::Backfill(request)));
            return;
        }
        let Probe { is_late, ping_took_ms, is_of_miss, .. } = self.probe.take().unwrap_or_default();
        self.answered = LastAnswer::InTime;
        if is_late && self.engine.is_degraded() {
            self.engine.store.breaker().answered_late(now, ping_took_ms);
            self.answered = LastAnswer::Late;
            return self.pace.missed(now);
        }
        if self.rules_missed > 0 {
            self.rules_at = now;
        }
        if !is_of_miss || self.engine.store.is_needed() {
            self.pace.found(now, self.engine.store.has_unsynced());
        }
        self.engine.store.reached(now);
    }

    /// Returns true if the store answers requests without a caller.
    pub(super) fn store_answers(&self) -> bool {
        match self.answered {
            LastAnswer::Missing => false,
            LastAnswer::Late => true,
            LastAnswer::InTime => !self.engine.is_degraded(),
        }
    }

    /// Returns the time within which a ping is in time for calls, and the time that it may take. While calls use the
    /// store, it has their deadline, so that its miss counts like theirs.
    pub(super) fn ping_deadlines(&self) -> (Duration, Duration) {
        let in_time = self.engine.store.breaker().deadline().unwrap_or(UNATTENDED_DEADLINE).min(UNATTENDED_DEADLINE);
        (in_time, if self.engine.is_degraded() { UNATTENDED_DEADLINE } else { in_time })
    }

    pub(super) fn probe_missed(&mut self, now: Timestamp, error: StoreError) {
        let sent = self.probe.take().map_or(now, |probe| probe.ping_sent);
        self.answered = LastAnswer::Missing;
        self.pace.missed(now);
        if error == StoreError::TimedOut && self.pace.is_connecting(now) {
            return self.engine.metrics().store_error(error);
        }
        let deadline = self.ping_deadlines().1;
        self.engine.store.unanswered(sent, deadline, now, error);
        // Until the breaker is open, calls are denied meanwhile.
        if error == StoreError::TimedOut && !self.engine.is_degraded() {
            self.pace.probe_at = now;
        }
    }
}
