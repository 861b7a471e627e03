//! The signals of a partition: every counter above the threshold when it changes, and again every 1.5 s; a heartbeat every
//! 200 ms.
//!
//! A heartbeat promises: up to its offset, every counter that changed and was not signalled is below the threshold in force.
//! When more counters changed than one record may hold, the threshold in force rises above those that are left out.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::Signal;
use tollgate_core::window::Estimate;

use super::table::{CountedCounter, CounterTable};

/// Interval of a partition's heartbeats, in ms.
const HEARTBEAT_MS: u64 = 200;
/// Interval at which all counters above the threshold are signalled again, in ms: a new reader knows all of them after 2 s.
const REPEAT_MS: u64 = 1_500;
/// Maximum number of signals of one record, which must stay far below the broker's limit of 1 MB; the rest follows at once.
const SIGNALS_LEN_MAX: usize = 1_000;

/// Counters that wait to be signalled, by their slots in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct DueSignals {
    changed: Vec<usize>,
    above_threshold: Vec<usize>,
    produced_at: Timestamp,
    repeated_at: Timestamp,
}

impl DueSignals {
    /// Notes that a counter was charged.
    pub(super) fn changed(&mut self, slot: usize, counter: &mut CountedCounter) {
        if !counter.changed {
            counter.changed = true;
            self.changed.push(slot);
        }
    }

    /// Follows a counter to another slot.
    pub(super) fn moved(&mut self, to: usize, from: usize) {
        for slot in self.changed.iter_mut().chain(&mut self.above_threshold).filter(|slot| **slot == from) {
            *slot = to;
        }
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
            for slot in std::mem::take(&mut self.above_threshold) {
                let counter = table.get_mut(slot);
                counter.above_threshold = false;
                self.changed(slot, counter);
            }
        }
        let mut due: Vec<(u32, usize)> = Vec::new();
        for slot in self.changed.drain(..) {
            let counter = table.get_mut(slot);
            counter.changed = false;
            let permille = counter.permille(now);
            if permille >= threshold {
                if !counter.above_threshold && permille > 0 {
                    counter.above_threshold = true;
                    self.above_threshold.push(slot);
                }
                due.push((permille, slot));
            }
        }
        let mut in_force = threshold;
        if due.len() > SIGNALS_LEN_MAX {
            due.sort_unstable_by(|a, b| b.cmp(a));
            in_force = due[SIGNALS_LEN_MAX].0.saturating_add(1).max(threshold);
            for (_, slot) in due.drain(SIGNALS_LEN_MAX..) {
                self.changed(slot, table.get_mut(slot));
            }
        }
        if due.is_empty() && now.ms_since(self.produced_at) < HEARTBEAT_MS {
            return None;
        }
        self.produced_at = now;
        Some((due.into_iter().map(|(_, slot)| signal(table.get_mut(slot), now)).collect(), in_force))
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
