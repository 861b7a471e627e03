//! What the algorithms promise, and what a switch between them may cost.

use proptest::prelude::*;

use super::*;

const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::SlidingWindow(Estimate::Interpolated),
    Algorithm::SlidingWindow(Estimate::Conservative),
    Algorithm::SlidingLog,
];

fn limit(algorithm: Algorithm, units: u64, width_ms: u64, parts: u32) -> Limit {
    Limit { algorithm, units, window: Window::new(width_ms, parts).unwrap(), burst: 0 }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

/// A12: up to L within W whatever their timing inside it; the next one waits.
#[test]
fn a_whole_quota_passes_at_once_and_the_next_call_waits() {
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, 100, 60_000, 12);
        let mut state = State::new(&limit);
        assert!((0..100).all(|_| state.step(&limit, at(600_500), 1).admitted));
        let refused = state.step(&limit, at(600_500), 1);
        assert!(!refused.admitted && refused.remaining == 0 && refused.retry_at >= at(660_000));
    }
}

/// A14: cost 5 of 100 leaves 95; a cost above what is left is denied and takes nothing.
#[test]
fn a_cost_is_taken_whole_or_not_at_all() {
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, 100, 60_000, 12);
        let mut state = State::new(&limit);
        assert_eq!(state.step(&limit, at(1), 5).remaining, 95);
        let refused = state.step(&limit, at(2), 96);
        assert_eq!((refused.admitted, refused.remaining), (false, 95));
        assert_eq!(state.step(&limit, at(3), 95).remaining, 0);
        assert!(!state.step(&limit, at(60_000), 101).admitted, "more than the quota never passes");
    }
}

#[test]
fn a_switch_of_algorithm_in_mid_window_gives_no_second_quota() {
    for from in ALGORITHMS {
        for to in ALGORITHMS {
            let (old, new) = (limit(from, 10, 60_000, 12), limit(to, 10, 60_000, 6));
            let mut state = State::new(&old);
            assert!((0..10).all(|i| state.step(&old, at(600_000 + i), 1).admitted));
            assert!(!state.step(&new, at(630_000), 1).admitted, "{from:?} to {to:?}");
            assert!(!state.step(&new, at(659_999), 1).admitted, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn a_clock_that_steps_back_opens_nothing() {
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, 1, 10_000, 10);
        let mut state = State::new(&limit);
        assert!(state.step(&limit, at(100_000), 1).admitted);
        assert_eq!(state.advance(at(99_500)), Advanced { now: at(100_000), rebased: false });
        assert_eq!(state.advance(at(50_000)), Advanced { now: at(50_000), rebased: true });
        assert!(!state.step(&limit, at(50_000), 1).admitted);
        assert!(!state.step(&limit, at(59_999), 1).admitted, "the unit is as old as the clock's step left it");
        assert!(state.step(&limit, at(61_000), 1).admitted);
    }
}

#[test]
fn a_clock_that_steps_back_leaves_every_unit_as_old_as_it_was() {
    for algorithm in ALGORITHMS {
        let limit = limit(algorithm, 1, 10_000, 10);
        let mut state = State::new(&limit);
        assert!(state.step(&limit, at(100_000), 1).admitted);
        assert!(!state.step(&limit, at(106_000), 1).admitted, "six seconds old");
        assert!(state.advance(at(50_000)).rebased);
        assert!(!state.step(&limit, at(53_999), 1).admitted, "not yet ten");
        assert!(state.step(&limit, at(55_000), 1).admitted, "{algorithm:?}");
    }
}

proptest! {
    /// A1, A15, never-over: against a plain list of what was admitted. No true window over the quota (exact and
    /// conservative); a denial passes at `retry_at` and not a millisecond before.
    #[test]
    fn verdicts_hold_against_a_list_of_timestamps(
        which in 0_usize..3,
        units in 1_u64..8,
        steps in prop::collection::vec((0_u64..40, 1_u64..4), 1..120),
    ) {
        let algorithm = ALGORITHMS[which];
        let limit = limit(algorithm, units, 60, 6);
        let mut state = State::new(&limit);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let mut now = 1_000_000;
        for (wait_ms, cost) in steps {
            now += wait_ms;
            let in_window: u64 = admitted.iter().filter(|(t, _)| *t > now - 60).map(|(_, c)| c).sum();
            let before = state.clone();
            let verdict = state.step(&limit, at(now), cost);
            if algorithm == Algorithm::SlidingLog {
                prop_assert_eq!(verdict.admitted, in_window + cost <= units);
            }
            if verdict.admitted {
                admitted.push((now, cost));
                if algorithm != Algorithm::SlidingWindow(Estimate::Interpolated) {
                    prop_assert!(in_window + cost <= units);
                }
            } else if cost <= units {
                prop_assert!(before.judge(&limit, verdict.retry_at, cost).admitted);
                prop_assert!(!before.judge(&limit, verdict.retry_at.minus_ms(1), cost).admitted);
            }
            prop_assert!(!state.judge(&limit, verdict.reset_at.minus_ms(1), units).admitted || verdict.reset_at <= at(now));
            prop_assert!(state.judge(&limit, verdict.reset_at.max(at(now)), units).admitted);
        }
    }
}
