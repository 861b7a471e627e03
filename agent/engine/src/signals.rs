//! Signals of whole partitions: their freshness, and which rounds of the agent's own batches they contain.
//!
//! The age of a signal is measured by the bus's clock, which stamped it, and not by the store's, which may have been set. But
//! counts are kept by the store's time, and aggregators count them by that of the bus. So signals decide only while the two may
//! agree.
//!
//! [`crate::receive`] writes here, and decisions read. The signal of a single counter is part of its view ([`crate::view`]).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{FRESH_MS, LogId, Offset, SignalBatch};

use crate::enforce::{Authority, FreshSignals};
use crate::time_bounds::{ServerClock, TimeBounds};
use crate::view::CoveredRounds;

/// Time over which signals must have been read before a counter without a signal counts as full up to the threshold only,
/// in ms. Aggregators signal every counter above the threshold at least that often.
const READ_FIRST_MS: u64 = 2_000;
/// Age of a record past which it changes nothing, in ms.
const AGE_MS_MAX: u64 = 5_000;
/// Maximum number of own batches per partition that are in the log and in no signal yet.
const DELIVERED_LEN_MAX: usize = 8_192;
/// Maximum number of rounds per partition of which rows are known to be lost.
const LOST_LEN_MAX: usize = 1_024;

/// Freshness of the signals, by partition.
pub(crate) struct Signals {
    partitions: Box<[Mutex<SignalPartition>]>,
    /// Time of the bus. A heartbeat of this agent that contradicts it replaces it.
    bus_clock: RwLock<ServerClock>,
}

/// The newest record of a partition that an agent follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) log: Option<LogId>,
    pub(crate) as_of: Offset,
    /// Time at which the bus appended it.
    pub(crate) appended: Timestamp,
}

/// One partition of the signals.
#[derive(Default)]
struct SignalPartition {
    followed: Followed,
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
        Self { partitions: (0..partitions).map(|_| Mutex::default()).collect(), bus_clock: RwLock::default() }
    }

    /// Records the time at which the bus appended a heartbeat that this agent sent and received at these instants of its clock.
    pub(crate) fn note_bus_time(&self, sent: Timestamp, received: Timestamp, appended: Timestamp) {
        if sent > received {
            return;
        }
        let mut clock = self.bus_clock.write();
        *clock = clock.updated(sent, received, appended).map_or(*clock, |(updated, _)| updated);
    }

    /// Applies the heartbeat of a batch that the bus appended at this time. Returns true if its signals are not outdated. After
    /// a record that is too old to be of use, signals must again be read for a while: others may have been missed.
    pub(crate) fn received(&self, now: Timestamp, appended: Timestamp, batch: &SignalBatch) -> bool {
        let bus = self.bus_clock.read().at(now);
        let Some(mut view) = self.partition(batch.partition) else { return false };
        if bus.earliest.ms_since(appended) > AGE_MS_MAX {
            view.read = None;
            return false;
        }
        view.read = Some((view.read.map_or(appended, |(first, _)| first), appended));
        if view.followed.log.is_some_and(|log| log != batch.log) {
            // The log was recreated and contains nothing of the old one.
            view.begin_anew();
        }
        if batch.as_of < view.followed.as_of {
            return false;
        }
        view.followed = Followed { log: Some(batch.log), as_of: batch.as_of, appended };
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

    /// Returns the record of a partition that the agent follows; nothing if there is no such partition.
    pub(crate) fn followed(&self, partition: Partition) -> Option<Followed> {
        self.partition(partition).map(|view| view.followed)
    }

    /// Forgets the record that the agent followed, because it counted beyond the end of the log. Signals must again be read for a
    /// while.
    pub(crate) fn begin_anew(&self, partition: Partition) {
        let Some(mut view) = self.partition(partition) else { return };
        view.begin_anew();
        (view.as_of_appended, view.read) = (Timestamp::default(), None);
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

    /// Returns the authority about a partition while the store does not answer: its signals, if they are fresh, were read for
    /// long enough, and count by the time of the store.
    pub(crate) fn authority(&self, partition: Partition, now: Timestamp, store: TimeBounds) -> Authority {
        let bus = self.bus_clock.read().at(now);
        let Some(view) = self.partition(partition) else { return Authority::Fallback(CoveredRounds::default()) };
        let (threshold_permille, covered) = (view.threshold_permille, view.covered.clone());
        let is_fresh = bus.latest.ms_since(view.as_of_appended) < FRESH_MS;
        if view.has_read_enough() && is_fresh && !bus.is_apart(store, FRESH_MS) {
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
    /// Ends all that is known by offsets: no unit of an own batch counts as contained in a signal.
    fn begin_anew(&mut self) {
        let last = self.delivered.drain(..).map(|(round, _)| round).next_back();
        let through = self.covered.through.max(last.unwrap_or_default());
        // Rows say a round at most two later than the last one that their batch completes.
        self.covered.none_through = self.covered.none_through.max(through + 2);
        self.followed = Followed::default();
    }

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

    /// Signals of one partition, over a bus whose clock is this agent's.
    fn signals() -> Signals {
        let signals = Signals::new(1);
        signals.note_bus_time(at(9_000), at(9_000), at(9_000));
        signals
    }

    fn heartbeat(log: LogId, as_of: Offset, appended: u64) -> SignalBatch {
        SignalBatch {
            aggregator: "g".into(),
            partition: 0,
            log,
            as_of,
            as_of_appended: at(appended),
            threshold_permille: 500,
            agents: Vec::new(),
            signals: Vec::new(),
        }
    }

    fn heard(signals: &Signals, ms: u64) -> Option<FreshSignals> {
        match signals.authority(0, at(ms), TimeBounds::exactly(at(ms))) {
            Authority::Signals(fresh) => Some(fresh),
            _ => None,
        }
    }

    /// E6: an outdated record changes nothing.
    #[test]
    fn signals_are_fresh_for_a_while_and_an_older_one_changes_nothing() {
        let signals = signals();
        assert!(signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 10_000)));
        assert!(heard(&signals, 10_500).is_none(), "not read long enough");
        assert!(signals.received(at(12_000), at(12_000), &heartbeat(1, 9, 12_000)));
        assert!(!signals.received(at(12_100), at(12_100), &heartbeat(1, 5, 10_000)));
        assert!(heard(&signals, 14_990).is_some());
        assert!(heard(&signals, 15_000).is_none());
    }

    /// one-truth-of-time: signals age by the bus's clock, whatever the agent's own and the store's show; they count nothing that
    /// a store could compare if its clock is not that of the bus.
    #[test]
    fn signals_age_by_the_clock_of_the_bus() {
        // The agent's clock minus that of the bus, and the store's minus that of the bus; if fresh signals decide.
        let cases = [
            (0, 0, true),
            (30_000, 0, true),
            (-30_000, 0, true),
            (0, 2_000, true),
            (0, -2_000, true),
            (0, 3_600_000, false),
            (0, -3_600_000, false),
        ];
        for (own_ms, store_ms, expected) in cases {
            let signals = Signals::new(1);
            let own = |bus: u64| at(bus.saturating_add_signed(own_ms));
            for appended in (5_000_000..=5_004_000).step_by(1_000) {
                signals.note_bus_time(own(appended - 10), own(appended + 10), at(appended));
                signals.received(own(appended + 10), at(appended), &heartbeat(1, appended, appended));
            }
            let store = |bus: u64| TimeBounds::exactly(at(bus.saturating_add_signed(store_ms)));
            let fresh_at = |bus| matches!(signals.authority(0, own(bus), store(bus)), Authority::Signals(_));
            assert_eq!((fresh_at(5_004_100), fresh_at(5_007_100)), (expected, false), "{own_ms} {store_ms}");
        }
    }

    /// E6: a record that was appended 6 s ago changes nothing, and the signals count as read from then on.
    #[test]
    fn a_record_that_arrives_late_changes_nothing() {
        let signals = signals();
        signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 10_000));
        signals.received(at(12_000), at(12_000), &heartbeat(1, 6, 12_000));
        assert!(!signals.received(at(19_000), at(13_000), &heartbeat(1, 9, 13_000)));
        assert!(signals.received(at(19_100), at(19_000), &heartbeat(1, 10, 19_000)));
        assert!(heard(&signals, 19_100).is_none(), "records between them may be missing");
        assert!(signals.received(at(21_100), at(21_000), &heartbeat(1, 11, 21_000)));
        assert!(heard(&signals, 21_100).is_some());
    }

    /// E6: after a forged record beyond the end, nothing that it said remains, and real ones are followed again.
    #[test]
    fn a_partition_that_begins_anew_follows_the_next_record() {
        let signals = signals();
        signals.delivered(0, 1, 3);
        for (ms, as_of) in [(10_000, 2), (12_000, 9_000)] {
            assert!(signals.received(at(ms), at(ms), &heartbeat(1, as_of, ms)));
        }
        assert!(!signals.received(at(12_100), at(12_100), &heartbeat(1, 4, 12_100)), "it is behind");
        signals.begin_anew(0);
        assert!(
            signals.received(at(13_100), at(13_100), &heartbeat(1, 5, 13_100)) && heard(&signals, 13_100).is_none()
        );
        assert!(signals.received(at(15_100), at(15_100), &heartbeat(1, 6, 15_100)));
        let covered = heard(&signals, 15_100).expect("fresh signals").covered;
        assert!(covered.none_through >= 3, "batches that the forged record seemed to count may be in no signal");
    }

    #[test]
    fn own_batches_are_covered_once_signals_count_them() {
        let signals = signals();
        signals.delivered(0, 1, 3);
        signals.lost(0, 2..=2);
        signals.delivered(0, 3, 8);
        signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 10_000));
        signals.received(at(12_000), at(12_000), &heartbeat(1, 5, 12_000));
        let covered = heard(&signals, 12_000).unwrap().covered;
        assert_eq!(covered, CoveredRounds { none_through: 0, through: 1, lost: [2].into() });
        signals.received(at(12_001), at(12_001), &heartbeat(2, 0, 12_001));
        let covered = heard(&signals, 12_001).unwrap().covered;
        assert!(covered.none_through >= 3, "a new log contains nothing of the old one");
    }
}
