//! The link between a region and the home cluster of the ledger: entries on their way there, and records on their way back.
//!
//! It delays, loses and repeats entries. Records come in their order; while the link is cut, they wait.

use std::collections::BTreeMap;

use fastrand::Rng;
use tollgate_core::clock::Timestamp;

use super::event::Life;
use super::faults::MirrorFaults;

/// Maximum number of records that a mirror repeats.
const REPEATED_LEN_MAX: usize = 12;

#[derive(Debug)]
pub(super) struct MirrorLink {
    pub(super) faults: MirrorFaults,
    pub(super) is_cut: bool,
    rng: Rng,
    /// Instants from which the next entries of each life of an aggregator may arrive: a producer keeps its order.
    arrives_after: BTreeMap<(usize, Life), Timestamp>,
    /// Instant at which the last record arrives at the mirror.
    mirrored_at: Timestamp,
    /// Places of records that wait for the end of a cut.
    waiting: Vec<usize>,
}

impl MirrorLink {
    pub(super) fn new(faults: MirrorFaults, rng: Rng) -> Self {
        Self {
            faults,
            is_cut: false,
            rng,
            arrives_after: BTreeMap::new(),
            mirrored_at: Timestamp::default(),
            waiting: Vec::new(),
        }
    }

    /// Returns the instants at which copies of an entry arrive at the home cluster; none if it is lost.
    pub(super) fn arrivals(&mut self, writer: (usize, Life), sent: Timestamp) -> Vec<Timestamp> {
        let MirrorFaults { delay_ms, lost_permille, doubled_permille, .. } = self.faults;
        let is_lost = self.strikes(lost_permille);
        let is_doubled = self.strikes(doubled_permille);
        let jitter_ms = self.jitter_ms();
        if is_lost || self.is_cut {
            return Vec::new();
        }
        let after = self.arrives_after.entry(writer).or_default();
        *after = sent.plus_ms(delay_ms + jitter_ms).max(*after);
        let again = is_doubled.then(|| after.plus_ms(jitter_ms));
        [*after].into_iter().chain(again).collect()
    }

    /// Returns the instant at which the next record of the ledger arrives at the mirror; none while the link is cut.
    pub(super) fn mirrored_at(&mut self, now: Timestamp, place: usize) -> Option<Timestamp> {
        if self.is_cut {
            self.waiting.push(place);
            return None;
        }
        let jitter_ms = self.jitter_ms();
        self.mirrored_at = now.plus_ms(self.faults.delay_ms + jitter_ms).max(self.mirrored_at);
        Some(self.mirrored_at)
    }

    /// Takes the records that have waited for the end of a cut.
    pub(super) fn take_waiting(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.waiting)
    }

    /// Draws the number of records that the mirror repeats after one.
    pub(super) fn repeated(&mut self) -> usize {
        let repeated = self.rng.usize(1..=REPEATED_LEN_MAX);
        if self.strikes(self.faults.repeated_permille) { repeated } else { 0 }
    }

    /// Returns true with a probability of a quarter.
    pub(super) fn swaps(&mut self) -> bool {
        self.rng.u8(0..4) == 0
    }

    fn strikes(&mut self, permille: u64) -> bool {
        self.rng.u64(0..1_000) < permille
    }

    fn jitter_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.jitter_ms)
    }
}
