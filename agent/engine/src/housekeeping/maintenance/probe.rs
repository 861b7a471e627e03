//! A probe of the store: a ping, and then the backfill. Its answer tells for which calls the store is used again.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{PrimaryIndex, StoreError};

use super::state::{LastAnswer, Maintenance, Probe};
use super::work::{MaintenanceEffect, MaintenanceRequest};
use crate::request::{Operation, Progress, UNATTENDED_DEADLINE};

/// Time from the ping after which no further backfill is sent, in ms. Calls then use the store again even if units are
/// left. Calls that are decided without the store would make new units as fast as the backfill removes them.
const BACKFILL_MS_MAX: u64 = 1_000;

impl Maintenance {
    /// Sends the request that follows an answered ping: the witness, which the backfill follows, or the backfill.
    pub(super) fn follow_ping(&mut self, now: Timestamp, primary: PrimaryIndex, effects: &mut Vec<MaintenanceEffect>) {
        let awaits_witness = self.raise_witness(now, primary, effects);
        match &mut self.duties(primary).probe {
            Some(probe) if awaits_witness => probe.awaits_witness = true,
            _ => self.backfill_next(now, primary, effects),
        }
    }

    /// Sends the next unsynced units. When the round is over, the primary is used again. Units that are left, because
    /// it has no room for them or the time is over, are sent with the next probe.
    pub(super) fn backfill_next(
        &mut self,
        now: Timestamp,
        primary: PrimaryIndex,
        effects: &mut Vec<MaintenanceEffect>,
    ) {
        if let Some(probe) = &self.duties(primary).probe
            && now.ms_since(probe.ping_sent) < BACKFILL_MS_MAX
            && let Progress::NeedsStore(request) = self.engine.begin(now, Operation::Backfill(primary))
        {
            effects.push(MaintenanceEffect::Send(MaintenanceRequest::Backfill(request)));
            return;
        }
        let breaker = self.engine.store.breaker(primary);
        let duties = &mut self.primaries[primary.index()];
        let Probe { is_late, ping_took_ms, is_of_miss, .. } = duties.probe.take().unwrap_or_default();
        duties.answered = LastAnswer::InTime;
        if is_late && breaker.is_open() {
            breaker.answered_late(now, ping_took_ms);
            duties.answered = LastAnswer::Late;
            return duties.pace.missed(now);
        }
        if self.rules_missed > 0 {
            self.rules_at = now;
        }
        if !is_of_miss || self.engine.store.is_primary_needed(primary) {
            duties.pace.found(now, self.engine.store.outbox(primary).has_units());
        }
        self.engine.store.reached(primary, now);
    }

    /// Returns true if a primary answers requests without a caller.
    pub(super) fn primary_answers(&self, primary: PrimaryIndex) -> bool {
        match self.primaries[primary.index()].answered {
            LastAnswer::Missing => false,
            LastAnswer::Late => true,
            LastAnswer::InTime => !self.engine.store.breaker(primary).is_open(),
        }
    }

    /// Returns true if any primary answers requests without a caller.
    pub(super) fn store_answers(&self) -> bool {
        let mut primaries = self.engine.store.used_primaries().filter(|primary| primary.index() < self.primaries.len());
        primaries.any(|primary| self.primary_answers(primary))
    }

    /// Returns the time within which a ping is in time for calls, and the time that it may take. While calls use the
    /// store, it has their deadline, so that its miss counts like theirs.
    pub(super) fn ping_deadlines(&self, primary: PrimaryIndex) -> (Duration, Duration) {
        let breaker = self.engine.store.breaker(primary);
        let in_time = breaker.deadline().unwrap_or(UNATTENDED_DEADLINE).min(UNATTENDED_DEADLINE);
        (in_time, if breaker.is_open() { UNATTENDED_DEADLINE } else { in_time })
    }

    pub(super) fn probe_missed(&mut self, now: Timestamp, primary: PrimaryIndex, error: StoreError) {
        let duties = &mut self.primaries[primary.index()];
        let sent = duties.probe.take().map_or(now, |probe| probe.ping_sent);
        duties.answered = LastAnswer::Missing;
        duties.pace.missed(now);
        if error == StoreError::TimedOut && duties.pace.is_connecting(now) {
            return self.engine.metrics().store_error(error);
        }
        let deadline = self.ping_deadlines(primary).1;
        self.engine.store.unanswered(primary, sent, deadline, now, error);
        // Until the breaker is open, calls are denied meanwhile.
        if error == StoreError::TimedOut && !self.engine.store.breaker(primary).is_open() {
            self.duties(primary).pace.probe_at = now;
        }
    }
}
