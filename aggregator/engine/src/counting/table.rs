//! The counters of a partition: a ring of admitted and a ring of denied units each.
//!
//! Counters lie in one map with slots, which is swept in small steps, so that expiry never takes long and no timer is needed.
//! The steps follow the time of the log: also after a flood, when the log has only heartbeats, the counters and their memory
//! are gone after one turn.

use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{CounterEntry, Outcome, Row};
use tollgate_core::rules::Generation;
use tollgate_core::window::{Estimate, Ring};

/// Minimum time between two steps of the sweep, in ms.
const SWEEP_INTERVAL_MS: u64 = 100;
/// Time in which the sweep examines all counters, in ms, if the log has a record in each interval.
const SWEEP_TURN_MS: u64 = 10_000;
/// Minimum number of counters that one step examines.
const SWEEP_LEN_MIN: usize = 512;
/// First generation that no rules file and no clock gives.
const GENERATION_MIN_ABSURD: Generation = 1 << 53;
/// Step from one generation to the next from which on the newer one is absurd, unless it is a time.
const GENERATION_STEP_MIN_ABSURD: Generation = 1 << 32;

/// The count of one counter.
#[derive(Clone, Debug)]
pub struct CountedCounter {
    /// The counter's id.
    pub id: CounterId,
    /// The rule's name.
    pub rule: Arc<str>,
    /// The counter's values as people see them.
    pub label: Arc<str>,
    /// The newest generation of the rules by which it was charged.
    pub generation: Generation,
    /// The quota of that generation, in units.
    pub quota: u64,
    /// Units admitted, per sub-window.
    pub admitted: Ring,
    /// Units denied, per sub-window.
    pub denied: Ring,
    /// The time of the newest charge.
    pub newest_at: Timestamp,
    /// True while it waits to be signalled.
    pub(super) changed: bool,
    /// True if it was above the threshold when it was examined last, so that its signal is repeated.
    pub(super) above_threshold: bool,
}

/// Counters by id and by slot.
#[derive(Clone, Debug)]
pub(super) struct CounterTable {
    len_max: usize,
    pub(super) counters: IndexMap<CounterId, CountedCounter, RandomState>,
    swept: usize,
    /// Greatest number of counters in this turn of the sweep; the counters that it removes do not slow it down.
    turn_len: usize,
    swept_at: Timestamp,
}

impl CountedCounter {
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
            changed: false,
            above_threshold: false,
        }
    }

    /// Counts a row; false if its sub-window has left the window.
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
        ring.add(row.sub_window, row.cost.unsigned_abs())
    }

    /// Returns the units admitted in the window, by the conservative estimate.
    #[must_use]
    pub fn used(&self, now: Timestamp) -> u64 {
        self.admitted.used(now, Estimate::Conservative)
    }

    /// Returns the part of the quota that is used, in thousandths.
    #[must_use]
    pub fn permille(&self, now: Timestamp) -> u32 {
        let permille = u128::from(self.used(now)) * 1_000 / u128::from(self.quota.max(1));
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    /// Takes over the quota and the window of a newer generation; the counts are carried into that window.
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

    /// Returns true if it counts nothing and waits for no signal.
    fn is_idle_at(&self, now: Timestamp) -> bool {
        let waits = self.changed || self.above_threshold;
        !waits && self.admitted.is_empty_at(now) && self.denied.is_empty_at(now)
    }
}

impl CounterTable {
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, counters: IndexMap::default(), swept: 0, turn_len: 0, swept_at: Timestamp::default() }
    }

    /// Returns true if rules cannot have this generation: it would keep the quota of the rules in force from being followed.
    /// Without a `version:`, the generation of a rules file is the time at which it was read, in ms.
    pub(super) fn is_absurd(&self, counter: &CounterEntry, latest: Timestamp) -> bool {
        let known = self.counters.get(&counter.id).map_or(counter.generation, |known| known.generation);
        let is_step = counter.generation.saturating_sub(known) >= GENERATION_STEP_MIN_ABSURD;
        counter.generation >= GENERATION_MIN_ABSURD || (is_step && counter.generation > latest.as_ms())
    }

    /// Returns the slot of a counter, which is added if it is new; nothing if the table is full. The slot is valid until the
    /// next sweep.
    pub(super) fn slot(&mut self, counter: &CounterEntry) -> Option<usize> {
        if let Some((slot, _, known)) = self.counters.get_full_mut(&counter.id) {
            known.follow(counter);
            return Some(slot);
        }
        let has_room = self.counters.len() < self.len_max;
        has_room.then(|| self.counters.insert_full(counter.id, CountedCounter::new(counter)).0)
    }

    /// Removes the idle ones of the next few counters. The last counter moves into the slot of each.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let elapsed_ms = now.ms_since(self.swept_at);
        if elapsed_ms < SWEEP_INTERVAL_MS {
            return;
        }
        self.swept_at = now;
        self.turn_len = self.turn_len.max(self.counters.len());
        let part = self.turn_len as u64 * elapsed_ms.min(SWEEP_TURN_MS) / SWEEP_TURN_MS;
        let examined = usize::try_from(part).unwrap_or(usize::MAX).max(SWEEP_LEN_MIN);
        for _ in 0..examined.min(self.counters.len()) {
            if self.swept >= self.counters.len() {
                (self.swept, self.turn_len) = (0, self.counters.len());
            }
            match self.counters.get_index(self.swept) {
                Some((_, counter)) if counter.is_idle_at(now) => drop(self.counters.swap_remove_index(self.swept)),
                _ => self.swept += 1,
            }
        }
        if self.counters.capacity() > 4 * self.counters.len() + SWEEP_LEN_MIN {
            self.counters.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::window::Window;

    use super::*;

    fn written(id: u128, generation: Generation, (quota, width_ms): (u64, u64)) -> CounterEntry {
        CounterEntry {
            id: CounterId::from_u128(id),
            rule: "r".into(),
            label: format!("c{id}"),
            generation,
            quota,
            window: Window::new(width_ms, 1).unwrap(),
        }
    }

    fn row(outcome: Outcome, cost: i64, sub_window: u64) -> Row {
        Row { call: 1, counter: Some(0), at: Timestamp::from_ms(5), sub_window, cost, outcome, home: None }
    }

    #[test]
    fn a_row_counts_by_its_outcome_and_sign() {
        // Outcome, cost and sub-window; whether it counts; admitted and denied units after it, in the 1 s window at 1.5 s.
        let cases = [
            (Outcome::Admitted, 4, 1, true, (4, 0)),
            (Outcome::Denied, 3, 1, true, (4, 3)),
            (Outcome::Spared, 9, 1, true, (4, 3)),
            (Outcome::Admitted, -1, 1, true, (3, 3)),
            (Outcome::Admitted, -9, 1, true, (0, 3)),
            (Outcome::Admitted, 2, 0, true, (2, 3)),
        ];
        let mut counter = CountedCounter::new(&written(1, 1, (10, 1_000)));
        let now = Timestamp::from_ms(1_500);
        for (place, (outcome, cost, sub_window, counted, units)) in cases.into_iter().enumerate() {
            assert_eq!(counter.count(&row(outcome, cost, sub_window)), counted, "case {place}");
            assert_eq!((counter.used(now), counter.denied.used(now, Estimate::Conservative)), units, "case {place}");
        }
        counter.count(&row(Outcome::Admitted, 1, 5));
        assert!(!counter.count(&row(Outcome::Admitted, 1, 1)), "its sub-window has left");
    }

    #[test]
    fn a_counter_follows_newer_generations_only() {
        let cases = [((2, 20, 2_000), (20, 2_000)), ((1, 5, 1_000), (20, 2_000)), ((2, 30, 2_000), (30, 2_000))];
        let mut table = CounterTable::new(10);
        for ((generation, quota, width_ms), expected) in cases {
            let slot = table.slot(&written(1, generation, (quota, width_ms))).unwrap();
            let counter = &table.counters[slot];
            assert_eq!((counter.quota, counter.admitted.window().width_ms()), expected);
        }
    }

    /// capped: after a flood, one turn of the sweep removes the idle counters, also in a log with a record per second, and
    /// the map shrinks.
    #[test]
    fn memory_of_swept_counters_is_returned_within_one_turn() {
        let mut table = CounterTable::new(usize::MAX);
        for id in 0..100_000 {
            let slot = table.slot(&written(id, 1, (10, 1_000))).unwrap();
            table.counters[slot].count(&row(Outcome::Admitted, 1, 10));
        }
        let mut left = Vec::new();
        for second in 11..=33 {
            table.sweep(Timestamp::from_ms(second * 1_000));
            left.push(table.counters.len());
        }
        assert_eq!(left[0], 100_000, "their window has not ended");
        assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 10_000), "a step takes a tenth: {left:?}");
        assert!(table.counters.is_empty() && table.counters.capacity() <= SWEEP_LEN_MIN, "{left:?}");
    }

    #[test]
    fn past_the_cap_there_is_no_slot_until_a_counter_expires() {
        let mut table = CounterTable::new(2);
        for (id, sub_window) in [(1, 10), (2, 20)] {
            let slot = table.slot(&written(id, 1, (10, 1_000))).unwrap();
            table.counters[slot].count(&row(Outcome::Admitted, 1, sub_window));
        }
        assert_eq!(table.slot(&written(3, 1, (10, 1_000))), None);
        assert_eq!(table.slot(&written(2, 1, (10, 1_000))), Some(1), "a known counter has its slot");
        table.sweep(Timestamp::from_ms(13_000));
        assert_eq!(table.slot(&written(2, 1, (10, 1_000))), Some(0), "the last counter fills the gap");
        assert_eq!(table.slot(&written(3, 1, (10, 1_000))), Some(1));
    }
}
