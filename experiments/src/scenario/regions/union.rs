//! Calls and admissions of all regions together, in true time: the exact global limiter, and the fullest window.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;

use crate::scenario::arrivals::MINUTE_MS;

/// Time in ms and region of a call or an admission.
pub(super) type RegionCall = (u64, usize);

/// Greatest difference of two clocks over a window, in millionths.
const DRIFT_PPM: u64 = 400;

/// Returns an exact list of the last minute.
pub(super) fn exact_list(quota: u64) -> Oracle {
    Oracle::new(Quota::new(quota.max(1), MINUTE_MS).expect("a quota in range"))
}

/// Admits a call if fewer than this many units are in the last minute.
pub(super) fn admit_below(list: &mut Oracle, at_ms: u64, units: u64) -> bool {
    let at = Timestamp::from_ms(at_ms);
    list.move_to(at);
    let has_room = list.units() < units;
    if has_room {
        list.admit(at, 1);
    }
    has_room
}

/// Returns the admissions of one exact limiter for all regions.
pub(super) fn admitted_exactly(calls: &[RegionCall], quota: u64) -> Vec<RegionCall> {
    let mut list = exact_list(quota);
    calls.iter().copied().filter(|(at_ms, _)| admit_below(&mut list, *at_ms, quota)).collect()
}

/// Returns the units of the fullest minute. The minute is shorter by the drift that a pair of clocks may have.
pub(super) fn fullest_minute(admitted: &[RegionCall]) -> u64 {
    let width_ms = MINUTE_MS - MINUTE_MS * DRIFT_PPM / 1_000_000;
    let mut oldest = 0;
    let mut fullest = 0;
    for (newest, (at_ms, _)) in admitted.iter().enumerate() {
        while admitted[oldest].0 + width_ms <= *at_ms {
            oldest += 1;
        }
        fullest = fullest.max(newest + 1 - oldest);
    }
    fullest as u64
}

/// Returns the number of calls or admissions in a time, by those of some regions.
pub(super) fn number_in(of: &[RegionCall], (from_ms, until_ms): (u64, u64)) -> u64 {
    of.iter().filter(|(at_ms, _)| (from_ms..until_ms).contains(at_ms)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_limiter_fills_each_minute_and_no_more() {
        let calls: Vec<RegionCall> = (0..600).map(|call| (call * 500, 0)).collect();
        let admitted = admitted_exactly(&calls, 10);
        assert_eq!((admitted.len(), fullest_minute(&admitted)), (50, 10));
        assert_eq!(fullest_minute(&calls), 120);
        assert_eq!(number_in(&calls, (1_000, 2_000)), 2);
        assert_eq!(fullest_minute(&[]), 0);
    }
}
