//! Judgement of answers by an exact list of each caller's admissions.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;

use super::plan::{CONSISTENCIES, QUOTA, WIDTH_MS};
use super::planned_arrivals::{PlannedArrivals, consistency_of};

#[derive(Clone, Copy, Debug)]
pub(super) struct AnsweredArrival {
    /// Time of the answer since the beginning, in ms.
    pub(super) answered_ms: u64,
    pub(super) caller: usize,
    pub(super) is_admitted: bool,
}

/// Numbers of the calls of one consistency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AccuracyTally {
    pub(super) calls: u64,
    pub(super) admitted: u64,
    /// Admissions with more than the quota in the true window.
    pub(super) over_admitted: u64,
    /// Denials with room in the true window.
    pub(super) under_admitted: u64,
    /// Units of the fullest true window of a caller.
    pub(super) worst_window: u64,
}

/// Judges the answers of all callers. Returns the numbers of each consistency.
pub(super) fn judged(
    calls: &PlannedArrivals,
    mut answers: Vec<AnsweredArrival>,
) -> [AccuracyTally; CONSISTENCIES.len()] {
    let quota = Quota::new(QUOTA, WIDTH_MS).expect("neither is zero");
    let mut lists = vec![Oracle::new(quota); calls.callers];
    let mut tallies = [AccuracyTally::default(); CONSISTENCIES.len()];
    answers.sort_by_key(|answer| answer.answered_ms);
    for AnsweredArrival { answered_ms, caller, is_admitted } in answers {
        // The oracle counts from any beginning; time 0 has no window before it.
        let (at, list) = (Timestamp::from_ms(WIDTH_MS + answered_ms), &mut lists[caller]);
        let has_room = list.has_room(at, 1);
        if is_admitted {
            list.admit(at, 1);
        }
        if answered_ms < calls.measured_from_ms {
            continue;
        }
        let tally = &mut tallies[consistency_of(caller)];
        tally.calls += 1;
        tally.admitted += u64::from(is_admitted);
        tally.over_admitted += u64::from(is_admitted && !has_room);
        tally.under_admitted += u64::from(!is_admitted && has_room);
        tally.worst_window = tally.worst_window.max(list.units());
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_in_the_order_of_their_instants() {
        let calls = PlannedArrivals { all: Vec::new(), callers: 1, measured_from_ms: 1, has_tenant: false };
        let answer = |answered_ms, is_admitted| AnsweredArrival { answered_ms, caller: 0, is_admitted };
        // 100 units are in the window of [0, 10 s); the answers at 5 s come last in the list.
        let mut answers: Vec<_> = (0..100).map(|_| answer(0, true)).collect();
        answers.extend([answer(10_000, false), answer(9_999, false), answer(5_000, true), answer(5_000, false)]);
        let [strict, ..] = judged(&calls, answers);
        let expected = AccuracyTally { calls: 4, admitted: 1, over_admitted: 1, under_admitted: 1, worst_window: 101 };
        assert_eq!(strict, expected);
    }
}
