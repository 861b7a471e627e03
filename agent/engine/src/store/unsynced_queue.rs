//! The queue of counters with unsynced units, which [`backfill`](crate::call::backfill) empties round by round.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_core::rules::Generation;

use crate::report::Amount;
use crate::rules::MatchedRule;

/// Maximum number of counters with unsynced units. Past the cap, the units of the oldest counter are dropped.
pub const UNSYNCED_COUNTERS_MAX: usize = 100_000;

/// Maximum number of entries of unsynced units of all counters. Past the cap, a call with an id gets no entry of its own.
const UNSYNCED_ENTRIES_MAX: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct UnsyncedQueue {
    counters: Mutex<UnsyncedCounters>,
    /// True if a counter waits, or is in a backfill request. Every call reads it.
    any: AtomicBool,
    entries: Amount,
    /// Largest number of entries that a counter has had.
    entries_most: AtomicUsize,
}

/// A counter with unsynced units. The units themselves are in its view.
#[derive(Debug)]
pub(crate) struct UnsyncedCounter {
    pub(crate) matched: MatchedRule<'static>,
    pub(crate) generation: Generation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsyncedTurn {
    /// In this round, after all others.
    Last,
    /// Next, each in a request of its own.
    Alone,
    NextRound,
}

#[derive(Debug, Default)]
struct UnsyncedCounters {
    waiting: VecDeque<UnsyncedCounter>,
    /// Number of the next counters that are sent alone.
    alone: usize,
    next_round: VecDeque<UnsyncedCounter>,
}

impl UnsyncedQueue {
    pub(crate) fn len(&self) -> usize {
        self.counters.lock().len()
    }

    pub(crate) fn entries_most(&self) -> usize {
        self.entries_most.load(Ordering::Relaxed)
    }

    pub(crate) fn note_entries(&self, before: usize, after: usize) {
        self.entries.follow(before as u64, after as u64);
        if after > self.entries_most() {
            self.entries_most.fetch_max(after, Ordering::Relaxed);
        }
    }

    /// Returns true if a call with an id may have an entry of its own.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.get() < UNSYNCED_ENTRIES_MAX
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    pub(crate) fn is_next_alone(&self) -> bool {
        self.counters.lock().alone > 0
    }

    /// Removes the next counter of the round.
    pub(crate) fn next(&self) -> Option<UnsyncedCounter> {
        let mut counters = self.counters.lock();
        counters.alone = counters.alone.saturating_sub(1);
        counters.waiting.pop_front()
    }

    pub(crate) fn end_round(&self) {
        let mut counters = self.counters.lock();
        let UnsyncedCounters { waiting, next_round, .. } = &mut *counters;
        waiting.append(next_round);
        self.any.store(!waiting.is_empty(), Ordering::Relaxed);
    }

    /// Adds a counter; returns the oldest if there are too many.
    pub(crate) fn add(&self, counter: UnsyncedCounter) -> Option<UnsyncedCounter> {
        let mut counters = self.counters.lock();
        self.any.store(true, Ordering::Relaxed);
        counters.waiting.push_back(counter);
        let has_room = counters.len() <= UNSYNCED_COUNTERS_MAX;
        if has_room { None } else { counters.next_round.pop_front().or_else(|| counters.waiting.pop_front()) }
    }

    pub(crate) fn put_back(&self, unsynced: Vec<UnsyncedCounter>, turn: UnsyncedTurn) {
        let mut counters = self.counters.lock();
        match turn {
            UnsyncedTurn::Last => counters.waiting.extend(unsynced),
            UnsyncedTurn::Alone => {
                counters.alone = unsynced.len();
                unsynced.into_iter().rev().for_each(|counter| counters.waiting.push_front(counter));
            }
            UnsyncedTurn::NextRound => counters.next_round.extend(unsynced),
        }
        self.any.store(counters.len() > 0, Ordering::Relaxed);
    }
}

impl UnsyncedCounters {
    fn len(&self) -> usize {
        self.waiting.len() + self.next_round.len()
    }
}
