//! Guarantees of the algorithms, and of a change between two of them.

mod properties;
mod refunds;

use super::*;
use crate::clock::Timestamp;
use crate::window::{Estimate, Window};

/// Algorithms whose windows hold at most the quota, apart from the error of an estimate.
const WINDOWS: [Algorithm; 3] = [
    Algorithm::SlidingWindow(Estimate::Interpolated),
    Algorithm::SlidingWindow(Estimate::Conservative),
    Algorithm::SlidingLog,
];

fn limit(algorithm: Algorithm, units: u64, width_ms: u64, parts: u32) -> Limit {
    let parts = if algorithm == Algorithm::FixedWindow { 1 } else { parts };
    let burst = if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) { units } else { 0 };
    Limit { algorithm, units, window: Window::new(width_ms, parts).unwrap(), burst }
}

fn bursting(algorithm: Algorithm, units: u64, burst: u64) -> Limit {
    Limit { burst, ..limit(algorithm, units, 60_000, 12) }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

/// Returns the number of single units that are admitted at an instant.
fn pass_at(state: &mut CounterState, limit: &Limit, ms: u64) -> u64 {
    (0..10_000).take_while(|_| state.step(limit, at(ms), 1).admitted).count() as u64
}

/// A12: up to L units within W are admitted regardless of their timing; the next one is denied.
#[test]
fn a_whole_quota_is_admitted_at_once_and_the_next_call_is_denied() {
    for algorithm in WINDOWS {
        let limit = limit(algorithm, 100, 60_000, 12);
        let mut state = CounterState::new(&limit);
        assert!((0..100).all(|_| state.step(&limit, at(600_500), 1).admitted));
        let refused = state.step(&limit, at(600_500), 1);
        assert!(!refused.admitted && refused.remaining == 0 && refused.retry_at >= at(660_000));
    }
}

/// A14: cost 5 of 100 leaves 95; a cost above the remaining units is denied and charges nothing.
#[test]
fn a_cost_is_charged_completely_or_not_at_all() {
    for algorithm in WINDOWS {
        let limit = limit(algorithm, 100, 60_000, 12);
        let mut state = CounterState::new(&limit);
        assert_eq!(state.step(&limit, at(1), 5).remaining, 95);
        let refused = state.step(&limit, at(2), 96);
        assert_eq!((refused.admitted, refused.remaining), (false, 95));
        assert_eq!(state.step(&limit, at(3), 95).remaining, 0);
        assert!(!state.step(&limit, at(60_000), 101).admitted, "a cost above the quota is never admitted");
    }
}

#[test]
fn a_change_of_the_algorithm_within_a_window_gives_no_second_quota() {
    for from in WINDOWS {
        for to in WINDOWS {
            let (old, new) = (limit(from, 10, 60_000, 12), limit(to, 10, 60_000, 6));
            let mut state = CounterState::new(&old);
            assert!((0..10).all(|i| state.step(&old, at(600_000 + i), 1).admitted));
            assert!(!state.step(&new, at(630_000), 1).admitted, "{from:?} to {to:?}");
            assert!(!state.step(&new, at(659_999), 1).admitted, "{from:?} to {to:?}");
        }
    }
}

#[test]
fn a_clock_that_steps_back_frees_no_units() {
    for algorithm in WINDOWS {
        let limit = limit(algorithm, 1, 10_000, 10);
        let mut state = CounterState::new(&limit);
        assert!(state.step(&limit, at(100_000), 1).admitted);
        assert_eq!(state.advance(&limit, at(99_500)), at(100_000), "a small step is no step");
        assert_eq!(state.advance(&limit, at(50_000)), at(50_000));
        assert!(!state.step(&limit, at(50_000), 1).admitted);
        assert!(!state.step(&limit, at(59_999), 1).admitted, "the unit keeps its age");
        assert!(state.step(&limit, at(61_000), 1).admitted);
    }
}

#[test]
fn a_clock_that_steps_back_keeps_the_age_of_every_unit() {
    for algorithm in WINDOWS {
        let limit = limit(algorithm, 1, 10_000, 10);
        let mut state = CounterState::new(&limit);
        assert!(state.step(&limit, at(100_000), 1).admitted);
        assert!(!state.step(&limit, at(106_000), 1).admitted, "the unit is six seconds old");
        assert!(state.advance(&limit, at(50_000)) == at(50_000));
        assert!(!state.step(&limit, at(53_999), 1).admitted, "the unit is almost ten seconds old");
        assert!(state.step(&limit, at(56_000), 1).admitted, "{algorithm:?}: at most a sub-window later");
    }
}

/// A3: 100 units just before the edge and 100 just after it are all admitted.
#[test]
fn a_fixed_window_restarts_at_its_edge() {
    let limit = limit(Algorithm::FixedWindow, 100, 60_000, 1);
    let mut state = CounterState::new(&limit);
    assert_eq!(pass_at(&mut state, &limit, 7 * 60_000 - 1_000), 100);
    let refused = state.step(&limit, at(7 * 60_000 - 10), 1);
    assert_eq!((refused.retry_at, refused.reset_at), (at(7 * 60_000), at(7 * 60_000)));
    assert_eq!(pass_at(&mut state, &limit, 7 * 60_000), 100);
}

/// A4: an empty bucket has exactly 50 tokens after 30 s, and is full after a minute of idleness.
#[test]
fn a_token_bucket_fills_at_its_rate() {
    let limit = bursting(Algorithm::TokenBucket, 100, 100);
    let mut state = CounterState::new(&limit);
    assert_eq!(pass_at(&mut state, &limit, 600_000), 100);
    assert_eq!(pass_at(&mut state, &limit, 630_000), 50);
    assert_eq!(pass_at(&mut state, &limit, 630_599), 0, "half a token does not admit a call");
    assert_eq!(pass_at(&mut state, &limit, 630_600), 1);
    assert_eq!(pass_at(&mut state, &limit, 900_000), 100);
}

/// A5: 100 units are admitted at once, then 1.67/s.
#[test]
fn a_burst_is_admitted_at_once_and_then_the_rate() {
    let limit = bursting(Algorithm::TokenBucket, 100, 100);
    let mut state = CounterState::new(&limit);
    let passed = |state: &mut CounterState, from: u64, to: u64| {
        (from..to).map(|s| pass_at(state, &limit, s * 1_000)).sum::<u64>()
    };
    assert_eq!(passed(&mut state, 1_000, 1_001), 100);
    assert_eq!(passed(&mut state, 1_001, 1_061), 100, "a minute at the rate");
}

/// A7: after idleness at 1000/min with a burst of 1200, 1200 units are admitted, then 1000/min, and no window holds
/// more than 1200.
#[test]
fn the_burst_of_a_sliding_window_is_refilled_by_unused_quota() {
    // A conservative window admits one sub-window later, together with the unused units of that time.
    for (estimate, most) in [(Estimate::Interpolated, 1_020), (Estimate::Conservative, 1_084)] {
        let limit = bursting(Algorithm::SlidingWindow(estimate), 1_000, 1_200);
        let mut state = CounterState::new(&limit);
        assert_eq!(pass_at(&mut state, &limit, 6_000_000), 1_200);
        let mut passed = vec![(6_000_000, 1_200)];
        for second in 6_001..6_000 + 10 * 60 {
            passed.push((second * 1_000, pass_at(&mut state, &limit, second * 1_000)));
        }
        let within =
            |from: u64, to: u64| passed.iter().filter(|(t, _)| (from..to).contains(t)).map(|(_, n)| n).sum::<u64>();
        let minutes: Vec<u64> =
            (1..10).map(|minute| within(6_000_000 + minute * 60_000, 6_060_000 + minute * 60_000)).collect();
        assert!(minutes.iter().all(|units| *units <= most), "{minutes:?}");
        let all: u64 = minutes.iter().sum();
        assert!((8_900..=9_000 + most).contains(&all), "{all} in nine minutes, {minutes:?}");
    }
}

/// Regression: the refill of a reserve that takes years was simulated sub-window by sub-window at every denial.
#[test]
fn a_retry_time_years_ahead_is_computed_at_once() {
    let limit = bursting(Algorithm::SlidingWindow(Estimate::Interpolated), 1, 100_000_000);
    let mut state = CounterState::new(&limit);
    assert!(state.step(&limit, at(600_000), 100_000_000).admitted);
    let refused = state.step(&limit, at(700_000), 100_000_000);
    assert!(!refused.admitted && refused.retry_at >= at(700_000 + 99_999_998 * 60_000));
    assert!(has_room(&state, &limit, refused.retry_at, 100_000_000));
    assert!(!has_room(&state, &limit, refused.retry_at.minus_ms(1), 100_000_000));
}

/// A8: the verdict contains the delay; a full queue denies.
#[test]
fn a_leaky_bucket_delays_calls_to_its_rate() {
    let limit = Limit { burst: 5, ..limit(Algorithm::LeakyBucket, 10, 1_000, 10) };
    let mut state = CounterState::new(&limit);
    let delays: Vec<_> = (0..5).map(|_| state.step(&limit, at(50_000), 1)).map(|v| (v.admitted, v.delay_ms)).collect();
    assert_eq!(delays, [(true, 0), (true, 100), (true, 200), (true, 300), (true, 400)]);
    let refused = state.step(&limit, at(50_000), 1);
    assert_eq!((refused.admitted, refused.delay_ms, refused.retry_at), (false, 0, at(50_100)));
    let next = state.step(&limit, at(50_150), 1);
    assert_eq!((next.admitted, next.delay_ms), (true, 350));
    assert_eq!(state.step(&limit, at(60_000), 1).delay_ms, 0, "the queue is empty");
}

#[test]
fn a_slot_is_free_after_its_release_or_its_expiry() {
    let limit = limit(Algorithm::Concurrency, 2, 30_000, 10);
    let mut state = CounterState::new(&limit);
    assert!(state.step(&limit, at(100_000), 1).admitted && state.step(&limit, at(101_000), 1).admitted);
    assert!(!state.step(&limit, at(102_000), 1).admitted);
    state.refund(at(101_000), 1);
    state.refund(at(101_000), 1);
    assert!(state.step(&limit, at(103_000), 1).admitted, "the slot was released");
    assert!(!state.step(&limit, at(104_000), 1).admitted, "only one slot was released");
    assert_eq!(state.step(&limit, at(104_000), 1).retry_at, at(130_000));
    assert!(state.step(&limit, at(130_000), 1).admitted, "the slot of 100,000 has expired");
}

/// F9: after a raise from 100 to 500 with 20 tokens left, there are 20 tokens, and then 8.33/s.
#[test]
fn a_raised_bucket_keeps_its_tokens_and_has_the_new_rate_at_once() {
    let (old, new) = (bursting(Algorithm::TokenBucket, 100, 100), bursting(Algorithm::TokenBucket, 500, 500));
    let mut state = CounterState::new(&old);
    assert_eq!(state.step(&old, at(600_000), 80).remaining, 20);
    assert_eq!(state.step(&new, at(600_000), 0).remaining, 20);
    assert_eq!(state.step(&new, at(606_000), 0).remaining, 20 + 50);
}

/// F9: after a raise, a window keeps its count and admits more at once. F10: after a reduction from 1000 to 100 at 500
/// used units, nothing more is admitted.
#[test]
fn a_changed_window_keeps_its_count() {
    for algorithm in [WINDOWS[0], WINDOWS[1], WINDOWS[2], Algorithm::FixedWindow] {
        let of = |units| limit(algorithm, units, 60_000, 12);
        let mut state = CounterState::new(&of(1_000));
        assert!(state.step(&of(1_000), at(600_000), 500).admitted);
        assert_eq!(pass_at(&mut state, &of(100), 601_000), 0, "{algorithm:?}");
        assert_eq!(pass_at(&mut state, &of(600), 602_000), 100, "{algorithm:?}");
    }
}

/// F10: after a reduction, a bucket has no more tokens than its new capacity.
#[test]
fn a_reduced_bucket_has_no_more_than_its_new_capacity() {
    let (old, new) = (bursting(Algorithm::TokenBucket, 1_000, 1_000), bursting(Algorithm::TokenBucket, 100, 100));
    let mut state = CounterState::new(&old);
    state.step(&old, at(600_000), 500);
    assert_eq!(pass_at(&mut state, &new, 600_000), 100);
    assert_eq!(pass_at(&mut state, &new, 606_000), 10);
}

/// F13: after a change of the algorithm within a window, the spent units stay spent. A window admits no more than the
/// quota around the change, and a bucket no more than a bucket ever admits.
#[test]
fn a_change_of_the_algorithm_gives_no_second_quota() {
    let all = [
        WINDOWS[0],
        WINDOWS[1],
        WINDOWS[2],
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::Concurrency,
    ];
    for from in all {
        for to in all {
            let (old, new) = (limit(from, 10, 60_000, 12), limit(to, 10, 60_000, 12));
            let mut state = CounterState::new(&old);
            assert_eq!(pass_at(&mut state, &old, 610_000), 10);
            let early: u64 = (611..640).map(|s| pass_at(&mut state, &new, s * 1_000)).sum();
            let bucket = matches!(to, Algorithm::TokenBucket | Algorithm::LeakyBucket);
            assert!(early <= if bucket { 5 } else { 0 }, "{from:?} to {to:?}: {early}");
        }
    }
}

/// A11: the size of a counter does not depend on the load.
#[test]
fn counts_and_meters_have_a_constant_size() {
    assert!(size_of::<CounterState>() <= 160, "{} bytes", size_of::<CounterState>());
}

/// Returns true if the counter has room at a possibly future instant.
fn has_room(state: &CounterState, limit: &Limit, then: Timestamp, cost: u64) -> bool {
    let mut state = state.clone();
    let then = state.advance(limit, then);
    state.evaluate(limit, then, cost).admitted
}
