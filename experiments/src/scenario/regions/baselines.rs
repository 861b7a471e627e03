//! Other ways to hold one quota over several regions, each on the same calls. All count exactly.
//!
//! Source 001, "Multi-Region": limits of each region on its own, and one limit for all of them, here as static shares and as one
//! central store. The free zone is a minimum that each region admits without asking the central store.

use tollgate_sim::oracle::Oracle;

use super::settings::REGIONS;
use super::union::{RegionCall, admit_below, admitted_exactly, exact_list};

/// Returns an exact list for each region.
fn lists(quota: u64) -> Vec<Oracle> {
    REGIONS.iter().map(|_| exact_list(quota)).collect()
}

/// Static shares: each region admits its part of the quota.
pub(super) fn static_shares(calls: &[RegionCall], quota: u64) -> Vec<RegionCall> {
    regional_limits(calls, quota / REGIONS.len() as u64)
}

/// Regional limits: each region admits the whole quota.
pub(super) fn regional_limits(calls: &[RegionCall], quota: u64) -> Vec<RegionCall> {
    let mut lists = lists(quota);
    calls.iter().copied().filter(|(at_ms, region)| admit_below(&mut lists[*region], *at_ms, quota)).collect()
}

/// Central store: the calls of all regions but the first one reach it after the delay of the link. Admissions have the instants of
/// their decisions.
pub(super) fn central_store(calls: &[RegionCall], quota: u64, link_ms: u64) -> Vec<RegionCall> {
    let arrival = |(at_ms, region): &RegionCall| (at_ms + if *region == 0 { 0 } else { link_ms }, *region);
    let mut arrived: Vec<RegionCall> = calls.iter().map(arrival).collect();
    arrived.sort_by_key(|(at_ms, _)| *at_ms);
    admitted_exactly(&arrived, quota)
}

/// Free zone: each region admits its first units of a minute without asking, and tells the central store, which admits the others
/// while there is room.
pub(super) fn free_zone(calls: &[RegionCall], quota: u64, free: u64) -> Vec<RegionCall> {
    let mut union = exact_list(quota);
    let mut own = lists(quota);
    let mut is_admitted = |(at_ms, region): &RegionCall| {
        if admit_below(&mut own[*region], *at_ms, free) {
            return admit_below(&mut union, *at_ms, u64::MAX);
        }
        let is_admitted = admit_below(&mut union, *at_ms, quota);
        is_admitted && admit_below(&mut own[*region], *at_ms, u64::MAX)
    };
    calls.iter().copied().filter(|call| is_admitted(call)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Way = fn(&[RegionCall], u64) -> Vec<RegionCall>;

    #[test]
    fn ways_differ_where_one_region_wants_all_and_where_all_do() {
        let one: Vec<RegionCall> = (0..50).map(|call| (call * 10, 1)).collect();
        let all: Vec<RegionCall> = (0..300).map(|call| (call * 10, (call % 6) as usize)).collect();
        let ways: [(Way, usize, usize); 4] = [
            (static_shares, 2, 12),
            (regional_limits, 12, 72),
            (|calls, quota| central_store(calls, quota, 40), 12, 12),
            // The central store has given all its units away before the last regions have their own.
            (|calls, quota| free_zone(calls, quota, 2), 12, 12),
        ];
        for (place, (way, of_one, of_all)) in ways.into_iter().enumerate() {
            assert_eq!((way(&one, 12).len(), way(&all, 12).len()), (of_one, of_all), "{place}");
        }
        let later: Vec<RegionCall> = one.iter().copied().chain((600..606).map(|at_ms| (at_ms, 2))).collect();
        assert_eq!(free_zone(&later, 12, 2).len(), 14, "a region that comes later has its minimum beyond the quota");
    }
}
