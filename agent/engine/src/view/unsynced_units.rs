//! Unsynced units: units of one counter that were admitted without the store and must be backfilled, and units that the store
//! charged for calls that were denied before its late answer, which must be refunded.
//!
//! A view holds them while the counter is in the queue of unsynced counters, or in a backfill request. Units to backfill have
//! an id from their admission on, and the store charges an id once. So they are sent as often as it takes, with calls on the
//! counter and by the maintenance, until an answer confirms them. A refund has no id; it is sent once. Units that no window
//! holds any more are dropped.
//!
//! Units of calls without an id become one entry where there are many. A call with an id has an entry of its own, by which the
//! store knows a retry of the call. Past the caps, such a call is one of many, too: no unit is lost, but the store charges a
//! retry of it again.

use std::collections::VecDeque;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::RequestId;
use tollgate_core::rules::LimitPolicy;

#[cfg(test)]
mod tests;

/// Maximum number of entries that further units may join; past the cap, units of neighbouring times become one, and the oldest
/// join the next ones.
const OPEN_LEN_MAX: usize = 128;
/// Maximum number of entries of one counter that are closed to further units: of calls with an id, or sent.
const CLOSED_LEN_MAX: usize = 4_096;
/// Maximum number of entries that a call carries to the store. A call on a counter with more does not ask the store until the
/// maintenance has sent them.
const CARRIED_LEN_MAX: usize = 8;
/// Maximum number of entries of one counter: a sent batch of open entries may come on top of those of calls with an id.
pub const UNSYNCED_ENTRIES_OF_COUNTER_MAX: usize = CLOSED_LEN_MAX + 2 * (OPEN_LEN_MAX + 1) + CARRIED_LEN_MAX;

/// Units that a call was admitted without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// Instant of the admission in store time; never too early.
    pub(crate) at: Timestamp,
    /// Number of units.
    pub(crate) units: u64,
    /// Identifier of the call under which the store charges it once, if it has one and is not one of too many.
    pub(crate) request: Option<RequestId>,
    /// Identifier that only this agent gives, under which the store charges the units of calls without one.
    pub(crate) own_id: RequestId,
}

/// Units that the store charges as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsyncedEntry {
    /// Instant of the last admission in store time; never too early.
    pub(crate) at: Timestamp,
    /// Number of units.
    pub(crate) units: u64,
    /// Identifier under which the store charges them once.
    pub(crate) id: RequestId,
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

/// Size of the unsynced units of one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnsyncedSize {
    /// Number of units to backfill.
    pub(crate) units: u64,
    /// Number of entries.
    pub(crate) entries: usize,
    /// Number of calls with an id that are not known by it, because there were too many.
    pub(crate) joined: u64,
}

/// Time for which a store can hold units of a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ageing {
    part_ms: u64,
    kept_ms: u64,
}

/// Unsynced units of one counter.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedUnits {
    /// Entries that were sent, which the store may have charged as they are, and those of calls with an id; oldest first.
    closed: VecDeque<UnsyncedEntry>,
    /// Entries that further units may join, oldest first.
    open: VecDeque<UnsyncedEntry>,
    /// Sum of the units of all entries.
    units: u64,
    /// Number of calls with an id that are part of an open entry.
    joined: u64,
    refunds: Vec<UnsyncedRefund>,
}

impl Ageing {
    /// Returns the times of a policy. A burst over a window is free again once its reserve is refilled; the level of a bucket
    /// may fall for any time.
    pub(super) fn of(policy: &LimitPolicy) -> Self {
        let (width_ms, part_ms) = (policy.window.width_ms(), policy.window.part_ms());
        if matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
            return Self { part_ms, kept_ms: u64::MAX };
        }
        let refill_ms = u128::from(width_ms) * u128::from(policy.burst) / u128::from(policy.quota.units().max(1));
        let kept_ms = u128::from(width_ms) + u128::from(part_ms) + refill_ms;
        Self { part_ms, kept_ms: u64::try_from(kept_ms).unwrap_or(u64::MAX) }
    }

    /// Returns true if no store holds units of this instant any more, and never will.
    fn is_past(self, at: Timestamp, now: Timestamp) -> bool {
        now.ms_since(at) > self.kept_ms
    }
}

impl UnsyncedUnits {
    /// Returns true if nothing is left: all was confirmed or refunded.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_units() && self.refunds.is_empty()
    }

    /// Returns the size.
    pub(super) fn size(&self) -> UnsyncedSize {
        UnsyncedSize { units: self.units, entries: self.len(), joined: self.joined }
    }

    fn len(&self) -> usize {
        self.closed.len() + self.open.len()
    }

    /// Returns true if a call can carry all entries.
    pub(super) fn fits_in_call(&self) -> bool {
        self.len() <= CARRIED_LEN_MAX
    }

    /// Returns true if units were admitted that the store does not know.
    pub(super) fn has_units(&self) -> bool {
        !(self.closed.is_empty() && self.open.is_empty())
    }

    /// Enters units. When there are many entries, units within a part of the window become one; the later time is never too
    /// early.
    pub(super) fn add(&mut self, new: Unsynced, ageing: Ageing) {
        self.units = self.units.saturating_add(new.units);
        let Unsynced { at, units, request, own_id } = new;
        if self.closed.len() >= CLOSED_LEN_MAX {
            self.drop_past(new.at, ageing);
        }
        if let Some(id) = request.filter(|_| self.closed.len() < CLOSED_LEN_MAX) {
            return self.closed.push_back(UnsyncedEntry { at, units, id });
        }
        self.joined += u64::from(request.is_some());
        let near_ms = if self.open.len() < OPEN_LEN_MAX { 0 } else { ageing.part_ms };
        match self.open.back_mut() {
            Some(newest) if apart_ms(newest.at, at) <= near_ms => {
                newest.at = newest.at.max(at);
                newest.units = newest.units.saturating_add(units);
            }
            _ => self.open.push_back(UnsyncedEntry { at, units, id: own_id }),
        }
        if self.open.len() > OPEN_LEN_MAX
            && let Some(oldest) = self.open.pop_front()
            && let Some(next) = self.open.front_mut()
        {
            next.units = next.units.saturating_add(oldest.units);
            next.at = next.at.max(oldest.at);
        }
    }

    /// Drops the oldest entries that no store holds any more.
    fn drop_past(&mut self, now: Timestamp, ageing: Ageing) {
        for entries in [&mut self.closed, &mut self.open] {
            while let Some(oldest) = entries.front().filter(|oldest| ageing.is_past(oldest.at, now)) {
                self.units = self.units.saturating_sub(oldest.units);
                entries.pop_front();
            }
        }
        self.refunds.retain(|refund| !ageing.is_past(refund.at, now));
    }

    /// Enters units that the store must give back.
    pub(super) fn add_refund(&mut self, refund: UnsyncedRefund) {
        self.refunds.push(refund);
    }

    /// Removes units of exactly this instant. If they were sent, they are not sent again.
    pub(super) fn remove(&mut self, at: Timestamp, units: u64) {
        let holds = |entry: &UnsyncedEntry| entry.at == at && entry.units >= units;
        // The newest entry: one that was sent only if there is no other.
        for entries in [&mut self.open, &mut self.closed] {
            let Some(position) = entries.iter().rposition(holds) else { continue };
            entries[position].units -= units;
            self.units = self.units.saturating_sub(units);
            if entries[position].units == 0 {
                entries.remove(position);
            }
            return;
        }
    }

    /// Returns true if units of exactly this instant were never sent.
    pub(super) fn holds_unsent(&self, at: Timestamp, units: u64) -> bool {
        self.open.iter().any(|entry| entry.at == at && entry.units >= units)
    }

    /// Returns the entries that a call carries, which are sent now: so many at most, the newest. The maintenance sends the
    /// oldest first.
    pub(super) fn send(&mut self, len_max: usize) -> impl Iterator<Item = &UnsyncedEntry> {
        self.closed.extend(self.open.drain(..));
        self.closed.iter().skip(self.closed.len().saturating_sub(len_max))
    }

    /// Returns the next entries of the maintenance at this instant of store time, so many at most: those that are closed, else
    /// the open ones. So what grows while a store answers nothing stays in few entries. Refunds follow all entries, since
    /// the units that they refund may be there.
    pub(super) fn send_next(
        &mut self,
        now: Timestamp,
        ageing: Ageing,
        len_max: usize,
    ) -> (Vec<UnsyncedEntry>, Vec<UnsyncedRefund>) {
        self.drop_past(now, ageing);
        if self.closed.is_empty() {
            self.closed.extend(self.open.drain(..));
        }
        let entries: Vec<_> = self.closed.iter().take(len_max).copied().collect();
        let are_all_sent = entries.len() == self.len();
        let refunds = if are_all_sent { len_max - entries.len() } else { 0 };
        (entries, self.refunds.drain(..refunds.min(self.refunds.len())).collect())
    }

    /// Drops an entry that was sent under an id; returns its units.
    pub(super) fn end(&mut self, id: RequestId) -> u64 {
        // The oldest are sent first.
        let position = self.closed.iter().position(|entry| entry.id == id);
        let units = position.and_then(|position| self.closed.remove(position)).map_or(0, |ended| ended.units);
        self.units = self.units.saturating_sub(units);
        units
    }
}

fn apart_ms(one: Timestamp, other: Timestamp) -> u64 {
    one.max(other).ms_since(one.min(other))
}
