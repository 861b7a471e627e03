//! Signals of whole partitions: their freshness, and which rounds of the agent's own batches they contain.
//!
//! The age of a signal is measured by the bus's clock, which stamped it, and not by the store's, which may have been
//! set. The bus's clock may have been set, too: so the counts must also have moved on lately by this agent's own clock,
//! which is never set. Counts are kept by the store's time, and aggregators count them by that of the bus, so signals
//! decide only while the two may agree.
//!
//! `housekeeping/receive` writes here, and decisions read. The signal of a single counter is part of its view (`counters/view`).

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{FRESH_MS, LogId, Offset, SignalBatch};

use crate::counters::{Authority, CoveredRounds, FreshSignals};
use crate::time::{ServerClock, TimeBounds};

/// Time over which signals must have been read before a counter without a signal counts as full up to the threshold only,
/// in ms. Aggregators signal every counter above the threshold at least that often.
const READ_FIRST_MS: u64 = 2_000;
/// Age of a record past which it changes nothing, in ms.
const AGE_MS_MAX: u64 = 5_000;
/// Maximum number of own batches per partition that are in the log and in no signal yet.
const DELIVERED_LEN_MAX: usize = 8_192;
/// Maximum number of rounds per partition of which rows are known to be lost.
const LOST_LEN_MAX: usize = 1_024;

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

#[derive(Default)]
struct SignalPartition {
    followed: Followed,
    /// Offset through which the counters' views contain the signals; none if nothing is followed.
    applied_as_of: Option<Offset>,
    as_of_appended: Timestamp,
    /// The agent's instant at which a record arrived that counts further than the ones before.
    moved_on_at: Timestamp,
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

    /// Records the time at which the bus appended a heartbeat that this agent sent and received at these instants of
    /// its clock.
    pub(crate) fn note_bus_time(&self, sent: Timestamp, received: Timestamp, appended: Timestamp) {
        if sent > received {
            return;
        }
        let mut clock = self.bus_clock.write();
        *clock = clock.updated(sent, received, appended).map_or(*clock, |(updated, _)| updated);
    }

    /// Applies the heartbeat of a batch that the bus appended at this time. Returns true if its signals are not
    /// outdated. After a record that is too old to be of use, signals must again be read for a while, because others
    /// may have been missed.
    pub(crate) fn received(&self, now: Timestamp, appended: Timestamp, batch: &SignalBatch) -> bool {
        let bus = self.bus_clock.read().at(now);
        let Some(mut view) = self.partition(batch.partition) else { return false };
        if bus.earliest.ms_since(appended) > AGE_MS_MAX {
            view.read = None;
            return false;
        }
        // After the bus's clock was set back, signals are read for a while by its new time.
        view.read = Some((view.read.map_or(appended, |(first, _)| first.min(appended)), appended));
        if view.followed.log.is_some_and(|log| log != batch.log) {
            // The log was recreated and contains nothing of the old one.
            view.begin_anew();
        }
        if batch.as_of < view.followed.as_of {
            return false;
        }
        if view.followed.log.is_none() || batch.as_of > view.followed.as_of {
            view.moved_on_at = now;
        }
        view.followed = Followed { log: Some(batch.log), as_of: batch.as_of, appended };
        view.as_of_appended = batch.as_of_appended;
        view.threshold_permille = batch.threshold_permille;
        true
    }

    /// Records that all signals of a received batch are in the views of their counters. Until then, own units that the signals
    /// contain may count twice, but are never missing.
    pub(crate) fn applied(&self, batch: &SignalBatch) {
        let Some(mut view) = self.partition(batch.partition) else { return };
        // The record may have been forgotten meanwhile.
        if view.followed.log == Some(batch.log) {
            view.applied_as_of = Some(batch.as_of);
            view.cover_delivered();
        }
    }

    /// Returns the record of a partition that the agent follows; nothing if there is no such partition.
    pub(crate) fn followed(&self, partition: Partition) -> Option<Followed> {
        self.partition(partition).map(|view| view.followed)
    }

    /// Forgets the record that the agent followed, because it counted beyond the end of the log. Signals must again be
    /// read for a while.
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
        // The signal may come before the report of the bus: until the next signal, its units would count twice.
        view.cover_delivered();
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

    /// Returns the authority about a partition while the store does not answer. The signals decide if they are fresh,
    /// were read for long enough, and count by the time of the store.
    pub(crate) fn authority(&self, partition: Partition, now: Timestamp, store: TimeBounds) -> Authority {
        let bus = self.bus_clock.read().at(now);
        let Some(view) = self.partition(partition) else { return Authority::Fallback(CoveredRounds::default()) };
        let (threshold_permille, covered) = (view.threshold_permille, view.covered.clone());
        let age_ms = bus.latest.ms_since(view.as_of_appended).max(now.ms_since(view.moved_on_at));
        let is_fresh = age_ms < FRESH_MS;
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
        self.applied_as_of = None;
    }

    /// Marks the rounds of batches that the applied signals contain as covered.
    fn cover_delivered(&mut self) {
        while let Some((round, offset)) = self.delivered.front().copied()
            && self.applied_as_of.is_some_and(|as_of| offset <= as_of)
        {
            self.delivered.pop_front();
            self.covered.through = self.covered.through.max(round);
        }
    }

    fn has_read_enough(&self) -> bool {
        self.read.is_some_and(|(first, last)| last.ms_since(first) >= READ_FIRST_MS)
    }
}
