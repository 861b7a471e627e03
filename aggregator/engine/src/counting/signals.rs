//! The signals of a partition: every counter above the threshold when it changes, and again every 1.5 s; a heartbeat
//! every 200 ms. A counter that refunds have taken below the threshold is signalled once more: agents would keep the
//! count of before.
//!
//! A heartbeat promises: up to its offset, every counter that changed and was not signalled is below the threshold in force.
//! If more counters changed than one record may hold, the threshold in force rises above those that are left out.

use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::signals::{AgentUnits, Signal, THRESHOLD_PERMILLE_MAX};
use tollgate_core::window::Estimate;

use super::counted_counter::CountedCounter;
use super::table::CounterTable;
use super::threshold::{Threshold, WantedThreshold};

const HEARTBEAT_MS: u64 = 200;
/// Interval at which all counters above the threshold are signalled again, in ms: a new reader knows all of them after 2 s.
const REPEAT_MS: u64 = 1_500;
/// Maximum number of signals of one record, which must stay far below the broker's limit of 1 MB; the rest follows at once.
const SIGNALS_LEN_MAX: usize = 1_000;

/// Counters that wait to be signalled. Those that wait stay in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct DueSignals {
    changed: Vec<CounterId>,
    pub(super) above_threshold: Vec<CounterId>,
    produced_at: Timestamp,
    repeated_at: Timestamp,
    threshold: Threshold,
}

/// Signals that are due, for one record.
#[derive(Clone, Debug)]
pub struct DueBatch {
    /// The threshold in force.
    pub threshold_permille: u32,
    /// The agents that the signals name.
    pub agents: Vec<Arc<str>>,
    /// The signals.
    pub signals: Vec<Signal>,
}

impl DueSignals {
    pub(super) fn changed(&mut self, counter: &mut CountedCounter) {
        if !counter.changed {
            counter.changed = true;
            self.changed.push(counter.id);
        }
    }

    /// Notes that a batch was lost. Its counters wait again, and a heartbeat is due.
    pub(super) fn lost(&mut self) {
        self.threshold.lost();
        self.produced_at = Timestamp::default();
    }

    /// Returns the signals that are due and the threshold in force; nothing if neither signals nor a heartbeat are due.
    pub(super) fn take(
        &mut self,
        table: &mut CounterTable,
        now: Timestamp,
        wanted: WantedThreshold,
    ) -> Option<DueBatch> {
        let is_repetition = now.ms_since(self.repeated_at) >= REPEAT_MS;
        if is_repetition {
            self.repeated_at = now;
            for id in std::mem::take(&mut self.above_threshold) {
                self.changed(&mut table.counters[&id]);
            }
        }
        let (repeated, room) = (self.above_threshold.len(), SIGNALS_LEN_MAX);
        let before = self.threshold.in_force();
        let threshold = self.threshold.follow(now, wanted, table, &mut self.changed, repeated, room);
        let mut due: Vec<(u32, CounterId)> = Vec::new();
        for id in std::mem::take(&mut self.changed) {
            let counter = &mut table.counters[&id];
            counter.changed = false;
            let permille = counter.permille(now);
            let was_above = counter.above_threshold;
            let is_above = permille >= threshold && permille > 0;
            if is_above && (is_repetition || !was_above) {
                self.above_threshold.push(id);
            }
            counter.above_threshold = is_above || was_above && !is_repetition;
            if permille >= threshold || was_above {
                due.push((permille, id));
            }
        }
        let mut in_force = self.threshold.in_force();
        if due.len() > SIGNALS_LEN_MAX {
            due.sort_unstable_by(|a, b| b.cmp(a));
            in_force = due[SIGNALS_LEN_MAX].0.saturating_add(1).min(THRESHOLD_PERMILLE_MAX).max(in_force);
            for (_, id) in due.drain(SIGNALS_LEN_MAX..) {
                self.changed(&mut table.counters[&id]);
            }
        } else {
            self.threshold.taken(wanted);
        }
        // A lower threshold is announced at once.
        if due.is_empty() && before <= in_force && now.ms_since(self.produced_at) < HEARTBEAT_MS {
            return None;
        }
        self.produced_at = now;
        let mut agents = IndexSet::default();
        let signals = due.into_iter().map(|(_, id)| signal(&table.counters[&id], now, &mut agents)).collect();
        Some(DueBatch { threshold_permille: in_force, agents: agents.into_iter().collect(), signals })
    }
}

/// Returns the signal of a counter, and adds the agents that it names.
fn signal(counter: &CountedCounter, now: Timestamp, agents: &mut IndexSet<Arc<str>, RandomState>) -> Signal {
    let admitted = counter.used(now);
    let denied = counter.denied.used(now, Estimate::Conservative);
    let window = counter.admitted.window();
    let named = counter.by_agent.in_window(window, window.sub_window(now));
    let by_others = admitted.saturating_sub(named.iter().map(|(_, units)| units).sum());
    let by_agent = named.into_iter().map(|(name, units)| {
        let index = agents.get_index_of(name).unwrap_or_else(|| agents.insert_full(name.clone()).0);
        AgentUnits { agent: u32::try_from(index).unwrap_or(u32::MAX), units }
    });
    Signal {
        counter: counter.id,
        rule: counter.rule.clone(),
        label: counter.label.clone(),
        generation: counter.generation,
        quota: counter.quota,
        admitted: counter.admitted.clone(),
        by_agent: by_agent.collect(),
        by_others,
        denied,
        rate_milli: admitted.saturating_add(denied).saturating_mul(1_000_000) / window.width_ms(),
        budget: None,
        newest_at: counter.newest_at,
        charged_at: counter.charged_at,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::messages::calls::{CounterEntry, Outcome, Row};
    use tollgate_core::window::Window;

    use super::*;

    const QUOTA: u64 = 10_000;
    const THRESHOLD: u32 = 500;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    struct Partition {
        table: CounterTable,
        due: DueSignals,
        /// Number of batches, which are tagged from 1.
        taken: u64,
    }

    impl Partition {
        /// Charges units on a counter, or refunds them if they are negative.
        fn charge(&mut self, id: u128, units: i64) {
            let window = Window::new(3_600_000, 1).unwrap();
            let (rule, id) = ("r".into(), CounterId::from_u128(id));
            let entry = CounterEntry { id, rule, label: "".into(), generation: 1, quota: QUOTA, window };
            let (slot, _) = self.table.slot(&entry, at(0)).unwrap();
            let row = Row {
                call: 1,
                counter: Some(0),
                at: at(0),
                sub_window: window.sub_window(at(0)),
                cost: units,
                outcome: Outcome::Admitted,
                shadow_denied: false,
                source: tollgate_core::decision::Source::Store,
                home: None,
            };
            let counter = &mut self.table.counters[slot];
            counter.count(&row, &"a".into());
            self.due.changed(counter);
        }

        /// The counters that are signalled at an instant, and the threshold in force; nothing if nothing is due.
        fn take(&mut self, ms: u64) -> Option<(Vec<u128>, u32)> {
            self.take_while(ms, false, None)
        }

        /// Returns the same for a store that is up or down. `unreported` is the oldest batch that is not reported on.
        fn take_while(&mut self, ms: u64, is_store_down: bool, unreported: Option<u64>) -> Option<(Vec<u128>, u32)> {
            let (last_tag, store_down_at) = (self.taken, is_store_down.then(|| at(ms)));
            let wanted =
                WantedThreshold { normal_permille: THRESHOLD, store_down_at, last_tag, oldest_unreported: unreported };
            let batch = self.due.take(&mut self.table, at(ms), wanted)?;
            self.taken += 1;
            Some((batch.signals.iter().map(|signal| signal.counter.as_u128()).collect(), batch.threshold_permille))
        }
    }

    fn partition() -> Partition {
        Partition { table: CounterTable::new(usize::MAX), due: DueSignals::default(), taken: 0 }
    }

    #[test]
    fn a_counter_is_signalled_when_it_changes_above_the_threshold_and_then_repeatedly() {
        // Instant in ms, and units charged before; the signalled counters, or nothing if not even a heartbeat is due.
        let cases = [
            (0, 4_999, Some(vec![])),
            (10, 0, None),
            (20, 1, Some(vec![1])),
            (30, 0, None),
            (40, 1, Some(vec![1])),
            (239, 0, None),
            (240, 0, Some(vec![])),
            (1_500, 0, Some(vec![1])),
            (1_510, 0, None),
            (3_000, 0, Some(vec![1])),
        ];
        let mut partition = partition();
        for (ms, units, expected) in cases {
            if units > 0 {
                partition.charge(1, units);
            }
            assert_eq!(partition.take(ms), expected.map(|signalled| (signalled, THRESHOLD)), "at {ms}");
        }
    }

    #[test]
    fn a_counter_that_refunds_take_below_the_threshold_is_signalled_until_the_next_repetition() {
        let mut partition = partition();
        partition.charge(1, 6_000);
        // Instant in ms, and units charged before.
        let cases = [(0, 0, true), (10, -5_000, true), (20, 1, true), (1_500, 0, true), (1_510, 1, false)];
        for (ms, units, is_signalled) in cases {
            if units != 0 {
                partition.charge(1, units);
            }
            let signalled = partition.take(ms).is_some_and(|(signalled, _)| signalled == [1]);
            assert_eq!(signalled, is_signalled, "at {ms}");
        }
    }

    #[test]
    fn the_threshold_in_force_rises_above_the_counters_that_find_no_room() {
        let mut partition = partition();
        let counters = SIGNALS_LEN_MAX as u64 + 2;
        (0..counters).for_each(|number| partition.charge(number.into(), if number < 3 { 6_000 } else { 9_000 }));
        let (signalled, threshold) = partition.take(0).unwrap();
        assert_eq!((signalled.len(), threshold), (SIGNALS_LEN_MAX, 601), "the fullest come first");
        assert_eq!(signalled.iter().filter(|id| **id < 3).count(), 1);
        let (rest, threshold) = partition.take(1).unwrap();
        assert_eq!((rest.len(), threshold), (2, THRESHOLD), "the rest follows at once");
    }

    /// A lower threshold is announced after the signals of all counters above it are in the log, and a lost one is awaited
    /// again.
    #[test]
    fn while_the_store_is_down_the_threshold_falls_after_the_signals() {
        let mut partition = partition();
        for (id, units) in [(1, 1), (2, 4_000), (3, 6_000)] {
            partition.charge(id, units);
        }
        assert_eq!(partition.take(0), Some((vec![3], THRESHOLD)));
        // Instant, whether the store is down, the oldest batch that is not reported on; signalled counters, and the
        // threshold.
        let cases = [
            (10, true, None, Some((vec![2, 1], THRESHOLD))),
            (20, true, Some(2), None),
            (30, true, None, Some((vec![], 0))),
            (40, true, None, None),
            (50, false, None, None),
            (240, false, None, Some((vec![], THRESHOLD))),
        ];
        for (ms, is_down, unreported, expected) in cases {
            assert_eq!(partition.take_while(ms, is_down, unreported), expected, "at {ms}");
        }
        partition.take_while(260, true, None);
        let counter = &mut partition.table.counters[&CounterId::from_u128(1)];
        partition.due.changed(counter);
        partition.due.lost();
        assert_eq!(partition.take_while(270, true, None), Some((vec![1], THRESHOLD)));
        assert_eq!(partition.take_while(280, true, None), Some((vec![], 0)));
    }

    #[test]
    fn the_threshold_falls_in_steps_and_no_further_than_signals_can_be_repeated() {
        let mut partition = partition();
        (0..8_000).for_each(|id| partition.charge(id, if id < 900 { 3_000 } else { 100 }));
        partition.take(0);
        let taken: Vec<_> = (1..100).filter_map(|round| partition.take_while(10 * round, true, None)).collect();
        let signalled = taken.iter().map(|(signalled, _)| signalled.len()).sum::<usize>();
        let mut thresholds: Vec<u32> = taken.iter().map(|(_, threshold)| *threshold).collect();
        thresholds.dedup();
        assert_eq!(thresholds, [500, 250, 125, 62, 31, 15], "half in each step, while few counters are above them");
        assert!((5_000..7_000).contains(&signalled), "{signalled}: the next step ends at the cap");
    }
}
