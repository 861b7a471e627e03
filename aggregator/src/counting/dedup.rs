//! Which batches were counted: the last sequence of each writer, and a bitmap of those before it.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_common::charge::BatchName;
use tollgate_common::clock::Timestamp;

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
}

impl Dedup {
    /// Whether a batch was not counted before; from now on it was.
    pub(super) fn is_new(&mut self, name: &BatchName, now: Timestamp) -> bool {
        let key = (name.agent.clone(), name.epoch);
        if self.writers.len() >= WRITERS_LEN_MAX && !self.writers.contains_key(&key) {
            self.forget(now);
        }
        let writer = self.writers.entry(key).or_insert(Writer { last: 0, counted: 0, heard: now });
        writer.heard = now;
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
            dedup.is_new(&BatchName { agent: "a".into(), epoch, partition: 0, sequence }, Timestamp::default())
        };
        assert!(is_new(1, 1) && is_new(1, 3) && !is_new(1, 3) && is_new(1, 2) && !is_new(1, 2) && !is_new(1, 1));
        assert!(is_new(2, 1), "another life is another writer");
        assert!(is_new(1, 500) && !is_new(1, 3), "too long ago to tell is taken for a duplicate");
        assert!(is_new(1, 499) && !is_new(1, 499) && !is_new(1, 500));
    }
}
