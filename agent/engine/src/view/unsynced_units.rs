//! Unsynced units: units of one counter that were admitted without the store and must be backfilled, and units that the store
//! charged for calls that were denied before its late answer, which must be refunded.
//!
//! A view holds them while the counter is in the queue of unsynced counters, or in a backfill request. Units to backfill have
//! an id from their admission on, and the store charges an id once. So they are sent as often as it takes, with calls on the
//! counter and by the maintenance, until an answer confirms them. A refund has no id; it is sent once.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::RequestId;

/// Maximum number of entries that were never sent; past the cap, units of neighbouring times become one, and the oldest join the
/// next ones.
const UNSYNCED_LEN_MAX: usize = 128;
/// Maximum number of refunds that wait for the maintenance. Past the cap, the oldest is forgotten and counted: its units stay
/// charged, and leave the window first.
const REFUNDS_LEN_MAX: usize = 1_024;
/// Maximum number of refunds that a backfill request takes of one counter.
const SENT_REFUNDS_LEN_MAX: usize = 128;
/// Maximum number of entries that a call carries to the store. A call on a counter with more does not ask the store until the
/// maintenance has sent them.
const CARRIED_LEN_MAX: usize = 8;
/// Maximum number of calls whose unsynced slots are known one by one. Past the cap, the slot of the oldest call is backfilled
/// even if the call is released before.
const SLOTS_LEN_MAX: usize = 1_024;

/// Units that were admitted without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// Instant of the admission in store time; never too early.
    pub(crate) at: Timestamp,
    /// Number of units.
    pub(crate) units: u64,
    /// Identifier under which the store charges them once.
    pub(crate) id: RequestId,
    /// True as long as further units may join the entry. The store may have charged an entry that was sent as it was.
    pub(crate) is_open: bool,
}

/// Units that the store has charged or will be told of, and must give back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsyncedRefund {
    /// Instant of the charge.
    pub(crate) at: Timestamp,
    /// Number of units.
    pub(crate) units: u64,
    /// Request by which the store makes a correction of a call once.
    pub(crate) request: Option<RequestId>,
}

/// Unsynced units of one counter, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedUnits {
    entries: Vec<Unsynced>,
    refunds: Vec<UnsyncedRefund>,
    /// Calls that hold unsynced slots, oldest first. Calls of one instant share an entry, and each is released alone.
    slots: Vec<UnsyncedSlots>,
    /// Units of refunds that were forgotten.
    forgotten: u64,
}

/// Unsynced slots of one call.
#[derive(Clone, Copy, Debug)]
struct UnsyncedSlots {
    /// Identifier of the units of the call.
    call: RequestId,
    /// Identifier of the entry that contains them.
    entry: RequestId,
    units: u64,
}

impl UnsyncedUnits {
    /// Returns true if nothing is left: all was confirmed or refunded.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.refunds.is_empty()
    }

    /// Returns the number of units to backfill.
    pub(super) fn units(&self) -> u64 {
        self.entries.iter().map(|entry| entry.units).sum()
    }

    /// Returns true if a call can carry all entries.
    pub(super) fn fits_in_call(&self) -> bool {
        self.entries.len() <= CARRIED_LEN_MAX
    }

    /// Returns true if units were admitted that the store does not know.
    pub(super) fn has_units(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Enters units in the last entry. When there are many entries, units within `part_ms` become one; the later time is never
    /// too early.
    pub(super) fn add(&mut self, new: Unsynced, part_ms: u64) {
        let open = self.entries.iter().filter(|entry| entry.is_open).count();
        let near_ms = if open < UNSYNCED_LEN_MAX { 0 } else { part_ms };
        match self.entries.last_mut().filter(|newest| newest.is_open && new.is_open) {
            Some(newest) if apart_ms(newest.at, new.at) <= near_ms => {
                newest.at = newest.at.max(new.at);
                newest.units += new.units;
            }
            _ => self.entries.push(new),
        }
        if open > UNSYNCED_LEN_MAX
            && let Some(oldest) = self.entries.iter().position(|entry| entry.is_open)
        {
            let Unsynced { units, id, .. } = self.entries.remove(oldest);
            if let Some(next) = self.entries[oldest..].iter_mut().find(|entry| entry.is_open) {
                next.units = next.units.saturating_add(units);
                self.slots.iter_mut().filter(|slots| slots.entry == id).for_each(|slots| slots.entry = next.id);
            }
        }
    }

    /// Enters the slots of a call, which are found again by the identifier of its units.
    pub(super) fn add_slots(&mut self, new: Unsynced, part_ms: u64) {
        self.add(new, part_ms);
        let entry = self.entries.last().map_or(new.id, |entry| entry.id);
        if self.slots.len() >= SLOTS_LEN_MAX {
            self.slots.remove(0);
        }
        self.slots.push(UnsyncedSlots { call: new.id, entry, units: new.units });
    }

    /// Returns the number of units whose refunds were forgotten.
    pub(super) fn forgotten_refund_units(&self) -> u64 {
        self.forgotten
    }

    /// Enters units that the store must give back. Those of one instant become one, unless the store knows them by a request.
    pub(super) fn add_refund(&mut self, new: UnsyncedRefund) {
        let is_same = |known: &&mut UnsyncedRefund| (known.at, known.request, new.request) == (new.at, None, None);
        if let Some(known) = self.refunds.iter_mut().find(is_same) {
            known.units = known.units.saturating_add(new.units);
            return;
        }
        self.refunds.push(new);
        if self.refunds.len() > REFUNDS_LEN_MAX
            && let Some((oldest, _)) = self.refunds.iter().enumerate().min_by_key(|(_, refund)| refund.at)
        {
            self.forgotten = self.forgotten.saturating_add(self.refunds.remove(oldest).units);
        }
    }

    /// Removes the slots of a call. If they were sent, they are not sent again.
    pub(super) fn remove_slots(&mut self, call: RequestId) {
        // A request with an id may have been admitted more than once, as one charge.
        for slots in self.slots.extract_if(.., |slots| slots.call == call) {
            let holds = |entry: &&mut Unsynced| entry.id == slots.entry && entry.units >= slots.units;
            self.entries.iter_mut().find(holds).into_iter().for_each(|entry| entry.units -= slots.units);
        }
        self.entries.retain(|entry| entry.units > 0);
    }

    /// Returns true if the slots of a call were never sent.
    pub(super) fn holds_unsent_slots(&self, call: RequestId) -> bool {
        let is_unsent = |id| self.entries.iter().any(|entry| entry.is_open && entry.id == id);
        self.slots.iter().any(|slots| slots.call == call && is_unsent(slots.entry))
    }

    /// Returns true if units of exactly this instant were never sent.
    pub(super) fn holds_unsent(&self, at: Timestamp, units: u64) -> bool {
        self.entries.iter().any(|entry| entry.is_open && entry.at == at && entry.units >= units)
    }

    /// Returns all units to backfill, which are sent now.
    pub(super) fn send(&mut self) -> &[Unsynced] {
        self.entries.iter_mut().for_each(|entry| entry.is_open = false);
        &self.entries
    }

    /// Returns the next units of the maintenance: those that were sent and not confirmed, else all. So what grows while a store
    /// answers nothing stays in few entries.
    pub(super) fn send_next(&mut self) -> Vec<Unsynced> {
        if self.entries.iter().all(|entry| entry.is_open) {
            self.send();
        }
        self.entries.iter().filter(|entry| !entry.is_open).copied().collect()
    }

    /// Takes the next units that the store must give back, which are sent now.
    pub(super) fn take_refunds(&mut self) -> Vec<UnsyncedRefund> {
        self.refunds.drain(..self.refunds.len().min(SENT_REFUNDS_LEN_MAX)).collect()
    }

    /// Drops the units that were sent under an id; returns their number.
    pub(super) fn end(&mut self, id: RequestId) -> u64 {
        let before = self.units();
        self.entries.retain(|entry| entry.is_open || entry.id != id);
        self.slots.retain(|slots| slots.entry != id);
        before - self.units()
    }
}

fn apart_ms(one: Timestamp, other: Timestamp) -> u64 {
    one.max(other).ms_since(one.min(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn new(ms: u64, units: u64) -> Unsynced {
        Unsynced { at: at(ms), units, id: id(ms), is_open: true }
    }

    const fn id(ms: u64) -> RequestId {
        RequestId::from_u128(ms as u128)
    }

    #[test]
    fn units_are_unsynced_until_the_store_has_confirmed_them() {
        let mut unsynced = UnsyncedUnits::default();
        unsynced.add(new(10, 2), 100);
        unsynced.add(new(10, 1), 100);
        assert_eq!(unsynced.send(), [Unsynced { is_open: false, ..new(10, 3) }], "units of one instant are one entry");
        unsynced.add(new(20, 4), 100);
        assert!(unsynced.holds_unsent(at(20), 4) && !unsynced.holds_unsent(at(20), 5));
        assert!(!unsynced.holds_unsent(at(10), 3), "the store may know them");
        let ids: Vec<_> = unsynced.send_next().iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [id(10)], "what was sent is sent again, under its id");
        assert_eq!(unsynced.send().len(), 2, "a call carries all");
        assert_eq!([unsynced.end(id(10)), unsynced.end(id(10))], [3, 0]);
        assert_eq!((unsynced.units(), unsynced.is_empty()), (4, false));
        unsynced.end(id(20));
        assert!(unsynced.is_empty());
    }

    /// The ids of the entries and their units.
    fn left(unsynced: &UnsyncedUnits) -> Vec<(RequestId, u64)> {
        unsynced.entries.iter().map(|entry| (entry.id, entry.units)).collect()
    }

    /// C6: calls of one instant are told apart, whether their slots were sent or not.
    #[test]
    fn a_release_removes_the_slots_of_its_own_call() {
        let mut unsynced = UnsyncedUnits::default();
        let call = |number| Unsynced { id: id(number), ..new(10, 1) };
        unsynced.add_slots(call(1), 100);
        unsynced.send();
        for number in [2, 3, 4] {
            unsynced.add_slots(call(number), 100);
        }
        assert_eq!(left(&unsynced), [(id(1), 1), (id(2), 3)], "slots of one instant are one entry");
        assert!(
            !unsynced.holds_unsent_slots(id(1)) && unsynced.holds_unsent_slots(id(3)),
            "the store may know the first"
        );
        unsynced.remove_slots(id(3));
        unsynced.remove_slots(id(3));
        assert_eq!(left(&unsynced), [(id(1), 1), (id(2), 2)], "a call is released once");
        unsynced.remove_slots(id(1));
        unsynced.remove_slots(id(2));
        assert_eq!(left(&unsynced), [(id(2), 1)], "the entry keeps its id, and the slot of the last call");
        unsynced.send();
        unsynced.end(id(2));
        unsynced.add_slots(call(5), 100);
        unsynced.remove_slots(id(4));
        assert_eq!(left(&unsynced), [(id(5), 1)], "a call that the store has charged is not looked for here");
    }

    /// All decisions on a request with an id are one charge.
    #[test]
    fn the_release_of_a_request_removes_the_slots_of_all_its_decisions() {
        let mut unsynced = UnsyncedUnits::default();
        for ms in [10, 20] {
            unsynced.add_slots(Unsynced { id: id(1), is_open: false, ..new(ms, 1) }, 100);
        }
        unsynced.remove_slots(id(1));
        assert!(unsynced.is_empty());
    }

    /// capped: past the cap, the slot of the oldest call is no longer found, and stays in its entry.
    #[test]
    fn slots_that_are_too_many_are_backfilled() {
        let mut unsynced = UnsyncedUnits::default();
        let calls = SLOTS_LEN_MAX as u64 + 1;
        (0..calls).for_each(|number| unsynced.add_slots(Unsynced { id: id(number), ..new(number, 1) }, 1));
        (0..calls).for_each(|number| unsynced.remove_slots(id(number)));
        assert_eq!((unsynced.units(), unsynced.slots.len()), (1, 0), "those that joined another entry are found there");
    }

    #[test]
    fn a_long_outage_needs_few_entries_and_a_call_carries_few() {
        let mut unsynced = UnsyncedUnits::default();
        for ms in 0..10_000 {
            unsynced.add(new(ms, 1), 1_000);
        }
        assert!(unsynced.entries.len() <= UNSYNCED_LEN_MAX + 10 && !unsynced.fits_in_call());
        assert_eq!(unsynced.units(), 10_000);
    }

    /// capped, I12: a burst, and then calls that are far apart: entries become one, and no unit is lost.
    #[test]
    fn past_the_cap_no_unit_is_lost() {
        let mut unsynced = UnsyncedUnits::default();
        let bursts = UNSYNCED_LEN_MAX as u64 + 2;
        (0..bursts).for_each(|ms| unsynced.add(new(ms, 1), 1));
        (1..=20).for_each(|calls| unsynced.add(new(calls * 6_000, 1), 5_000));
        assert!(unsynced.entries.len() <= UNSYNCED_LEN_MAX + 1);
        assert_eq!(unsynced.units(), bursts + 20);
    }

    /// capped: past the cap on refunds, the oldest is forgotten and its units are counted. Late answers of one instant need one
    /// refund; one that the store knows by its request stays apart.
    #[test]
    fn past_the_cap_the_oldest_refund_is_forgotten_and_counted() {
        let mut unsynced = UnsyncedUnits::default();
        let refund = |ms, units, request| UnsyncedRefund { at: at(ms), units, request };
        (0..10_000).for_each(|_| unsynced.add_refund(refund(5, 1, None)));
        unsynced.add_refund(refund(5, 2, Some(id(1))));
        unsynced.add_refund(refund(5, 3, Some(id(2))));
        assert_eq!((unsynced.refunds.len(), unsynced.forgotten_refund_units()), (3, 0));
        let later = REFUNDS_LEN_MAX as u64;
        (0..later).rev().for_each(|ms| unsynced.add_refund(refund(10 + ms, 1, None)));
        assert_eq!((unsynced.refunds.len(), unsynced.forgotten_refund_units()), (REFUNDS_LEN_MAX, 10_005));
        let mut left = 0;
        while !unsynced.is_empty() {
            let sent = unsynced.take_refunds();
            assert!(sent.len() <= SENT_REFUNDS_LEN_MAX && sent.iter().all(|refund| refund.at >= at(10)), "{sent:?}");
            left += sent.iter().map(|refund| refund.units).sum::<u64>();
        }
        assert_eq!(left, later, "no other units are lost");
    }

    #[test]
    fn a_refund_is_sent_once() {
        let mut unsynced = UnsyncedUnits::default();
        let refund = UnsyncedRefund { at: at(10), units: 2, request: None };
        unsynced.add_refund(refund);
        assert!(!unsynced.is_empty() && !unsynced.has_units());
        assert_eq!((unsynced.take_refunds(), unsynced.is_empty()), (vec![refund], true));
    }
}
