//! The counters of a partition: rings of admitted and denied units.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{CounterEntry, Outcome, Row};
use tollgate_core::rules::Generation;
use tollgate_core::window::{Added, Estimate, Ring};

/// How often idle entries are looked for, in ms, and how many entries one look takes.
const SWEEP_INTERVAL_MS: u64 = 100;
const SWEEP_LEN: usize = 512;

/// One counter.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub id: CounterId,
    /// Its rule.
    pub rule: Arc<str>,
    /// How people see it.
    pub label: Arc<str>,
    /// The newest generation by which it was charged.
    pub generation: Generation,
    /// Its quota, in units.
    pub quota: u64,
    /// Units admitted, per sub-window.
    pub admitted: Ring,
    /// Units denied, per sub-window.
    pub denied: Ring,
    /// The time of its newest charge.
    pub newest_at: Timestamp,
    /// Whether it waits to be signalled.
    pub(super) dirty: bool,
    /// Whether it was above the threshold when it was looked at last, so that it is said again and again.
    pub(super) hot: bool,
}

/// Entries in a row, and where each counter's is.
#[derive(Clone, Debug)]
pub(super) struct Table {
    len_max: usize,
    places: HashMap<CounterId, usize, RandomState>,
    entries: Vec<Entry>,
    swept: usize,
    swept_at: Timestamp,
}

impl Entry {
    fn new(counter: &CounterEntry) -> Self {
        Self {
            id: counter.id,
            rule: counter.rule.clone(),
            label: counter.label.as_str().into(),
            generation: counter.generation,
            quota: counter.quota,
            admitted: Ring::new(counter.window),
            denied: Ring::new(counter.window),
            newest_at: Timestamp::default(),
            dirty: false,
            hot: false,
        }
    }

    /// Counts a row; false when its sub-window has left.
    pub(super) fn count(&mut self, row: &Row) -> bool {
        self.newest_at = self.newest_at.max(row.at);
        let ring = match row.outcome {
            Outcome::Admitted => &mut self.admitted,
            Outcome::Denied => &mut self.denied,
            Outcome::Spared => return true,
        };
        if row.cost < 0 {
            ring.subtract(row.sub_window, row.cost.unsigned_abs());
            return true;
        }
        ring.add(row.sub_window, row.cost.unsigned_abs()) == Added::Counted
    }

    /// Units admitted in the window, by the safe estimate.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> u64 {
        self.admitted.used(now, Estimate::Conservative)
    }

    /// Which part of its quota is used, in thousandths.
    #[must_use]
    pub fn permille(&self, now: Timestamp) -> u32 {
        let permille = u128::from(self.used(now)) * 1_000 / u128::from(self.quota.max(1));
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    /// Follows a newer generation: its quota, and its window, into which the counts are carried.
    fn follow(&mut self, counter: &CounterEntry) {
        if counter.generation < self.generation {
            return;
        }
        self.generation = counter.generation;
        self.quota = counter.quota;
        if self.admitted.window() != counter.window {
            self.admitted = self.admitted.carried_to(counter.window);
            self.denied = self.denied.carried_to(counter.window);
        }
    }

    fn is_idle_at(&self, now: Timestamp) -> bool {
        self.admitted.is_empty_at(now) && self.denied.is_empty_at(now)
    }
}

impl Table {
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, places: HashMap::default(), entries: Vec::new(), swept: 0, swept_at: Timestamp::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn entry_mut(&mut self, place: usize) -> &mut Entry {
        &mut self.entries[place]
    }

    /// Where a counter is, known or new; nothing when there is no room for another one.
    pub(super) fn place(&mut self, counter: &CounterEntry) -> Option<usize> {
        if let Some(place) = self.places.get(&counter.id).copied() {
            self.entries[place].follow(counter);
            return Some(place);
        }
        if self.entries.len() >= self.len_max {
            return None;
        }
        let place = self.entries.len();
        self.entries.push(Entry::new(counter));
        self.places.insert(counter.id, place);
        Some(place)
    }

    /// Drops what is idle from the next few entries. Returns (place given up, place from which its new owner came).
    pub(super) fn sweep(&mut self, now: Timestamp) -> Vec<(usize, usize)> {
        let mut moves = Vec::new();
        if now.ms_since(self.swept_at) < SWEEP_INTERVAL_MS {
            return moves;
        }
        self.swept_at = now;
        for _ in 0..SWEEP_LEN.min(self.entries.len()) {
            if self.swept >= self.entries.len() {
                self.swept = 0;
            }
            let Some(entry) = self.entries.get(self.swept) else {
                break;
            };
            if entry.dirty || entry.hot || !entry.is_idle_at(now) {
                self.swept += 1;
                continue;
            }
            self.places.remove(&entry.id);
            self.entries.swap_remove(self.swept);
            if let Some(moved) = self.entries.get(self.swept) {
                self.places.insert(moved.id, self.swept);
                moves.push((self.swept, self.entries.len()));
            }
        }
        moves
    }
}
