//! Refunds of charged units.

use super::*;

#[test]
fn refunded_units_are_free_again() {
    for algorithm in [WINDOWS[0], WINDOWS[2], Algorithm::FixedWindow, Algorithm::TokenBucket] {
        let limit = limit(algorithm, 10, 60_000, 12);
        let mut state = CounterState::new(&limit);
        assert!(state.step(&limit, at(600_000), 10).admitted);
        state.refund(at(600_000), 4);
        assert_eq!(state.step(&limit, at(600_500), 0).remaining, 4, "{algorithm:?}");
    }
}

/// B8: a bucket gives back no more of a call than may be left of it. It holds 1,000 units, of which 10 leave in a second.
#[test]
fn a_refund_of_a_bucket_gives_back_what_may_be_left() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let limit = Limit { burst: 1_000, ..limit(algorithm, 10, 1_000, 1) };
        assert_eq!(limit.lasts_ms(), 100_000);
        // Seconds from the call of 400 to its refund, units left before the refund and after it.
        let cases = [(0, 0, 400), (10, 0, 400), (60, 0, 400), (70, 0, 300), (99, 0, 10), (100, 0, 0), (1_000, 0, 0)];
        for (later_s, before, after) in cases {
            let mut state = CounterState::new(&limit);
            assert!(state.step(&limit, at(600_000), 400).admitted);
            let now = at(600_000 + later_s * 1_000);
            state.advance(&limit, now);
            let full = 1_000 - state.evaluate(&limit, now, 0).remaining;
            state.charge(now, 1_000 - full);
            assert_eq!(state.evaluate(&limit, now, 0).remaining, before, "full");
            state.refund(at(600_000), 400);
            assert_eq!(state.evaluate(&limit, now, 0).remaining, after, "{algorithm:?} {later_s} s later");
        }
        let mut state = CounterState::new(&limit);
        assert!(state.step(&limit, at(600_000), 1_000).admitted);
        state.refund(at(601_001), 1_000);
        assert_eq!(state.evaluate(&limit, at(600_000), 0).remaining, 0, "of a time that is not reached");
    }
}
