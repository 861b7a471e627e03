//! Each region cut off from the ledger in turn, at the hour of its noon.
//!
//! The ledger is in the first region. If that one is cut off, all others are cut off from the ledger, and it alone is reachable.
//! The reference admits exactly, with the units that can be known to be free. A region that is cut off may use what it held at the
//! begin for one term, and then its floor. The reachable regions together have the units that are not reserved for those that are cut
//! off. Reserved are the same units, but until the ledger ends the grants: a term, a window and the margin.

use tollgate_aggregator_engine::budget::coordinator::expires_after_ms;

use super::settings::{GlobalQuotaSettings, REGIONS};
use super::union::{RegionCall, admit_below, admitted_exactly, exact_list, fullest_minute, number_in};
use super::world::{RegionsOutcome, RegionsRun};
use crate::scenario::arrivals::MINUTE_MS;

/// Time without connection to a region.
#[derive(Clone, Debug)]
pub(super) struct RegionCut {
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    /// Regions without connection to the ledger.
    pub(super) regions: Vec<usize>,
}

/// Units that were admitted while a region was cut off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CutTally {
    pub(super) admitted: u64,
    /// Units of the reference.
    pub(super) possible: u64,
    /// Units of one exact limiter that reaches all regions.
    pub(super) exact: u64,
}

/// Outcome of a day with a cut of each region.
#[derive(Clone, Debug, Default)]
pub(super) struct OutageDay {
    /// Cuts by region.
    pub(super) cuts: Vec<CutTally>,
    pub(super) fullest: u64,
    pub(super) is_violated: bool,
}

fn cuts(settings: &GlobalQuotaSettings) -> Vec<RegionCut> {
    let count = REGIONS.len();
    let cut = |region: usize| {
        // The day begins at the noon of the first region, which is cut off at the end of the day.
        let noon_ms = settings.day_ms() * (if region == 0 { count } else { region }) as u64 / count as u64;
        let until_ms = (noon_ms + settings.cut_ms() / 2).min(settings.day_ms());
        let regions = if region == 0 { (1..count).collect() } else { vec![region] };
        RegionCut { from_ms: until_ms - settings.cut_ms(), until_ms, regions }
    };
    (0..count).map(cut).collect()
}

pub(super) fn outage_day(settings: &GlobalQuotaSettings, seed: u64, tick_ms: u64) -> OutageDay {
    let cuts = cuts(settings);
    let of_region = |region: usize| -> Vec<(u64, u64)> {
        let own = cuts.iter().filter(|cut| cut.regions.contains(&region));
        own.map(|cut| (cut.from_ms, cut.until_ms)).collect()
    };
    let links = (0..REGIONS.len()).map(of_region).collect();
    let outcome = RegionsRun::day(settings, seed, tick_ms, links).outcome(settings);
    let (calls, admitted) = (&outcome.calls[0], &outcome.admitted[0]);
    let exact = admitted_exactly(calls, settings.quota);
    let tally = |cut: &RegionCut| {
        let during = (cut.from_ms, cut.until_ms);
        CutTally {
            admitted: number_in(admitted, during),
            possible: possible(settings, cut, &outcome),
            exact: number_in(&exact, during),
        }
    };
    OutageDay {
        cuts: cuts.iter().map(tally).collect(),
        fullest: fullest_minute(admitted),
        is_violated: outcome.is_violated,
    }
}

/// Returns the units that the reference admits during a cut.
fn possible(settings: &GlobalQuotaSettings, cut: &RegionCut, outcome: &RegionsOutcome) -> u64 {
    let term_ms = settings.term_s * 1_000;
    let held = |region: usize| {
        let second = usize::try_from(cut.from_ms / 1_000).unwrap_or_default();
        outcome.budgets.get(second).map_or(0, |budgets| budgets[region].held)
    };
    let reserved = |region: usize, at_ms: u64, for_ms: u64| {
        if at_ms < cut.from_ms + for_ms { held(region).max(settings.floor) } else { settings.floor }
    };
    let of_cut_off = cut.regions.iter().map(|region| {
        let span = Span { from_ms: cut.from_ms, until_ms: cut.until_ms, regions: &[*region] };
        span.admitted(outcome, |at_ms| reserved(*region, at_ms, term_ms))
    });
    let reachable: Vec<usize> = (0..REGIONS.len()).filter(|region| !cut.regions.contains(region)).collect();
    let kept_ms = expires_after_ms(term_ms, MINUTE_MS);
    let span = Span { from_ms: cut.from_ms, until_ms: cut.until_ms, regions: &reachable };
    let of_reachable = span.admitted(outcome, |at_ms| {
        let reserved: u64 = cut.regions.iter().map(|region| reserved(*region, at_ms, kept_ms)).sum();
        settings.quota.saturating_sub(reserved)
    });
    of_cut_off.sum::<u64>() + of_reachable
}

/// Regions with one exact limiter for all of them, for a time.
struct Span<'a> {
    from_ms: u64,
    until_ms: u64,
    regions: &'a [usize],
}

impl Span<'_> {
    /// Returns the number of its calls that are admitted. Those of the minute before were admitted as in the run.
    fn admitted(&self, outcome: &RegionsOutcome, units_at: impl Fn(u64) -> u64) -> u64 {
        let of_time = |of: &[RegionCall], from_ms: u64, until_ms: u64| -> Vec<u64> {
            let of_span = of.iter().filter(|(_, region)| self.regions.contains(region)).map(|(at_ms, _)| *at_ms);
            of_span.filter(|at_ms| (from_ms..until_ms).contains(at_ms)).collect()
        };
        let mut list = exact_list(1);
        for at_ms in of_time(&outcome.admitted[0], self.from_ms.saturating_sub(MINUTE_MS), self.from_ms) {
            admit_below(&mut list, at_ms, u64::MAX);
        }
        let calls = of_time(&outcome.calls[0], self.from_ms, self.until_ms);
        calls.into_iter().filter(|at_ms| admit_below(&mut list, *at_ms, units_at(*at_ms))).count() as u64
    }
}
