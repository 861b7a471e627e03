//! The signals of a partition: every counter above the threshold when it changes, and again every 1.5 s; a heartbeat every
//! 200 ms.
//!
//! A heartbeat promises: up to its offset, every counter that changed and was not signalled is below the threshold in force.
//! If more counters changed than one record may hold, the threshold in force rises above those that are left out.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::signals::{Signal, THRESHOLD_PERMILLE_MAX};
use tollgate_core::window::Estimate;

use super::table::{CountedCounter, CounterTable};

/// Interval of a partition's heartbeats, in ms.
const HEARTBEAT_MS: u64 = 200;
/// Interval at which all counters above the threshold are signalled again, in ms: a new reader knows all of them after 2 s.
const REPEAT_MS: u64 = 1_500;
/// Maximum number of signals of one record, which must stay far below the broker's limit of 1 MB; the rest follows at once.
const SIGNALS_LEN_MAX: usize = 1_000;

/// Counters that wait to be signalled. Those that wait stay in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct DueSignals {
    changed: Vec<CounterId>,
    above_threshold: Vec<CounterId>,
    produced_at: Timestamp,
    repeated_at: Timestamp,
}

impl DueSignals {
    /// Notes that a counter was charged.
    pub(super) fn changed(&mut self, counter: &mut CountedCounter) {
        if !counter.changed {
            counter.changed = true;
            self.changed.push(counter.id);
        }
    }

    /// Makes a heartbeat due.
    pub(super) fn heartbeat_lost(&mut self) {
        self.produced_at = Timestamp::default();
    }

    /// Returns the signals that are due and the threshold in force; nothing if neither signals nor a heartbeat are due.
    pub(super) fn take(
        &mut self,
        table: &mut CounterTable,
        now: Timestamp,
        threshold: u32,
    ) -> Option<(Vec<Signal>, u32)> {
        if now.ms_since(self.repeated_at) >= REPEAT_MS {
            self.repeated_at = now;
            for id in std::mem::take(&mut self.above_threshold) {
                let counter = &mut table.counters[&id];
                counter.above_threshold = false;
                self.changed(counter);
            }
        }
        let mut due: Vec<(u32, CounterId)> = Vec::new();
        for id in std::mem::take(&mut self.changed) {
            let counter = &mut table.counters[&id];
            counter.changed = false;
            let permille = counter.permille(now);
            if permille >= threshold {
                if !counter.above_threshold && permille > 0 {
                    counter.above_threshold = true;
                    self.above_threshold.push(id);
                }
                due.push((permille, id));
            }
        }
        let mut in_force = threshold;
        if due.len() > SIGNALS_LEN_MAX {
            due.sort_unstable_by(|a, b| b.cmp(a));
            in_force = due[SIGNALS_LEN_MAX].0.saturating_add(1).min(THRESHOLD_PERMILLE_MAX).max(threshold);
            for (_, id) in due.drain(SIGNALS_LEN_MAX..) {
                self.changed(&mut table.counters[&id]);
            }
        }
        if due.is_empty() && now.ms_since(self.produced_at) < HEARTBEAT_MS {
            return None;
        }
        self.produced_at = now;
        Some((due.into_iter().map(|(_, id)| signal(&table.counters[&id], now)).collect(), in_force))
    }
}

fn signal(counter: &CountedCounter, now: Timestamp) -> Signal {
    let admitted = counter.used(now);
    let denied = counter.denied.used(now, Estimate::Conservative);
    let width_ms = counter.admitted.window().width_ms();
    Signal {
        counter: counter.id,
        rule: counter.rule.clone(),
        label: counter.label.clone(),
        generation: counter.generation,
        quota: counter.quota,
        admitted: counter.admitted.clone(),
        denied,
        rate_milli: admitted.saturating_add(denied).saturating_mul(1_000_000) / width_ms,
        budget: None,
        newest_at: counter.newest_at,
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
    }

    impl Partition {
        /// Charges units on a counter.
        fn charge(&mut self, id: u128, units: u64) {
            let window = Window::new(3_600_000, 1).unwrap();
            let (rule, id) = ("r".into(), CounterId::from_u128(id));
            let entry = CounterEntry { id, rule, label: String::new(), generation: 1, quota: QUOTA, window };
            let slot = self.table.slot(&entry).unwrap();
            let row = Row {
                call: 1,
                counter: Some(0),
                at: at(0),
                sub_window: window.sub_window(at(0)),
                cost: units.cast_signed(),
                outcome: Outcome::Admitted,
                home: None,
            };
            let counter = &mut self.table.counters[slot];
            counter.count(&row);
            self.due.changed(counter);
        }

        /// The counters that are signalled at an instant, and the threshold in force; nothing if nothing is due.
        fn take(&mut self, ms: u64) -> Option<(Vec<u128>, u32)> {
            let (signals, threshold) = self.due.take(&mut self.table, at(ms), THRESHOLD)?;
            Some((signals.iter().map(|signal| signal.counter.as_u128()).collect(), threshold))
        }
    }

    fn partition() -> Partition {
        Partition { table: CounterTable::new(usize::MAX), due: DueSignals::default() }
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
}
