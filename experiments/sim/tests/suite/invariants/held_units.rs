//! The units that counters hold, as `never_over` knows them from what stores executed and agents answered.
//!
//! Time is that of the store, but it never goes back: after a step back it goes on from where it was, in the same fixed window.
//! So a unit counts for a whole window however often the clock steps back.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::window::Window;
use tollgate_sim::StoreLoss;

use super::limits_in_force::{Bound, CounterKey};

/// Time after which an entry matters to no window, in ms.
const KEPT_MS: u64 = 10_000;

/// Units per counter of each store: the shared one, or the table of one agent.
#[derive(Default)]
pub(crate) struct HeldUnits {
    entries: HashMap<CounterKey, Vec<Entry>>,
    /// Entries of the shared store that a failover brings back.
    replica: HashMap<CounterKey, Vec<Entry>>,
    /// Times of the store's clock before and after each step back.
    steps_back: Vec<(u64, u64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    /// Number of steps back before it.
    pub(crate) steps: usize,
    pub(crate) units: i64,
    pub(crate) is_enforced: bool,
}

impl HeldUnits {
    /// Returns the number of steps back of the store's clock.
    pub(crate) fn steps(&self) -> usize {
        self.steps_back.len()
    }

    /// Notes a step back of the store's clock to `after`.
    pub(crate) fn step_back(&mut self, after: u64, by_ms: u64) {
        self.steps_back.push((after + by_ms, after));
    }

    pub(crate) fn enter(&mut self, key: CounterKey, entry: Entry, now: u64) {
        let entries = self.entries.entry(key).or_default();
        if entries.len() > 64 && entries[0].at + 2 * KEPT_MS < now {
            entries.retain(|entry| entry.at + KEPT_MS > now);
        }
        entries.push(entry);
    }

    /// Drops the table of an agent that has ended.
    pub(crate) fn end(&mut self, agent: usize) {
        self.entries.retain(|(of, _), _| *of != Some(agent));
    }

    /// Copies the entries of the shared store to its replica.
    pub(crate) fn replicate(&mut self) {
        self.replica.clone_from(&self.entries);
        self.replica.retain(|(of, _), _| of.is_none());
    }

    /// Drops the entries that the shared store has lost.
    pub(crate) fn lose(&mut self, loss: StoreLoss) {
        match loss {
            StoreLoss::Counter(counter) => {
                self.entries.remove(&(None, counter));
            }
            StoreLoss::All => {
                self.replica.clear();
                self.entries.retain(|(of, _), _| of.is_some());
            }
            StoreLoss::SinceReplicated => {
                self.entries.retain(|(of, _), _| of.is_some());
                self.entries.extend(self.replica.iter().map(|(key, entries)| (*key, entries.clone())));
            }
        }
    }

    /// Returns the counters of the shared store.
    pub(crate) fn shared(&self) -> Vec<CounterId> {
        self.entries.keys().filter(|(of, _)| of.is_none()).map(|(_, counter)| *counter).collect()
    }

    /// Drops the units that are in no window which ends at `at` or later.
    pub(crate) fn leave(&mut self, key: CounterKey, at: u64, bound: Bound) {
        let first = *self.window(key, at, bound).start();
        let Some(mut entries) = self.entries.remove(&key) else { return };
        entries.retain(|entry| first <= self.place(entry.at, entry.steps, bound));
        self.entries.insert(key, entries);
    }

    /// Returns true if units were entered at this instant.
    pub(crate) fn knows(&self, key: CounterKey, at: u64) -> bool {
        self.of(key).iter().any(|entry| (entry.at, entry.steps) == (at, self.steps()))
    }

    /// Returns the units that were entered at this instant.
    pub(crate) fn charged_at(&self, key: CounterKey, at: u64) -> i64 {
        self.of(key).iter().filter(|entry| entry.at == at).map(|entry| entry.units).sum()
    }

    /// Returns the time at which the refund of units that were decided at `at` counts. It is the time of the charge of the same
    /// sub-window that contains them. This charge may be later: units that the store had lost are opened
    /// again. If no charge contains them, the refund counts at the end of the sub-window.
    pub(crate) fn refunded_at(&self, key: CounterKey, at: Timestamp, units: i64, window: Window) -> u64 {
        let end = window.start_of(window.sub_window(at) + 1).as_ms();
        let later = self.of(key).iter().filter(|entry| (at.as_ms()..end).contains(&entry.at));
        later.map(|entry| entry.at).filter(|at| self.charged_at(key, *at) >= units).min().unwrap_or(end - 1)
    }

    /// Returns the time of units that were admitted without the store, and the number of steps back before it. Of the
    /// possible numbers, it is the largest after which the clock had shown that time.
    pub(crate) fn scale(&self, at: u64, now: u64) -> (u64, usize) {
        let shown = |steps: usize| self.steps_back.get(steps).map_or(now, |(before, _)| *before);
        let steps = (0..=self.steps()).rev().find(|steps| at <= shown(*steps));
        steps.map_or((now, self.steps()), |steps| (at, steps))
    }

    /// Returns the units of the sub-window that contains `at`.
    pub(crate) fn in_sub_window(&self, key: CounterKey, window: Window, at: Timestamp) -> i64 {
        let is_in = |entry: &&Entry| window.sub_window(Timestamp::from_ms(entry.at)) == window.sub_window(at);
        self.of(key).iter().filter(is_in).map(|entry| entry.units).sum()
    }

    /// Returns the units in the window that ends at `at`.
    pub(crate) fn in_window(&self, key: CounterKey, at: u64, bound: Bound) -> i64 {
        let window = self.window(key, at, bound);
        let counts = |entry: &&Entry| {
            window.contains(&self.place(entry.at, entry.steps, bound))
                && (!bound.is_bucket || entry.is_enforced || entry.units < 0)
        };
        self.of(key).iter().filter(counts).map(|entry| entry.units).sum()
    }

    fn of(&self, key: CounterKey) -> &[Entry] {
        self.entries.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the places in the window that ends at `at`.
    fn window(&self, key: CounterKey, at: u64, bound: Bound) -> RangeInclusive<u64> {
        let now = self.place(at, if key.0.is_none() { self.steps() } else { 0 }, bound);
        let first = if bound.is_fixed { now } else { (now + 1).saturating_sub(bound.width_ms) };
        first..=now
    }

    /// Returns the time at which an instant of the store's clock counts, after so many steps back. It is in ms, or in
    /// windows for a fixed window.
    fn place(&self, at: u64, steps: usize, bound: Bound) -> u64 {
        let unit = if bound.is_fixed { bound.width_ms } else { 1 };
        let back = self.steps_back.iter().take(steps).map(|(before, after)| before / unit - after / unit);
        at / unit + back.sum::<u64>()
    }
}
