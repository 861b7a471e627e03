//! A process of a region that takes part for it, or a coordinator: its clock, its suspensions, and its place in the ledger.

use fastrand::Rng;
use tollgate_aggregator_engine::budget::coordinator::Coordinator;
use tollgate_aggregator_engine::budget::region::RegionBudgets;
use tollgate_core::clock::Timestamp;

/// Longest offset of a process's clock, in ms: clocks of regions are never compared.
const OFFSET_MS_MAX: u64 = 36_000_000;

#[derive(Debug)]
pub(super) enum ProcessEngine {
    /// It takes part for its region.
    Region(Box<RegionBudgets>),
    /// It answers requests.
    Coordinator(Box<Coordinator>),
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) engine: ProcessEngine,
    /// Number of its starts. Answers to an earlier life are lost.
    pub(super) life: u64,
    /// Number of records of its mirror that it has read.
    pub(super) read: usize,
    pub(super) suspended_until_ms: u64,
    /// Time for which it was suspended in all, in ms.
    pub(super) suspended_ms: u64,
    pub(super) has_lost_request: bool,
    /// True if its clock stands still while it is suspended.
    clock_stops: bool,
    /// Instant from which the limits in its store are those of a process that has seen the last step of the store's clock, in ms.
    pub(super) saw_step_ms: Option<u64>,
    /// Instant from which its next record may arrive at the home cluster, in ms: a producer keeps its order.
    pub(super) arrives_after_ms: u64,
    /// Instant from which its next write reaches the store, in ms: it writes in its order.
    pub(super) writes_after_ms: u64,
    /// Offset of its clock from true time, in ms, and its drift, in millionths.
    clock: (u64, i64),
}

impl Process {
    pub(super) fn new(engine: ProcessEngine, life: u64, drift_ppm_max: u64, clock_stops: bool, rng: &mut Rng) -> Self {
        let drift = i64::try_from(drift_ppm_max).unwrap_or(i64::MAX);
        let clock = (rng.u64(0..OFFSET_MS_MAX), rng.i64(-drift..=drift));
        Self {
            engine,
            life,
            read: 0,
            suspended_until_ms: 0,
            suspended_ms: 0,
            has_lost_request: false,
            clock_stops,
            saw_step_ms: None,
            arrives_after_ms: 0,
            writes_after_ms: 0,
            clock,
        }
    }

    pub(super) fn suspend(&mut self, now_ms: u64, for_ms: u64) {
        let from_ms = self.suspended_until_ms.max(now_ms);
        self.suspended_until_ms = from_ms.max(now_ms + for_ms);
        self.suspended_ms += self.suspended_until_ms - from_ms;
    }

    /// Returns the process's own time, which goes on while it is suspended.
    pub(super) fn time(&self, now_ms: u64) -> Timestamp {
        let left_ms = self.suspended_until_ms.saturating_sub(now_ms);
        let stopped_ms = if self.clock_stops { self.suspended_ms - left_ms } else { 0 };
        drifted(now_ms - stopped_ms, self.clock.0, self.clock.1)
    }
}

pub(super) fn drifted(now_ms: u64, offset_ms: u64, drift_ppm: i64) -> Timestamp {
    let drift_ms = now_ms.cast_signed() * drift_ppm / 1_000_000;
    Timestamp::from_ms((offset_ms + now_ms).saturating_add_signed(drift_ms))
}
