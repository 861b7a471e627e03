//! Health of each primary: every answer and every missed deadline is recorded here, for its breaker and its time.
//!
//! `housekeeping/maintenance` sends the pings that close the breaker, and hands the notices to the shell.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResult, HashSlotId, PrimaryIndex, StoreError};

use super::state::{Primary, StoreLink};
use crate::report::Notice;
use crate::store::breaker::Breaker;
use crate::store::losses::WitnessedLoss;
use crate::store::outbox::Outbox;
use crate::time::{ClockStepMs, LeaseEpoch, TimeBounds};

/// Number of deadlines after which a request that is found late tells nothing about the store: the agent itself did not run.
const OWN_DELAY_DEADLINES: u64 = 2;

impl StoreLink {
    /// Returns the primary that holds the counters of a slot.
    #[inline]
    pub(crate) fn primary_of(&self, slot: HashSlotId) -> PrimaryIndex {
        self.owners.owner(slot)
    }

    /// Returns true if counters may lie on different primaries.
    #[inline]
    pub(crate) fn has_several_primaries(&self) -> bool {
        self.owners.are_several()
    }

    /// Returns the primaries that have had a slot, or the only one.
    pub(crate) fn known_primaries(&self) -> impl Iterator<Item = PrimaryIndex> + use<> {
        self.owners.known()
    }

    /// Returns the primaries that have a slot, or the only one.
    #[inline]
    pub(crate) fn used_primaries(&self) -> impl Iterator<Item = PrimaryIndex> {
        self.owners.used()
    }

    /// Returns the number of times that slots have moved.
    pub(crate) fn slot_changes(&self) -> usize {
        self.owners.changes()
    }

    /// Takes the owners of all slots, in their order. What waits for a primary that has no slot any more waits for the new owners.
    pub(crate) fn follow_owners(&self, owners: &[Option<PrimaryIndex>]) {
        self.owners.follow(owners);
        let used: Vec<PrimaryIndex> = self.used_primaries().collect();
        for primary in self.known_primaries().filter(|primary| !used.contains(primary)) {
            self.hand_over(primary);
        }
    }

    #[inline]
    pub(super) fn primary(&self, primary: PrimaryIndex) -> &Primary {
        &self.primaries[primary.index()]
    }

    pub(super) fn all_used(&self) -> impl Iterator<Item = &Primary> {
        self.used_primaries().map(|primary| self.primary(primary))
    }

    /// Returns the interval in which the time of a primary lies.
    #[inline]
    pub(crate) fn time(&self, primary: PrimaryIndex, now: Timestamp) -> TimeBounds {
        if self.settings.owns_table { TimeBounds::exactly(now) } else { self.primary(primary).clock.read().at(now) }
    }

    /// Returns the interval in which the times of all primaries lie.
    #[inline]
    pub(crate) fn time_of_all(&self, now: Timestamp) -> TimeBounds {
        if !self.has_several_primaries() {
            return self.time(PrimaryIndex::ONLY, now);
        }
        let first = self
            .used_primaries()
            .next()
            .map_or_else(|| self.time(PrimaryIndex::ONLY, now), |first| self.time(first, now));
        self.used_primaries().fold(first, |all, primary| all.including(self.time(primary, now)))
    }

    /// Returns true if the counts are in a store outside of the agent.
    pub(crate) fn is_outside(&self) -> bool {
        !self.settings.owns_table && !self.settings.lacks_store
    }

    #[inline]
    pub(crate) fn breaker(&self, primary: PrimaryIndex) -> &Breaker {
        &self.primary(primary).breaker
    }

    /// Returns true while the breaker of a primary is open.
    #[inline]
    pub(crate) fn is_degraded(&self) -> bool {
        self.all_used().any(|primary| primary.breaker.is_open())
    }

    /// Forgets the deadlines that calls missed: they may wait longer by new rules.
    pub(crate) fn forget_deadlines(&self) {
        self.all_used().for_each(|primary| primary.breaker.forget_deadline());
    }

    pub(crate) fn outbox(&self, primary: PrimaryIndex) -> &Outbox {
        &self.primary(primary).outbox
    }

    /// Returns true if a primary has to be probed: its breaker is open, or unsynced units wait for it.
    #[inline]
    pub(crate) fn is_primary_needed(&self, primary: PrimaryIndex) -> bool {
        let primary = self.primary(primary);
        primary.breaker.is_open() || primary.outbox.has_units()
    }

    /// Returns true if a primary has to be probed.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.used_primaries().any(|primary| self.is_primary_needed(primary))
    }

    /// Returns true if a primary has answered a ping in this life, or the counts are in the engine's own table.
    pub(crate) fn is_reached(&self) -> bool {
        self.settings.owns_table || self.all_used().any(|primary| primary.is_reached.load(Ordering::Relaxed))
    }

    /// Returns the epoch of leases that a primary is asked for now.
    #[inline]
    pub(crate) fn lease_epoch(&self, primary: PrimaryIndex) -> LeaseEpoch {
        self.primary(primary).lease_epochs.current()
    }

    /// Ends all leases of a primary, because they may not be charged any more or its time is not known.
    pub(crate) fn end_leases(&self, primary: PrimaryIndex) {
        self.primary(primary).lease_epochs.end();
    }

    /// Records that a primary has lost units of all its counters.
    pub(crate) fn note_loss(&self, primary: PrimaryIndex, loss: WitnessedLoss) {
        self.primary(primary).losses.note(loss);
        self.end_leases(primary);
        self.reports.metrics().store_losses.add(1);
        self.reports.notify(Notice::StoreLost);
    }

    /// Records the time of a primary in an answer, which was sent for and received by this agent's clock. Each answer shows
    /// a step of its clock, whatever it is about.
    pub(crate) fn note_time(&self, primary: PrimaryIndex, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        let Primary { clock, losses, .. } = self.primary(primary);
        if clock.read().updated(sent, received, store_now).is_none() {
            return;
        }
        let mut clock = clock.write();
        // Another answer may have narrowed the bounds meanwhile.
        let Some((updated, step)) = clock.updated(sent, received, store_now) else { return };
        let contradicts = clock.contradicts(sent, received, store_now);
        *clock = updated;
        drop(clock);
        if contradicts {
            self.end_leases(primary);
        }
        losses.note_shown(updated.shown, updated.shown_by_small_steps);
        if let Some(by_ms) = step {
            self.store_clock_stepped(primary, by_ms, store_now);
        }
    }

    /// Records the time in the answer to a charge.
    pub(crate) fn note_time_of(
        &self,
        primary: PrimaryIndex,
        sent: Timestamp,
        received: Timestamp,
        answer: &Result<ChargeResult, StoreError>,
    ) {
        let store_now = match answer {
            Ok(result) => Some(result.at),
            Err(StoreError::Expired(at)) => Some(*at),
            Err(_) => None,
        };
        if let Some(store_now) = store_now {
            self.note_time(primary, sent, received, store_now);
        }
    }

    /// Drops or re-bases what is cached in the time of a primary, and reports the step.
    fn store_clock_stepped(&self, primary: PrimaryIndex, by_ms: ClockStepMs, store_now: Timestamp) {
        self.reports.metrics().store_clock_steps.add(1);
        let size_ms = by_ms.unsigned_abs();
        if by_ms < 0 {
            self.counters.rebase(primary, size_ms, store_now);
        }
        self.primary(primary).losses.clock_was_set();
        self.resets.clock_was_set();
        let size = Duration::from_millis(size_ms);
        let is_back = by_ms < 0;
        self.reports.notify(if is_back {
            Notice::StoreClockSteppedBack(size)
        } else {
            Notice::StoreClockSteppedForward(size)
        });
    }

    /// Closes the breaker of a primary, which has answered a ping and received the unsynced units.
    pub(crate) fn reached(&self, primary: PrimaryIndex, now: Timestamp) {
        let Primary { is_reached, breaker, .. } = self.primary(primary);
        is_reached.store(true, Ordering::Relaxed);
        if breaker.close(now) && !self.is_degraded() {
            let are_several = self.has_several_primaries();
            self.reports.notify(if are_several { Notice::PrimariesRecovered } else { Notice::StoreRecovered });
        }
    }

    /// Records a request of calls that a primary did not answer before their deadline. If the agent itself did not run for a
    /// while, the miss is its own: it says nothing about the store.
    pub(crate) fn unanswered_check(
        &self,
        primary: PrimaryIndex,
        sent: Timestamp,
        deadline: Duration,
        now: Timestamp,
        error: StoreError,
    ) {
        let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        let is_own_delay = now.ms_since(sent) > deadline_ms.saturating_mul(OWN_DELAY_DEADLINES);
        if is_own_delay && error.is_late() {
            self.reports.metrics().store_error(error);
        } else {
            if error.is_late() {
                self.breaker(primary).missed_deadline(deadline);
            }
            self.unanswered(primary, sent, deadline, now, error);
        }
    }

    /// Records a request that a primary did not answer within this deadline.
    pub(crate) fn unanswered(
        &self,
        primary: PrimaryIndex,
        sent: Timestamp,
        deadline: Duration,
        now: Timestamp,
        error: StoreError,
    ) {
        self.reports.metrics().store_error(error);
        if matches!(error, StoreError::AnswerLost | StoreError::Unreachable) {
            // The server of the next connection may have lost the leased units.
            self.end_leases(primary);
        }
        let breaker = self.breaker(primary);
        if breaker.missed(sent, deadline, now, error) {
            self.reports.notify(if self.has_several_primaries() {
                Notice::PrimaryUnavailable(error)
            } else {
                Notice::StoreUnavailable(error)
            });
        } else if breaker.is_suspected() {
            self.reports.wake_maintenance();
        }
    }

    /// Records that the connection to a primary was lost. A ping makes the next one.
    pub(crate) fn lost_connection(&self, primary: PrimaryIndex, error: StoreError) {
        self.reports.metrics().store_error(error);
        // The server of the next connection may have lost the leased units.
        self.end_leases(primary);
        self.breaker(primary).suspect();
        self.reports.wake_maintenance();
    }
}
