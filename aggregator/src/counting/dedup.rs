//! What is known of each writer: which of its batches were counted (the last sequence, and a bitmap of those before it),
//! and how far in time it has told all.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::calls::BatchName;
use tollgate_core::messages::presence::GONE_AFTER_MS;

/// How far back duplicates are told from latecomers, in batches.
const BACK_MAX: u64 = 128;
/// The most lives of writers that are remembered.
const WRITERS_LEN_MAX: usize = 10_000;
/// A writer that was silent for so long will not send again what it sent before, in ms.
const FORGET_AFTER_MS: u64 = 3_600_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Dedup {
    writers: HashMap<(Arc<str>, u64), Writer, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct Writer {
    last: u64,
    /// Bit i: the batch `last - i` was counted.
    counted: u128,
    heard: Timestamp,
    complete_through: Timestamp,
}

impl Dedup {
    /// Whether a batch was not counted before; from now on it was.
    pub(super) fn is_new(&mut self, name: &BatchName, complete_through: Timestamp, now: Timestamp) -> bool {
        let key = (name.agent.clone(), name.epoch);
        if self.writers.len() >= WRITERS_LEN_MAX && !self.writers.contains_key(&key) {
            self.forget(now);
        }
        let writer = self.writers.entry(key).or_insert(Writer { last: 0, counted: 0, heard: now, complete_through });
        writer.heard = now;
        writer.complete_through = writer.complete_through.max(complete_through);
        match name.sequence.checked_sub(writer.last) {
            Some(ahead) if ahead > 0 => {
                writer.counted = if ahead < BACK_MAX { writer.counted << ahead | 1 } else { 1 };
                writer.last = name.sequence;
                true
            }
            _ => {
                let back = writer.last - name.sequence;
                let bit = if back < BACK_MAX { 1 << back } else { 0 };
                let new = bit != 0 && writer.counted & bit == 0;
                writer.counted |= bit;
                new
            }
        }
    }

    /// The time up to which all writers have told all that were heard of lately; later rows of an earlier time are late.
    pub(super) fn watermark(&self, now: Timestamp) -> Option<Timestamp> {
        let live = self.writers.values().filter(|writer| now.ms_since(writer.heard) <= GONE_AFTER_MS);
        live.map(|writer| writer.complete_through).min()
    }

    /// Makes room: those who were silent for long, else the one who was silent the longest.
    fn forget(&mut self, now: Timestamp) {
        self.writers.retain(|_, writer| now.ms_since(writer.heard) < FORGET_AFTER_MS);
        if self.writers.len() >= WRITERS_LEN_MAX {
            let oldest = self.writers.iter().min_by_key(|(_, writer)| writer.heard).map(|(key, _)| key.clone());
            oldest.map(|key| self.writers.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_batch_is_new_once_in_whatever_order_it_comes() {
        let mut dedup = Dedup::default();
        let mut is_new = |epoch, sequence| {
            let name = BatchName { agent: "a".into(), epoch, partition: 0, sequence };
            dedup.is_new(&name, Timestamp::default(), Timestamp::default())
        };
        assert!(is_new(1, 1) && is_new(1, 3) && !is_new(1, 3) && is_new(1, 2) && !is_new(1, 2) && !is_new(1, 1));
        assert!(is_new(2, 1), "another life is another writer");
        assert!(is_new(1, 500) && !is_new(1, 3), "too long ago to tell is taken for a duplicate");
        assert!(is_new(1, 499) && !is_new(1, 499) && !is_new(1, 500));
    }

    #[test]
    fn the_watermark_is_that_of_the_slowest_who_is_alive() {
        let (mut dedup, at) = (Dedup::default(), Timestamp::from_ms);
        for (agent, through) in [("slow", 1_000), ("quick", 2_000)] {
            let name = BatchName { agent: agent.into(), epoch: 1, partition: 0, sequence: 1 };
            dedup.is_new(&name, at(through), at(5_000));
        }
        assert_eq!(dedup.watermark(at(5_000)), Some(at(1_000)));
        let name = BatchName { agent: "quick".into(), epoch: 1, partition: 0, sequence: 2 };
        dedup.is_new(&name, at(19_000), at(20_000));
        assert_eq!(dedup.watermark(at(20_001)), Some(at(19_000)), "who is gone holds nobody up");
    }
}
