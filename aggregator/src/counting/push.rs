//! What agents are told, and when: every counter above the threshold when it changes and again and again, and a heartbeat
//! each 200 ms.
//!
//! The promise of a heartbeat: up to its offset, whatever changed and is not signalled holds less than the threshold in
//! force. So when more has changed than may be said at once, the threshold in force is raised above what is left unsaid.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::Signal;
use tollgate_core::window::Estimate;

use super::table::{Entry, Table};

/// How often a partition gives a sign of life, in ms.
const HEARTBEAT_MS: u64 = 200;
/// How often everything above the threshold is said again, in ms: who has read for two seconds has heard all of it.
const REPEAT_MS: u64 = 1_500;
/// The most signals of one record, which must stay far below the megabyte that brokers take; the rest follows at once.
const SIGNALS_LEN_MAX: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Push {
    /// Entries that changed.
    dirty: Vec<usize>,
    /// Entries above the threshold.
    hot: Vec<usize>,
    said_at: Timestamp,
    repeated_at: Timestamp,
}

impl Push {
    /// An entry was charged.
    pub(super) fn changed(&mut self, place: usize, entry: &mut Entry) {
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(place);
        }
    }

    /// The entry at `from` is now at `to`.
    pub(super) fn moved(&mut self, to: usize, from: usize) {
        for place in self.dirty.iter_mut().chain(&mut self.hot).filter(|place| **place == from) {
            *place = to;
        }
    }

    /// What to say now, with the threshold in force; nothing when there is nothing to say.
    pub(super) fn due(&mut self, table: &mut Table, now: Timestamp, threshold: u32) -> Option<(Vec<Signal>, u32)> {
        if now.ms_since(self.repeated_at) >= REPEAT_MS {
            self.repeated_at = now;
            for place in std::mem::take(&mut self.hot) {
                let entry = table.entry_mut(place);
                entry.hot = false;
                self.changed(place, entry);
            }
        }
        let mut worth: Vec<(u32, usize)> = Vec::new();
        for place in self.dirty.drain(..) {
            let entry = table.entry_mut(place);
            entry.dirty = false;
            let permille = entry.permille(now);
            if permille >= threshold {
                if !entry.hot && permille > 0 {
                    entry.hot = true;
                    self.hot.push(place);
                }
                worth.push((permille, place));
            }
        }
        let mut in_force = threshold;
        if worth.len() > SIGNALS_LEN_MAX {
            worth.sort_unstable_by(|a, b| b.cmp(a));
            in_force = worth[SIGNALS_LEN_MAX].0.saturating_add(1).max(threshold);
            for (_, place) in worth.drain(SIGNALS_LEN_MAX..) {
                self.changed(place, table.entry_mut(place));
            }
        }
        if worth.is_empty() && now.ms_since(self.said_at) < HEARTBEAT_MS {
            return None;
        }
        self.said_at = now;
        Some((worth.into_iter().map(|(_, place)| signal(table.entry_mut(place), now)).collect(), in_force))
    }
}

fn signal(entry: &Entry, now: Timestamp) -> Signal {
    let admitted = entry.used(now);
    let denied = entry.denied.used(now, Estimate::Conservative);
    let width_ms = entry.admitted.window().width_ms();
    Signal {
        counter: entry.id,
        rule: entry.rule.clone(),
        label: entry.label.clone(),
        generation: entry.generation,
        quota: entry.quota,
        admitted: entry.admitted.clone(),
        denied,
        rate_milli: admitted.saturating_add(denied).saturating_mul(1_000_000) / width_ms,
        budget: None,
        newest_at: entry.newest_at,
    }
}
