//! Outbox: the counters whose pending charges wait for the store, in the order in which they are sent.
//!
//! The charges themselves are in the views of the counters (`counters/view`). A counter waits in one of two lanes. In the
//! first are counters with units to backfill, and refunds of them; calls carry such units, too. In the second are counters that
//! the store has lost and that are opened again. The first lane goes first: a counter with units that the store does not know is
//! not opened before they are there. [`StoreLink`](super::StoreLink) makes requests of what waits.

mod lane;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::Generation;

use crate::report::Amount;
use crate::rules::MatchedRule;
use lane::Lane;
pub(crate) use lane::Turn;

/// Maximum number of counters with unsynced units. Past the cap, the units of the oldest counter are dropped.
pub const UNSYNCED_COUNTERS_MAX: usize = 100_000;
/// Maximum number of lost counters that wait to be opened again. Past the cap, further ones are counted as forgotten.
const LOST_COUNTERS_MAX: usize = 100_000;
/// Maximum number of entries of unsynced units of all counters. Past the cap, a call with an id gets no entry of its own.
const UNSYNCED_ENTRIES_MAX: u64 = 1_000_000;
/// Time after which an opened counter is compared with the signals once more, in ms. By then, the signals contain the
/// calls that were decided before it was open, and the backfill of other agents.
const SECOND_PASS_MS: u64 = 2_000;

/// Counters with pending charges.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    units: Mutex<Lane<UnsyncedCounter>>,
    lost: Mutex<Lane<LostCounter>>,
    /// True if a counter with units waits, or is in a request. Every call reads it.
    has_units: AtomicBool,
}

/// Number of the entries of unsynced units of all counters.
#[derive(Debug, Default)]
pub(crate) struct PendingEntries {
    entries: Amount,
    /// Largest number of entries that a counter has had.
    most: AtomicUsize,
}

/// A counter with unsynced units.
#[derive(Debug)]
pub(crate) struct UnsyncedCounter {
    pub(crate) matched: MatchedRule<'static>,
    pub(crate) generation: Generation,
}

/// A counter of which the store has lost units.
#[derive(Debug)]
pub(crate) struct LostCounter {
    pub(crate) matched: MatchedRule<'static>,
    pub(crate) generation: Generation,
    /// Count with which it opens at least, and the instant of these units.
    pub(crate) floor: (Timestamp, u64),
    /// Agent's own time from which it is opened a second time; nothing before the first.
    pub(crate) second_pass_at: Option<Timestamp>,
}

/// Answer of a request to which a counter is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The counter has nothing to send now.
    Skipped,
    Added,
    /// The counter is added, and there is no room for another one.
    Full,
}

impl Offered {
    fn ends(self, is_alone: bool) -> bool {
        self == Self::Full || self == Self::Added && is_alone
    }
}

impl PendingEntries {
    /// Returns true if a call with an id may have an entry of its own.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.get() < UNSYNCED_ENTRIES_MAX
    }

    /// Follows the number of entries of one counter.
    pub(crate) fn follow(&self, before: usize, after: usize) {
        self.entries.follow(before as u64, after as u64);
        if after > self.most() {
            self.most.fetch_max(after, Ordering::Relaxed);
        }
    }

    /// Returns the largest number of entries that a counter has had.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Outbox {
    /// Returns true if a counter with units waits or is in a request.
    #[inline]
    pub(crate) fn has_units(&self) -> bool {
        self.has_units.load(Ordering::Relaxed)
    }

    pub(crate) fn unsynced_counters(&self) -> usize {
        self.units.lock().len()
    }

    pub(crate) fn lost_counters(&self) -> usize {
        self.lost.lock().len()
    }

    /// Adds a counter with units; returns the oldest if there are too many.
    pub(crate) fn add_unsynced(&self, counter: UnsyncedCounter) -> Option<UnsyncedCounter> {
        let mut units = self.units.lock();
        self.has_units.store(true, Ordering::Relaxed);
        units.push(counter);
        if units.len() <= UNSYNCED_COUNTERS_MAX { None } else { units.pop_oldest() }
    }

    /// Adds a counter that is lost; returns false if there are too many.
    pub(crate) fn add_lost(&self, counter: LostCounter) -> bool {
        let mut lost = self.lost.lock();
        let has_room = lost.len() < LOST_COUNTERS_MAX;
        if has_room {
            lost.push(counter);
        }
        has_room
    }

    /// Offers the next counters with units to a request, until it has no room or one that is sent alone. There are none once the
    /// round is over.
    pub(crate) fn offer_unsynced(&self, mut add: impl FnMut(UnsyncedCounter) -> Offered) {
        let is_alone = self.units.lock().is_next_alone();
        while let Some(counter) = self.next_unsynced() {
            if add(counter).ends(is_alone) {
                return;
            }
        }
    }

    /// Removes the next counter. The lane is not locked while the counter's view is.
    fn next_unsynced(&self) -> Option<UnsyncedCounter> {
        self.units.lock().pop()
    }

    /// Ends a round of units: the counters that wait for the next one may be sent.
    pub(crate) fn end_round(&self) {
        let mut units = self.units.lock();
        units.end_round();
        self.has_units.store(units.len() > 0, Ordering::Relaxed);
    }

    pub(crate) fn put_back_unsynced(&self, counters: Vec<UnsyncedCounter>, turn: Turn) {
        let mut units = self.units.lock();
        units.put_back(counters, turn);
        self.has_units.store(units.len() > 0, Ordering::Relaxed);
    }

    /// Returns the agent's own time from which a lost counter is to be opened, if there is one.
    pub(crate) fn reopening_due_at(&self) -> Option<Timestamp> {
        let lost = self.lost.lock();
        lost.next().map(|counter| counter.second_pass_at.unwrap_or_default())
    }

    /// Offers the next lost counters to a request, until it has no room or one that is sent alone.
    pub(crate) fn offer_lost(&self, now: Timestamp, mut add: impl FnMut(LostCounter) -> Offered) {
        let is_alone = self.lost.lock().is_next_alone();
        while let Some(counter) = self.next_lost(now) {
            if add(counter).ends(is_alone) {
                return;
            }
        }
    }

    fn next_lost(&self, now: Timestamp) -> Option<LostCounter> {
        self.lost.lock().pop_if(|counter| counter.second_pass_at.is_none_or(|at| now >= at))
    }

    pub(crate) fn put_back_lost(&self, counters: Vec<LostCounter>, turn: Turn) {
        self.lost.lock().put_back(counters, turn);
    }

    /// Records that counters are open. Each is due once more, unless it was the second time.
    pub(crate) fn opened(&self, now: Timestamp, counters: Vec<LostCounter>) {
        let second_pass_at = Some(now.plus_ms(SECOND_PASS_MS));
        let first_pass = counters.into_iter().filter(|counter| counter.second_pass_at.is_none());
        let again = first_pass.map(|counter| LostCounter { second_pass_at, ..counter }).collect();
        self.lost.lock().put_back(again, Turn::NextRound);
    }

    /// Drops all counters that wait to be opened.
    pub(crate) fn forget_all_lost(&self) {
        self.lost.lock().retain(|_| false);
    }

    /// Drops a counter that waits to be opened, because it was emptied.
    pub(crate) fn forget_lost(&self, counter: CounterId) {
        self.lost.lock().retain(|lost| lost.matched.counter != counter);
    }
}
