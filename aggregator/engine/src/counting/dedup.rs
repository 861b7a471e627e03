//! Recognition of batches that were counted before, by writer: the last sequence number, and a bitmap of those before it.
//!
//! A retried batch has the name of the first attempt, so it counts once however often it is in the log. The same
//! entries hold the completeness times of the writers, whose minimum is the watermark.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::calls::BatchName;
use tollgate_core::messages::presence::GONE_AFTER_MS;

/// Distance behind the last sequence number within which a late batch is told from a duplicate, in batches.
const HISTORY_LEN_MAX: u64 = 128;
const WRITERS_LEN_MAX: usize = 10_000;
/// Silence after which a writer does not retry any batch, in ms.
const FORGET_AFTER_MS: u64 = 3_600_000;
/// Distance ahead of the last sequence number from which on a number cannot be the writer's. Such a number would make
/// all later batches count as old.
const AHEAD_MIN_ABSURD: u64 = 1 << 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Dedup {
    writers: HashMap<(Arc<str>, u64), WriterHistory, RandomState>,
}

#[derive(Clone, Copy, Debug)]
struct WriterHistory {
    last: u64,
    /// Bit i is set if the batch `last - i` was counted.
    counted: u128,
    last_appended: Timestamp,
    complete_through: Timestamp,
}

impl Dedup {
    /// Returns true if the writer cannot have reached this sequence number.
    pub(super) fn is_absurd(&self, name: &BatchName) -> bool {
        let last = self.writers.get(&(name.agent.clone(), name.epoch)).map_or(0, |writer| writer.last);
        name.sequence.saturating_sub(last) >= AHEAD_MIN_ABSURD
    }

    /// Marks a batch as counted; false if it was counted before, or is too old to tell.
    pub(super) fn is_new(&mut self, name: &BatchName, complete_through: Timestamp, appended: Timestamp) -> bool {
        let key = (name.agent.clone(), name.epoch);
        if self.writers.len() >= WRITERS_LEN_MAX && !self.writers.contains_key(&key) {
            self.make_room(appended);
        }
        let new = WriterHistory { last: 0, counted: 0, last_appended: appended, complete_through };
        let writer = self.writers.entry(key).or_insert(new);
        writer.last_appended = appended;
        writer.complete_through = writer.complete_through.max(complete_through);
        match name.sequence.checked_sub(writer.last) {
            Some(ahead) if ahead > 0 => {
                writer.counted = if ahead < HISTORY_LEN_MAX { writer.counted << ahead | 1 } else { 1 };
                writer.last = name.sequence;
                true
            }
            _ => {
                let back = writer.last - name.sequence;
                let bit = if back < HISTORY_LEN_MAX { 1 << back } else { 0 };
                let new = bit != 0 && writer.counted & bit == 0;
                writer.counted |= bit;
                new
            }
        }
    }

    /// Returns the name of the writer of a batch, in memory that its batches share.
    pub(super) fn writer(&self, name: &BatchName) -> Arc<str> {
        let known = self.writers.get_key_value(&(name.agent.clone(), name.epoch));
        known.map_or(&name.agent, |((agent, _), _)| agent).clone()
    }

    /// Returns the time up to which all live writers have published; later rows of an earlier time are late.
    pub(super) fn watermark(&self, now: Timestamp) -> Option<Timestamp> {
        let live = self.writers.values().filter(|writer| now.ms_since(writer.last_appended) <= GONE_AFTER_MS);
        live.map(|writer| writer.complete_through).min()
    }

    /// Removes the writers that were silent for long, or else the one that was silent the longest.
    fn make_room(&mut self, now: Timestamp) {
        self.writers.retain(|_, writer| now.ms_since(writer.last_appended) < FORGET_AFTER_MS);
        if self.writers.len() >= WRITERS_LEN_MAX {
            let oldest = self.writers.iter().min_by_key(|(_, writer)| writer.last_appended).map(|(key, _)| key.clone());
            oldest.map(|key| self.writers.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_new(dedup: &mut Dedup, agent: &str, (epoch, sequence): (u64, u64), through: u64, appended: u64) -> bool {
        let name = BatchName { agent: agent.into(), epoch, partition: 0, sequence };
        dedup.is_new(&name, Timestamp::from_ms(through), Timestamp::from_ms(appended))
    }

    #[test]
    fn each_batch_is_new_once_in_any_order() {
        let cases = [
            ((1, 1), true),
            ((1, 3), true),
            ((1, 3), false),
            ((1, 2), true),
            ((1, 2), false),
            ((1, 1), false),
            // Another life is another writer.
            ((2, 1), true),
            ((1, 500), true),
            // Too far back to tell is taken for a duplicate.
            ((1, 3), false),
            ((1, 499), true),
            ((1, 499), false),
            ((1, 500), false),
        ];
        let mut dedup = Dedup::default();
        for (place, (batch, expected)) in cases.into_iter().enumerate() {
            assert_eq!(is_new(&mut dedup, "a", batch, 0, 0), expected, "case {place}: {batch:?}");
        }
    }

    #[test]
    fn the_watermark_is_the_completeness_of_the_slowest_live_writer() {
        let (mut dedup, at) = (Dedup::default(), Timestamp::from_ms);
        is_new(&mut dedup, "slow", (1, 1), 1_000, 5_000);
        is_new(&mut dedup, "quick", (1, 1), 2_000, 5_000);
        assert_eq!(dedup.watermark(at(5_000)), Some(at(1_000)));
        is_new(&mut dedup, "quick", (1, 2), 19_000, 20_000);
        assert_eq!(dedup.watermark(at(20_001)), Some(at(19_000)), "a dead writer does not delay it");
    }

    #[test]
    fn at_the_cap_the_writer_that_was_silent_the_longest_is_forgotten() {
        let mut dedup = Dedup::default();
        for writer in 0..WRITERS_LEN_MAX as u64 {
            is_new(&mut dedup, "a", (writer, 1), 0, writer);
        }
        assert!(is_new(&mut dedup, "b", (1, 1), 0, 20_000));
        assert_eq!(dedup.writers.len(), WRITERS_LEN_MAX);
        assert!(is_new(&mut dedup, "a", (0, 1), 0, 20_000), "the oldest one was forgotten");
        assert!(!is_new(&mut dedup, "a", (5_000, 1), 0, 20_000), "others were not");
    }
}
