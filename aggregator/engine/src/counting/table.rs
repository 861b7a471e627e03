//! The counters of a partition.
//!
//! Counters lie in one map with slots, which is swept in small steps, so that expiry never takes long and no timer is
//! needed. The steps follow the time of the log: also after a flood, when the log has only heartbeats, the counters and
//! their memory are gone after one turn.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use indexmap::map::Entry;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::rules::Generation;

use super::counted_counter::CountedCounter;

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

impl CounterTable {
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, counters: IndexMap::default(), swept: 0, turn_len: 0, swept_at: Timestamp::default() }
    }

    /// Changes the number of counters that the table may hold; those that it holds stay.
    pub(super) fn set_len_max(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Returns true if rules cannot have this generation: it would keep the quota of the rules in force from being followed.
    /// Without a `version:`, the generation of a rules file is the time at which it was read, in ms.
    pub(super) fn is_absurd(&self, counter: &CounterEntry, latest: Timestamp) -> bool {
        let known = self.counters.get(&counter.id).map_or(counter.generation, |known| known.generation);
        let is_step = counter.generation.saturating_sub(known) >= GENERATION_STEP_MIN_ABSURD;
        counter.generation >= GENERATION_MIN_ABSURD || (is_step && counter.generation > latest.as_ms())
    }

    /// Returns the slot of a counter of a batch that was appended at `written_at`. The counter is added if it is new;
    /// the result is true if it follows another policy, and nothing if the table is full. The slot is valid until the
    /// next sweep.
    pub(super) fn slot(&mut self, counter: &CounterEntry, written_at: Timestamp) -> Option<(usize, bool)> {
        let has_room = self.counters.len() < self.len_max;
        let entry = match self.counters.entry(counter.id) {
            Entry::Vacant(_) if !has_room => return None,
            entry => entry,
        };
        let slot = entry.index();
        let known = entry.or_insert_with(|| CountedCounter::new(counter));
        known.written_at = known.written_at.max(written_at);
        Some((slot, known.follow(counter)))
    }

    /// Returns those of the counters that use the largest part of their quota.
    pub(super) fn fullest(&self, ids: &[CounterId], now: Timestamp, len_max: usize) -> Vec<CounterId> {
        let known = ids.iter().filter_map(|id| Some((self.counters.get(id)?.permille(now), *id)));
        let mut fullest: Vec<(u32, CounterId)> = known.collect();
        if fullest.len() > len_max {
            fullest.select_nth_unstable_by(len_max, |a, b| b.cmp(a));
            fullest.truncate(len_max);
        }
        fullest.into_iter().map(|(_, id)| id).collect()
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
    use tollgate_core::messages::calls::Outcome;

    use super::super::counted_counter::tests::{row, written};
    use super::*;

    const WRITTEN: Timestamp = Timestamp::from_ms(10_000);

    #[test]
    fn a_counter_follows_newer_generations_only() {
        let cases = [((2, 20, 2_000), (20, 2_000)), ((1, 5, 1_000), (20, 2_000)), ((2, 30, 2_000), (30, 2_000))];
        let mut table = CounterTable::new(10);
        for ((generation, quota, width_ms), expected) in cases {
            let slot = table.slot(&written(1, generation, (quota, width_ms)), WRITTEN).unwrap().0;
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
            let slot = table.slot(&written(id, 1, (10, 1_000)), WRITTEN).unwrap().0;
            table.counters[slot].count(&row(Outcome::Admitted, 1, 10), &"a".into());
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
        let slot = |table: &mut CounterTable, id, second: u64| {
            table.slot(&written(id, 1, (10, 1_000)), Timestamp::from_ms(second * 1_000))
        };
        assert_eq!([slot(&mut table, 1, 10), slot(&mut table, 2, 20)], [Some((0, false)), Some((1, false))]);
        assert_eq!(slot(&mut table, 3, 20), None);
        assert_eq!(slot(&mut table, 2, 20), Some((1, false)), "a known counter has its slot");
        table.sweep(Timestamp::from_ms(13_000));
        assert_eq!(slot(&mut table, 2, 20), Some((0, false)), "the last counter fills the gap");
        assert_eq!(slot(&mut table, 3, 20), Some((1, false)));
    }

    /// exactly-counted: units of a store whose clock is behind that of the bus are kept for a window, too.
    #[test]
    fn a_counter_expires_by_the_time_of_the_log_whatever_the_store_clock_shows() {
        for sub_window in [1, 10, 11] {
            let mut table = CounterTable::new(1);
            let slot = table.slot(&written(1, 1, (10, 1_000)), WRITTEN).unwrap().0;
            table.counters[slot].count(&row(Outcome::Admitted, 1, sub_window), &"a".into());
            table.sweep(WRITTEN.plus_ms(2_000));
            assert_eq!(table.counters.len(), 1, "sub-window {sub_window}");
            table.sweep(WRITTEN.plus_ms(2_101));
            assert_eq!(table.counters.len(), 0, "sub-window {sub_window}");
        }
    }
}
