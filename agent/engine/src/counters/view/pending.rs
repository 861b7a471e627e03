//! Pending charges of one counter: units that were admitted without the store and must be backfilled, and units that the
//! store charged for calls that were denied before its late answer, which must be refunded.
//!
//! A view holds them while the counter is in the queue of unsynced counters, or in a backfill request. Units to
//! backfill have an id from their admission on, and the store charges an id once. So they are sent as often as it
//! takes, with calls on the counter and by the maintenance, until an answer confirms them. A refund that names its
//! request is repeated, too; another one is sent once.
//!
//! Units of calls without an id become one entry where there are many. A call with an id has an entry of its own, by
//! which the store knows a retry of the call. Past the caps, such a call is one of many, too: no unit is lost, but the
//! store charges a retry of it again. Units that no window holds any more make room first.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CallCorrection, RequestId};

use super::ageing::Ageing;

#[cfg(test)]
mod tests;

/// Maximum number of entries that further units may join; past the cap, units of neighbouring times become one, and the
/// oldest join the next ones.
const OPEN_LEN_MAX: usize = 128;
/// Maximum number of entries of one counter that are closed to further units: of calls with an id, or sent.
const CLOSED_LEN_MAX: usize = 4_096;
/// Maximum number of refunds that wait for the maintenance. Past the cap, the oldest is forgotten and counted: its
/// units stay charged, and leave the window first.
const REFUNDS_LEN_MAX: usize = 1_024;
/// Maximum number of calls whose unsynced slots are known one by one. Past the cap, the slot of the oldest call is
/// backfilled even if the call is released before.
const SLOTS_LEN_MAX: usize = 1_024;
/// Maximum number of entries that a call carries to the store. A call on a counter with more does not ask the store
/// until the maintenance has sent them.
const CARRIED_LEN_MAX: usize = 8;
/// Maximum number of entries of one counter: a sent batch of open entries may come on top of those of calls with an id.
pub const UNSYNCED_ENTRIES_OF_COUNTER_MAX: usize = CLOSED_LEN_MAX + 2 * (OPEN_LEN_MAX + 1) + CARRIED_LEN_MAX;

/// Units that were admitted for a call without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// Instant of the admission in store time; never too early.
    pub(crate) at: Timestamp,
    pub(crate) units: u64,
    /// Identifier of the call under which the store charges it once, if it has one and is not one of too many.
    pub(crate) request: Option<RequestId>,
    /// Identifier that only this agent gives, under which the store charges the units of calls without one.
    pub(crate) own_id: RequestId,
    /// True if the agent has room for an entry of the call's own.
    pub(crate) has_room: bool,
}

/// A charge that the store has not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Identifier under which the store makes the charge once. A refund without one is sent once.
    pub(crate) id: Option<RequestId>,
    /// Instant of the last of the units in store time; never too early.
    pub(crate) at: Timestamp,
    pub(crate) units: u64,
    pub(crate) kind: PendingKind,
}

/// Effect of a pending charge on the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingKind {
    /// The store must charge units that were admitted without it.
    Admitted,
    /// The store must give back units that it has charged or will be told of.
    Returned {
        /// Kind of this correction, if it leaves nothing of the charge of a call with an id.
        whole: Option<CallCorrection>,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingSize {
    /// Number of units to backfill.
    pub(crate) units: u64,
    pub(crate) entries: usize,
    /// Number of calls with an id that are not known by it, because there were too many.
    pub(crate) joined: u64,
    pub(crate) forgotten_refund_units: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PendingCharges {
    /// Entries that were sent, which the store may have charged as they are, and those of calls with an id; oldest first.
    closed: VecDeque<Pending>,
    /// Entries that further units may join, oldest first.
    open: VecDeque<Pending>,
    /// Sum of the units of all entries.
    units: u64,
    /// Number of calls with an id that are part of an open entry.
    joined: u64,
    returned: Vec<Pending>,
    /// Calls that hold unsynced slots, oldest first. Calls of one instant share an entry, and each is released alone.
    slots: Vec<UnsyncedSlots>,
    forgotten: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnsyncedSlots {
    /// Identifier of the units of the call.
    call: RequestId,
    /// Identifier of the entry that contains them.
    entry: RequestId,
    units: u64,
}

impl Pending {
    pub(crate) fn admitted(at: Timestamp, units: u64, id: RequestId) -> Self {
        Self { id: Some(id), at, units, kind: PendingKind::Admitted }
    }

    /// Creates the refund of units that the store has charged for a call without a correction of its own.
    pub(crate) fn returned(at: Timestamp, units: u64) -> Self {
        Self { id: None, at, units, kind: PendingKind::Returned { whole: None } }
    }
}

impl PendingCharges {
    pub(super) fn is_empty(&self) -> bool {
        !self.has_units() && self.returned.is_empty()
    }

    pub(super) fn size(&self) -> PendingSize {
        let Self { units, joined, forgotten, .. } = *self;
        PendingSize { units, entries: self.len(), joined, forgotten_refund_units: forgotten }
    }

    fn len(&self) -> usize {
        self.closed.len() + self.open.len()
    }

    pub(super) fn fits_in_call(&self) -> bool {
        self.len() <= CARRIED_LEN_MAX
    }

    pub(super) fn has_units(&self) -> bool {
        !(self.closed.is_empty() && self.open.is_empty())
    }

    pub(super) fn add(&mut self, new: Unsynced, ageing: Ageing) {
        self.enter(new, ageing);
    }

    /// Enters units. When there are many entries, units within a part of the window become one; the later time is never too
    /// early. Returns the identifier of their entry.
    fn enter(&mut self, new: Unsynced, ageing: Ageing) -> RequestId {
        self.units = self.units.saturating_add(new.units);
        let Unsynced { at, units, request, own_id, has_room } = new;
        if self.closed.len() >= CLOSED_LEN_MAX {
            self.drop_past(new.at, ageing);
        }
        if let Some(id) = request.filter(|_| has_room && self.closed.len() < CLOSED_LEN_MAX) {
            self.closed.push_back(Pending::admitted(at, units, id));
            return id;
        }
        self.joined += u64::from(request.is_some());
        let near_ms = if self.open.len() < OPEN_LEN_MAX { 0 } else { ageing.sub_window_ms };
        match self.open.back_mut() {
            Some(newest) if apart_ms(newest.at, at) <= near_ms => {
                newest.at = newest.at.max(at);
                newest.units = newest.units.saturating_add(units);
            }
            _ => self.open.push_back(Pending::admitted(at, units, own_id)),
        }
        if self.open.len() > OPEN_LEN_MAX
            && let Some(oldest) = self.open.pop_front()
            && let Some(next) = self.open.front_mut()
        {
            next.units = next.units.saturating_add(oldest.units);
            next.at = next.at.max(oldest.at);
            self.slots.iter_mut().filter(|slots| Some(slots.entry) == oldest.id).for_each(|slots| {
                slots.entry = next.id.unwrap_or(slots.entry);
            });
        }
        self.open.back().and_then(|newest| newest.id).unwrap_or(own_id)
    }

    /// Enters the slots of a call, which are found again by the identifier of its units.
    pub(super) fn add_slots(&mut self, new: Unsynced, ageing: Ageing) {
        let entry = self.enter(new, ageing);
        if self.slots.len() >= SLOTS_LEN_MAX {
            self.slots.remove(0);
        }
        self.slots.push(UnsyncedSlots { call: new.request.unwrap_or(new.own_id), entry, units: new.units });
    }

    /// Drops the oldest entries that no store holds any more.
    fn drop_past(&mut self, now: Timestamp, ageing: Ageing) {
        for entries in [&mut self.closed, &mut self.open] {
            while let Some(oldest) = entries.front().filter(|oldest| ageing.is_past(oldest.at, now)) {
                self.units = self.units.saturating_sub(oldest.units);
                entries.pop_front();
            }
        }
        self.returned.retain(|refund| !ageing.is_past(refund.at, now));
    }

    /// Enters units that the store must give back. Those of one instant become one, unless the store knows them by a
    /// request.
    pub(super) fn add_refund(&mut self, new: Pending) {
        let is_same = |known: &&mut Pending| (known.at, known.id, new.id) == (new.at, None, None);
        if let Some(known) = self.returned.iter_mut().find(is_same) {
            known.units = known.units.saturating_add(new.units);
            return;
        }
        self.returned.push(new);
        if self.returned.len() > REFUNDS_LEN_MAX
            && let Some((oldest, _)) = self.returned.iter().enumerate().min_by_key(|(_, refund)| refund.at)
        {
            self.forgotten = self.forgotten.saturating_add(self.returned.remove(oldest).units);
        }
    }

    /// Removes the slots of a call. If they were sent, they are not sent again.
    pub(super) fn remove_slots(&mut self, call: RequestId) {
        // A request with an id may have been admitted more than once, as one charge.
        for slots in self.slots.extract_if(.., |slots| slots.call == call) {
            let holds = |entry: &Pending| entry.id == Some(slots.entry) && entry.units >= slots.units;
            for entries in [&mut self.open, &mut self.closed] {
                let Some(position) = entries.iter().position(holds) else { continue };
                entries[position].units -= slots.units;
                self.units = self.units.saturating_sub(slots.units);
                if entries[position].units == 0 {
                    entries.remove(position);
                }
                break;
            }
        }
    }

    pub(super) fn holds_unsent_slots(&self, call: RequestId) -> bool {
        let is_unsent = |id| self.open.iter().any(|entry| entry.id == Some(id));
        self.slots.iter().any(|slots| slots.call == call && is_unsent(slots.entry))
    }

    /// Returns true if units of exactly this instant were never sent.
    pub(super) fn holds_unsent(&self, at: Timestamp, units: u64) -> bool {
        self.open.iter().any(|entry| entry.at == at && entry.units >= units)
    }

    /// Returns the entries that a call carries, which are sent now: the newest ones, `len_max` at most. The maintenance
    /// sends the oldest first.
    pub(super) fn send(&mut self, len_max: usize) -> impl Iterator<Item = &Pending> {
        self.closed.extend(self.open.drain(..));
        self.closed.iter().skip(self.closed.len().saturating_sub(len_max))
    }

    /// Returns the next entries of the maintenance, `len_max` at most: those that are closed, else the open ones. Units
    /// that are admitted while a store does not answer thus stay in few entries. Refunds follow all entries, since the
    /// units that they refund may be there.
    pub(super) fn send_next(&mut self, len_max: usize) -> Vec<Pending> {
        if self.closed.is_empty() {
            self.closed.extend(self.open.drain(..));
        }
        let mut sent: Vec<_> = self.closed.iter().take(len_max).copied().collect();
        let returned = if sent.len() == self.len() { len_max - sent.len() } else { 0 };
        sent.extend(self.returned.drain(..returned.min(self.returned.len())));
        sent
    }

    /// Drops what was admitted or refunded by `at`.
    pub(super) fn forget_until(&mut self, at: Timestamp) {
        self.closed.retain(|entry| entry.at > at);
        self.open.retain(|entry| entry.at > at);
        self.returned.retain(|refund| refund.at > at);
        self.units = self.closed.iter().chain(&self.open).map(|entry| entry.units).sum();
    }

    /// Drops an entry that was sent under an id; returns its units.
    pub(super) fn end(&mut self, id: RequestId) -> u64 {
        // The oldest are sent first.
        let position = self.closed.iter().position(|entry| entry.id == Some(id));
        let units = position.and_then(|position| self.closed.remove(position)).map_or(0, |ended| ended.units);
        self.units = self.units.saturating_sub(units);
        self.slots.retain(|slots| slots.entry != id);
        units
    }
}

fn apart_ms(one: Timestamp, other: Timestamp) -> u64 {
    one.max(other).ms_since(one.min(other))
}
