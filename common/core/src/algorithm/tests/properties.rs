//! Properties over random histories: windows within the stated error, and exact waiting times.

use proptest::prelude::*;

use super::*;

/// Returns the maximum units of any window (t-W, t] according to the stated error of each algorithm.
fn most(limit: &Limit) -> Option<u64> {
    match limit.algorithm {
        Algorithm::SlidingWindow(Estimate::Conservative) if limit.burst > 0 => Some(limit.burst),
        Algorithm::SlidingWindow(Estimate::Conservative) | Algorithm::SlidingLog | Algorithm::Concurrency => {
            Some(limit.units)
        }
        Algorithm::FixedWindow => Some(2 * limit.units),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => Some(limit.burst + limit.units),
        // The error depends on the content of the oldest sub-window; the replay experiment measures it.
        Algorithm::SlidingWindow(_) => None,
    }
}

proptest! {
    /// A1, A15, never-over: comparison with a list of all admissions. No true window exceeds the stated error; a denied
    /// charge is admitted at `retry_at` and not a millisecond earlier; the whole quota is free at `reset_at` and not
    /// earlier.
    #[test]
    fn verdicts_agree_with_a_list_of_timestamps(
        which in 0_usize..9,
        units in 1_u64..8,
        extra in 0_u64..4,
        steps in prop::collection::vec((0_u64..40, 1_u64..4), 1..120),
    ) {
        let (algorithm, burst) = [
            (WINDOWS[0], 0),
            (WINDOWS[1], 0),
            (WINDOWS[2], 0),
            (Algorithm::FixedWindow, 0),
            (Algorithm::Concurrency, 0),
            (Algorithm::TokenBucket, 1 + extra),
            (Algorithm::LeakyBucket, 1 + extra),
            (WINDOWS[0], units + extra),
            (WINDOWS[1], units + extra),
        ][which];
        let limit = Limit { burst, ..limit(algorithm, units, 60, 6) };
        let at_once = if burst > 0 { burst } else { units };
        let mut state = CounterState::new(&limit);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let mut now = 1_000_000;
        let mut last_turn = 0;
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
                if let Some(most) = most(&limit) {
                    prop_assert!(in_window + cost <= most, "{} in a window", in_window + cost);
                }
                if algorithm == Algorithm::LeakyBucket {
                    prop_assert!(now + verdict.delay_ms >= last_turn, "turns are in order");
                    last_turn = now + verdict.delay_ms;
                }
            } else if cost <= at_once {
                prop_assert!(has_room(&before, &limit, verdict.retry_at, cost));
                prop_assert!(verdict.retry_at <= at(now) || !has_room(&before, &limit, verdict.retry_at.minus_ms(1), cost));
            }
            let empty_again = verdict.reset_at.max(at(now));
            prop_assert!(has_room(&state, &limit, empty_again, at_once));
            if empty_again > at(now) {
                prop_assert!(!has_room(&state, &limit, empty_again.minus_ms(1), at_once));
            }
        }
    }

    /// F13, never-over: one change, within a random history, between two algorithms that never exceed their quota.
    #[test]
    fn no_window_exceeds_the_quota_across_a_change(
        from in 0_usize..4,
        to in 0_usize..2,
        units in 1_u64..8,
        steps in prop::collection::vec((0_u64..30, 1_u64..3), 10..120),
    ) {
        let from = [WINDOWS[1], WINDOWS[2], Algorithm::TokenBucket, Algorithm::FixedWindow][from];
        let (old, new) = (limit(from, units, 60, 6), limit([WINDOWS[1], WINDOWS[2]][to], units, 60, 4));
        let (mut state, mut now, half) = (CounterState::new(&old), 1_000_000, steps.len() / 2);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        for (step, (wait_ms, cost)) in steps.into_iter().enumerate() {
            now += wait_ms;
            let in_force = if step < half { &old } else { &new };
            if state.step(in_force, at(now), cost).admitted {
                admitted.push((now, cost));
                let in_window: u64 = admitted.iter().filter(|(t, _)| *t > now - 60).map(|(_, c)| c).sum();
                prop_assert!(step < half || in_window <= units, "{in_window} of {units} after {from:?}");
            }
        }
    }
}
