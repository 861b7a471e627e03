//! Pending units: what the agent knows about a charge enters the view of its counter here, and the counter waits in the outbox while
//! the store must be told of it.
//!
//! Unsynced units travel to the store with the next call on their counter; [`backfill`](super::backfill) sends those of counters
//! without calls. Both count what a view holds, so that the number of unsynced units is known without a look at the views.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, RequestId};
use tollgate_core::rules::Generation;

use super::state::StoreLink;
use crate::counters::{CounterView, Pending, PendingKind, Unsynced, ViewEvent, carry_pending, end_pending, update};
use crate::rules::{Charges, MatchedRule};
use crate::store::outbox::UnsyncedCounter;

/// Maximum number of charges of unsynced units in one request: about as much work for the store as the steps of a script
/// that calls share. Calls of other agents wait behind it, and larger requests of a few agents made them miss their
/// deadlines. What a counter has beyond it travels with the next request.
pub const BACKFILL_CHARGES_MAX: usize = 32;

impl StoreLink {
    /// Returns true if units were admitted without a primary and are not charged yet.
    #[inline]
    pub(crate) fn has_unsynced(&self) -> bool {
        self.all_used().any(|primary| primary.outbox.has_units())
    }

    /// Returns the largest number of entries of unsynced units that a counter has had.
    pub(crate) fn entries_most(&self) -> usize {
        self.entries.most()
    }

    /// Updates the view of a counter. The counter waits in the outbox if it has pending charges since, or if the store has lost
    /// units of it.
    pub(crate) fn update_counter(&self, matched: &MatchedRule<'_>, generation: Generation, event: ViewEvent<'_>) {
        let (needs_turn, lost) = self.counting_unsynced(matched.counter, |view| {
            let was_queued = view.is_queued();
            let lost = event.acknowledged().and_then(|answer| view.lost_units(&matched.policy, answer));
            update(&matched.policy, view, event);
            if lost.is_some() {
                update(&matched.policy, view, ViewEvent::Lost);
            }
            (view.is_queued() && !was_queued, lost)
        });
        if let Some(lost) = lost {
            self.counter_lost(matched, generation, lost);
        }
        if !needs_turn {
            return;
        }
        let counter = UnsyncedCounter { matched: matched.clone().into_owned(), generation };
        if let Some(dropped) = self.outbox(matched.primary).add_unsynced(counter) {
            self.forget_units(&dropped);
        }
        self.reports.wake_maintenance();
    }

    /// Drops the units of a counter for which the outbox has no room.
    pub(super) fn forget_units(&self, dropped: &UnsyncedCounter) {
        self.reports.metrics().unsynced_forgotten.add(1);
        let MatchedRule { counter, policy, .. } = &dropped.matched;
        self.counting_unsynced(*counter, |view| update(policy, view, ViewEvent::Forgotten));
    }

    /// Returns the charges of the units that calls on these counters carry to the store.
    pub(crate) fn carried<'a, 'r: 'a>(
        &self,
        generation: Generation,
        matched: impl Iterator<Item = &'a MatchedRule<'r>>,
    ) -> Charges {
        let mut charges = Charges::new();
        for matched in
            matched.filter(|matched| self.outbox(matched.primary).has_units() && matched.own_verdict().is_none())
        {
            // Calls of one request may share a counter.
            if !charges.iter().any(|charge: &Charge| charge.counter == matched.counter) {
                let room = BACKFILL_CHARGES_MAX - charges.len();
                let add = |view: &mut CounterView| {
                    charges.extend(carry_pending(view, room).map(|pending| charge_of(matched, generation, pending)));
                };
                self.counters.with(matched.counter, add);
            }
        }
        charges
    }

    pub(crate) fn confirm_carried<'c>(&self, charges: impl Iterator<Item = &'c Charge>) {
        for charge in charges {
            self.backfill_ended(charge);
        }
    }

    pub(super) fn backfill_ended(&self, charge: &Charge) {
        let end = |view: &mut CounterView| charge.request.map_or(0, |id| end_pending(view, id));
        self.reports.metrics().backfilled_units.add(self.counting_unsynced(charge.counter, end));
    }

    /// Returns units that were admitted without the store. Units of a request are backfilled under its id, by which the store
    /// recognises units that it has charged before; `own_id` is that of units without a request.
    pub(crate) fn unsynced(
        &self,
        request: Option<RequestId>,
        own_id: RequestId,
        at: Timestamp,
        units: u64,
    ) -> Unsynced {
        Unsynced { at, units, request, own_id, has_room: self.entries.has_room() }
    }

    /// Changes the view of a counter, and counts its unsynced units.
    pub(crate) fn counting_unsynced<R>(&self, counter: CounterId, change: impl FnOnce(&mut CounterView) -> R) -> R {
        self.counters.with(counter, |view| {
            let before = view.pending_size();
            let result = change(view);
            let after = view.pending_size();
            if before != after {
                let metrics = self.reports.metrics();
                metrics.unsynced_units.follow(before.units, after.units);
                self.entries.follow(before.entries, after.entries);
                // These numbers end with the units that they stand beside.
                metrics.unsynced_joined.add(after.joined.saturating_sub(before.joined));
                let forgotten = after.forgotten_refund_units.saturating_sub(before.forgotten_refund_units);
                metrics.refund_units_forgotten.add(forgotten);
            }
            result
        })
    }
}

/// Returns the charge that tells the store of a pending one.
pub(super) fn charge_of(matched: &MatchedRule<'_>, generation: Generation, pending: &Pending) -> Charge {
    let Pending { id, at, units, kind } = *pending;
    let mode = match kind {
        PendingKind::Admitted => ChargeMode::Backfill { at },
        PendingKind::Returned { whole } => ChargeMode::Refund { at, whole },
    };
    Charge { request: id, ..matched.charge(generation, units, mode) }
}
