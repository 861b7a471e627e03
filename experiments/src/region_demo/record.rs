//! Calls of the demo as they were decided, and what an exact limiter makes of them.

use std::time::Duration;

use tollgate_core::clock::Timestamp;

use super::{QUOTA_UNITS, REGIONS, quota};
use crate::oracle::Oracle;

#[derive(Clone, Copy, Debug)]
pub(super) struct RegionDecision {
    pub(super) region: usize,
    pub(super) at: Duration,
    pub(super) is_admitted: bool,
    /// Limit in force.
    pub(super) limit: u64,
}

/// Calls of all regions, in the order of their decisions.
#[derive(Debug, Default)]
pub(super) struct RegionRecord {
    decisions: Vec<RegionDecision>,
    shown: usize,
    limits: [u64; REGIONS.len()],
}

/// Figures of one region since the last display.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RegionFigures {
    pub(super) limit: u64,
    pub(super) admitted: u64,
    pub(super) denied: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RegionSummary {
    pub(super) calls: u64,
    pub(super) admitted: u64,
    /// Calls that one exact limiter admits.
    pub(super) exact: u64,
    /// Largest number of admissions of all regions in a window.
    pub(super) fullest: u64,
}

impl RegionRecord {
    pub(super) fn enter(&mut self, decision: RegionDecision) {
        self.limits[decision.region] = decision.limit;
        self.decisions.push(decision);
    }

    /// Returns the figures since the last call; none before each region has decided one.
    pub(super) fn figures(&mut self) -> Option<[RegionFigures; REGIONS.len()]> {
        if self.limits.contains(&0) {
            return None;
        }
        let mut figures = self.limits.map(|limit| RegionFigures { limit, ..RegionFigures::default() });
        for decision in &self.decisions[self.shown..] {
            let of = &mut figures[decision.region];
            *(if decision.is_admitted { &mut of.admitted } else { &mut of.denied }) += 1;
        }
        self.shown = self.decisions.len();
        Some(figures)
    }

    pub(super) fn summary(&self) -> RegionSummary {
        let mut decisions = self.decisions.clone();
        decisions.sort_by_key(|decision| decision.at);
        let (mut seen, mut exact) = (Oracle::new(quota()), Oracle::new(quota()));
        let mut summary = RegionSummary { calls: decisions.len() as u64, admitted: 0, exact: 0, fullest: 0 };
        for decision in &decisions {
            let at = Timestamp::from_ms(u64::try_from(decision.at.as_millis()).unwrap_or(u64::MAX));
            if decision.is_admitted {
                seen.admit(at, 1);
                summary.admitted += 1;
                summary.fullest = summary.fullest.max(seen.units());
            }
            if exact.has_room(at, 1) {
                exact.admit(at, 1);
                summary.exact += 1;
            }
        }
        summary
    }
}

impl RegionSummary {
    /// Returns true if no window held more than the quota.
    pub(super) const fn is_within(&self) -> bool {
        self.fullest <= QUOTA_UNITS
    }
}
