//! Signals of whole partitions: their freshness, and which rounds of the agent's own batches they contain.
//!
//! [`crate::receive`] writes here, and decisions read. The signal of a single counter is part of its view ([`crate::view`]).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{FRESH_MS, LogId, Offset, SignalBatch};

use crate::enforce::{Authority, FreshSignals};
use crate::time_bounds::TimeBounds;
use crate::view::CoveredRounds;

/// Time over which signals must have been read before a counter without a signal counts as full up to the threshold only,
/// in ms. Aggregators signal every counter above the threshold at least that often.
const READ_FIRST_MS: u64 = 2_000;
/// Maximum number of own batches per partition that are in the log and in no signal yet.
const DELIVERED_LEN_MAX: usize = 8_192;
/// Maximum number of rounds per partition of which rows are known to be lost.
const LOST_LEN_MAX: usize = 1_024;

/// Freshness of the signals, by partition.
pub(crate) struct Signals {
    partitions: Box<[Mutex<SignalPartition>]>,
}

/// One partition of the signals.
#[derive(Default)]
struct SignalPartition {
    log: Option<LogId>,
    as_of: Offset,
    as_of_appended: Timestamp,
    threshold_permille: u32,
    /// Times at which the first and the last record that were read had been appended.
    read: Option<(Timestamp, Timestamp)>,
    /// Rounds of own batches in the log that no signal contains yet, in their order, and the offsets of the batches.
    delivered: VecDeque<(u64, Offset)>,
    covered: CoveredRounds,
}

impl Signals {
    pub(crate) fn new(partitions: u32) -> Self {
        Self { partitions: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    /// Applies the heartbeat of a batch that the bus appended at this time. Returns true if its signals are not outdated.
    pub(crate) fn received(&self, appended: Timestamp, batch: &SignalBatch) -> bool {
        let Some(mut view) = self.partition(batch.partition) else { return false };
        view.read = Some((view.read.map_or(appended, |(first, _)| first), appended));
        if view.log.replace(batch.log).is_some_and(|log| log != batch.log) {
            // The log was recreated and contains nothing of the old one.
            let last = view.delivered.drain(..).map(|(round, _)| round).next_back();
            let through = view.covered.through.max(last.unwrap_or_default());
            // Rows say a round at most two later than the last one that their batch completes.
            view.covered.none_through = view.covered.none_through.max(through + 2);
            view.as_of = 0;
        }
        if batch.as_of < view.as_of {
            return false;
        }
        view.as_of = batch.as_of;
        view.as_of_appended = view.as_of_appended.max(batch.as_of_appended);
        view.threshold_permille = batch.threshold_permille;
        while let Some((round, offset)) = view.delivered.front().copied()
            && offset <= batch.as_of
        {
            view.delivered.pop_front();
            view.covered.through = view.covered.through.max(round);
        }
        true
    }

    /// Returns the log and the offset of the newest signals of a partition; nothing if there is no such partition.
    pub(crate) fn position(&self, partition: Partition) -> Option<(Option<LogId>, Offset)> {
        self.partition(partition).map(|view| (view.log, view.as_of))
    }

    /// Records the offset of an own batch. The rows of all rounds through this one are in it or in earlier ones.
    pub(crate) fn delivered(&self, partition: Partition, through: u64, offset: Offset) {
        let Some(mut view) = self.partition(partition) else { return };
        if view.delivered.len() >= DELIVERED_LEN_MAX {
            // A later round contains this one.
            view.delivered.pop_front();
        }
        view.delivered.push_back((through, offset));
    }

    /// Records that rows of these rounds are lost, or of unknown fate: their units may count twice, but are never missing.
    pub(crate) fn lost(&self, partition: Partition, rounds: RangeInclusive<u64>) {
        let Some(mut view) = self.partition(partition) else { return };
        view.covered.lost.extend(rounds);
        if view.covered.lost.len() > LOST_LEN_MAX {
            let last = std::mem::take(&mut view.covered.lost).pop_last().unwrap_or_default();
            view.covered.none_through = view.covered.none_through.max(last);
        }
    }

    /// Returns the authority about a partition while the store does not answer: its signals, if they are fresh and were read
    /// for long enough.
    pub(crate) fn authority(&self, partition: Partition, store: TimeBounds) -> Authority {
        let Some(view) = self.partition(partition) else { return Authority::Fallback(CoveredRounds::default()) };
        let (threshold_permille, covered) = (view.threshold_permille, view.covered.clone());
        if view.has_read_enough() && store.latest.ms_since(view.as_of_appended) < FRESH_MS {
            Authority::Signals(FreshSignals { threshold_permille, covered })
        } else {
            Authority::Fallback(covered)
        }
    }

    /// Returns true if the signals of every partition have been read for long enough to be relied on.
    pub(crate) fn has_read_enough(&self) -> bool {
        !self.partitions.is_empty() && self.partitions.iter().all(|view| view.lock().has_read_enough())
    }

    /// Returns the number of kept entries.
    pub(crate) fn kept(&self) -> usize {
        let kept = |view: &SignalPartition| view.delivered.len() + view.covered.lost.len();
        self.partitions.iter().map(|view| kept(&view.lock())).sum()
    }

    fn partition(&self, partition: Partition) -> Option<MutexGuard<'_, SignalPartition>> {
        self.partitions.get(partition as usize).map(Mutex::lock)
    }
}

impl SignalPartition {
    fn has_read_enough(&self) -> bool {
        self.read.is_some_and(|(first, last)| last.ms_since(first) >= READ_FIRST_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn signals() -> Signals {
        Signals::new(1)
    }

    fn heartbeat(log: LogId, as_of: Offset, appended: u64) -> SignalBatch {
        SignalBatch {
            aggregator: "g".into(),
            partition: 0,
            log,
            as_of,
            as_of_appended: at(appended),
            threshold_permille: 500,
            signals: Vec::new(),
        }
    }

    fn heard(signals: &Signals, ms: u64) -> Option<FreshSignals> {
        match signals.authority(0, TimeBounds::exactly(at(ms))) {
            Authority::Signals(fresh) => Some(fresh),
            _ => None,
        }
    }

    /// E6: an outdated record changes nothing.
    #[test]
    fn signals_are_fresh_for_a_while_and_an_older_one_changes_nothing() {
        let signals = signals();
        assert!(signals.received(at(10_000), &heartbeat(1, 5, 10_000)));
        assert!(heard(&signals, 10_500).is_none(), "not read long enough");
        assert!(signals.received(at(12_000), &heartbeat(1, 9, 12_000)));
        assert!(!signals.received(at(12_100), &heartbeat(1, 5, 10_000)));
        assert!(heard(&signals, 14_999).is_some());
        assert!(heard(&signals, 15_000).is_none());
    }

    #[test]
    fn own_batches_are_covered_once_signals_count_them() {
        let signals = signals();
        signals.delivered(0, 1, 3);
        signals.lost(0, 2..=2);
        signals.delivered(0, 3, 8);
        signals.received(at(10_000), &heartbeat(1, 5, 10_000));
        signals.received(at(12_000), &heartbeat(1, 5, 12_000));
        let covered = heard(&signals, 12_000).unwrap().covered;
        assert_eq!(covered, CoveredRounds { none_through: 0, through: 1, lost: [2].into() });
        signals.received(at(12_001), &heartbeat(2, 0, 12_001));
        let covered = heard(&signals, 12_001).unwrap().covered;
        assert!(covered.none_through >= 3, "a new log contains nothing of the old one");
    }
}
