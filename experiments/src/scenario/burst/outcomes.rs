//! Outcomes of the bursts under one rule.

use tollgate_sim::figures::ratio;

use crate::scenario::timeline::Timeline;

pub(super) struct RuleBursts {
    pub(super) name: &'static str,
    pub(super) bursts: Vec<BurstOutcome>,
    pub(super) requests: u64,
    pub(super) longest_ms: u64,
    /// The first burst over time.
    pub(super) timeline: Timeline,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstOutcome {
    pub(super) admitted: u64,
    /// Time from its first call to the last one that was admitted, in ms.
    pub(super) last_ms: u64,
}

impl RuleBursts {
    pub(super) fn fewest(&self) -> u64 {
        self.bursts.iter().map(|burst| burst.admitted).min().unwrap_or_default()
    }

    pub(super) fn most(&self) -> u64 {
        self.bursts.iter().map(|burst| burst.admitted).max().unwrap_or_default()
    }

    pub(super) fn last_ms(&self) -> u64 {
        self.bursts.iter().map(|burst| burst.last_ms).max().unwrap_or_default()
    }

    pub(super) fn requests_per_burst(&self) -> f64 {
        ratio(self.requests, self.bursts.len() as u64)
    }
}
