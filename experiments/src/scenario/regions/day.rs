//! A day on which the load moves around the globe.

use super::cost::EntryTally;
use super::settings::{GlobalQuotaSettings, REGIONS};
use super::union::{RegionCall, admitted_exactly, fullest_minute};
use super::world::{BudgetSample, RegionsRun};
use crate::scenario::arrivals::MINUTE_MS;

#[derive(Clone, Debug, Default)]
pub(super) struct DayTally {
    pub(super) calls: Vec<RegionCall>,
    pub(super) admitted: u64,
    /// Units that one exact limiter for all regions admits.
    pub(super) exact: u64,
    pub(super) fullest: u64,
    pub(super) entries: EntryTally,
    /// Entries that changed nothing.
    pub(super) void: u64,
    /// Admissions by minute and region, and those of the exact limiter by minute.
    pub(super) minutes: Vec<Vec<u64>>,
    pub(super) exact_minutes: Vec<u64>,
    /// Budgets at the end of each second, by region.
    pub(super) budgets: Vec<Vec<BudgetSample>>,
    pub(super) is_violated: bool,
}

/// Outcome of another way to hold the quota.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaselineTally {
    pub(super) admitted: u64,
    pub(super) fullest: u64,
}

impl BaselineTally {
    pub(super) fn of(admitted: &[RegionCall]) -> Self {
        Self { admitted: admitted.len() as u64, fullest: fullest_minute(admitted) }
    }
}

pub(super) fn day(settings: &GlobalQuotaSettings, seed: u64, tick_ms: u64) -> DayTally {
    let mut outcome = RegionsRun::day(settings, seed, tick_ms, Vec::new()).outcome(settings);
    let (calls, admitted) = (std::mem::take(&mut outcome.calls[0]), &outcome.admitted[0]);
    let exact = admitted_exactly(&calls, settings.quota);
    let minute = |at_ms: u64| usize::try_from(at_ms / MINUTE_MS).unwrap_or_default();
    let mut minutes = vec![vec![0; REGIONS.len()]; minute(settings.day_ms())];
    for (at_ms, region) in admitted {
        minutes[minute(*at_ms)][*region] += 1;
    }
    let mut exact_minutes = vec![0; minutes.len()];
    for (at_ms, _) in &exact {
        exact_minutes[minute(*at_ms)] += 1;
    }
    DayTally {
        admitted: admitted.len() as u64,
        exact: exact.len() as u64,
        fullest: fullest_minute(admitted),
        entries: EntryTally::of(&outcome, 0, |_| true),
        void: outcome.void,
        minutes,
        exact_minutes,
        budgets: outcome.budgets,
        is_violated: outcome.is_violated,
        calls,
    }
}
