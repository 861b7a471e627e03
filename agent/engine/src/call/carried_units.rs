//! Carried units: unsynced units travel to the store with the next call on their counter.
//!
//! [`backfill`](crate::call::backfill) sends those of counters without calls. Both count what a view holds, so that the number of
//! unsynced units is known without a look at the views.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, RequestId};
use tollgate_core::rules::Generation;

use crate::counters::{CounterView, Unsynced, UnsyncedEntry, carry_unsynced, end_backfill};
use crate::engine::Engine;
use crate::rules::{Charges, MatchedRule};

/// Maximum number of charges of unsynced units in one request: about as much work for the store as the steps of a script
/// that calls share. Calls of other agents wait behind it, and larger requests of a few agents made them miss their
/// deadlines. What a counter has beyond it travels with the next request.
pub const BACKFILL_CHARGES_MAX: usize = 32;

impl Engine {
    /// Returns the charges of the units that calls on these counters carry to the store.
    pub(crate) fn carried<'a, 'r: 'a>(
        &self,
        generation: Generation,
        matched: impl Iterator<Item = &'a MatchedRule<'r>>,
    ) -> Charges {
        let mut charges = Charges::new();
        for matched in matched.filter(|matched| self.has_unsynced() && matched.own_verdict().is_none()) {
            // Calls of one request may share a counter.
            if !charges.iter().any(|charge: &Charge| charge.counter == matched.counter) {
                let room = BACKFILL_CHARGES_MAX - charges.len();
                let add = |view: &mut CounterView| {
                    charges.extend(
                        carry_unsynced(view, room).map(|unsynced| backfill_charge(matched, generation, unsynced)),
                    );
                };
                self.table.with(matched.counter, add);
            }
        }
        charges
    }

    pub(crate) fn confirm_carried(&self, charges: &[Charge]) {
        for charge in charges {
            self.backfill_ended(charge);
        }
    }

    pub(crate) fn backfill_ended(&self, charge: &Charge) {
        let end = |view: &mut CounterView| charge.request.map_or(0, |id| end_backfill(view, id));
        self.metrics.backfilled_units.add(self.counting_unsynced(charge.counter, end));
    }

    /// Returns units that were admitted for the call of this number without the store. Units of a request are
    /// backfilled under its id, by which the store recognises units that it has charged before.
    pub(crate) fn unsynced_units(&self, call: u64, request: Option<RequestId>, at: Timestamp, units: u64) -> Unsynced {
        let has_room = self.unsynced.has_room();
        Unsynced { at, units, request, own_id: self.backfill_ids.after(call), has_room }
    }

    /// Returns the identifier of the units that were admitted for the call of this number without the store.
    pub(crate) fn unsynced_id(&self, call: u64, request: Option<RequestId>) -> RequestId {
        request.unwrap_or_else(|| self.backfill_ids.after(call))
    }

    /// Changes the view of a counter, and counts its unsynced units.
    pub(crate) fn counting_unsynced<R>(&self, counter: CounterId, change: impl FnOnce(&mut CounterView) -> R) -> R {
        self.table.with(counter, |view| {
            let before = view.unsynced_size();
            let result = change(view);
            let after = view.unsynced_size();
            if before != after {
                let metrics = &self.metrics;
                metrics.unsynced_units.follow(before.units, after.units);
                self.unsynced.note_entries(before.entries, after.entries);
                // These numbers end with the units that they stand beside.
                metrics.unsynced_joined.add(after.joined.saturating_sub(before.joined));
                let forgotten = after.forgotten_refund_units.saturating_sub(before.forgotten_refund_units);
                metrics.refund_units_forgotten.add(forgotten);
            }
            result
        })
    }
}

pub(crate) fn backfill_charge(matched: &MatchedRule<'_>, generation: Generation, unsynced: &UnsyncedEntry) -> Charge {
    let UnsyncedEntry { at, units, id } = *unsynced;
    Charge { request: Some(id), ..matched.charge(generation, units, ChargeMode::Backfill { at }) }
}
