//! The queue of counters with unsynced units, which [`backfill`](crate::backfill) empties.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::rules::Generation;

use crate::matched_rule::MatchedRule;

/// Maximum number of counters with unsynced units. Past the cap, the units of the oldest counter are dropped.
const UNSYNCED_COUNTERS_MAX: usize = 100_000;
/// Counters with unsynced units.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedQueue {
    counters: Mutex<VecDeque<UnsyncedCounter>>,
    /// True if the queue is not empty. Every call reads it.
    any: AtomicBool,
    /// True if each counter is sent alone, because the store cannot charge one of them.
    one_by_one: AtomicBool,
}

/// A counter with unsynced units. The units themselves are in its view.
#[derive(Debug)]
pub(crate) struct UnsyncedCounter {
    pub(crate) matched: MatchedRule,
    pub(crate) generation: Generation,
}

impl UnsyncedQueue {
    /// Returns the number of counters.
    pub(crate) fn len(&self) -> usize {
        self.counters.lock().len()
    }

    /// Returns true if the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// Removes the oldest counter.
    pub(crate) fn next(&self) -> Option<UnsyncedCounter> {
        self.counters.lock().pop_front()
    }

    /// Returns true if each counter is sent alone.
    pub(crate) fn is_one_by_one(&self) -> bool {
        self.one_by_one.load(Ordering::Relaxed)
    }

    /// Sends each counter alone from now on, or many at once.
    pub(crate) fn set_one_by_one(&self, one_by_one: bool) {
        self.one_by_one.store(one_by_one, Ordering::Relaxed);
    }

    /// Adds a counter; returns the oldest if there are too many.
    pub(crate) fn add(&self, counter: UnsyncedCounter) -> Option<UnsyncedCounter> {
        let mut counters = self.counters.lock();
        self.any.store(true, Ordering::Relaxed);
        counters.push_back(counter);
        if counters.len() > UNSYNCED_COUNTERS_MAX { counters.pop_front() } else { None }
    }

    /// Puts counters back that are still unsynced.
    pub(crate) fn put_back(&self, unsynced: Vec<UnsyncedCounter>) {
        let mut counters = self.counters.lock();
        counters.extend(unsynced);
        self.any.store(!counters.is_empty(), Ordering::Relaxed);
    }
}
