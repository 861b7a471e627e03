//! Tests of one stored counter.

use super::*;
use crate::counter::CounterId;
use crate::window::Window;

#[test]
fn backfilled_units_are_as_old_on_a_counter_that_stands_still_as_by_the_clock() {
    // The time of the units, that of the clock and that of the counter; the time at which they count.
    let cases = [
        (900, 1_000, 1_000, 900),
        (1_100, 1_000, 1_000, 1_000),
        (900, 1_000, 1_700, 1_600),
        // From before the step.
        (1_500, 1_000, 1_700, 1_500),
        (1_800, 1_000, 1_700, 1_700),
    ];
    for (at, now, last, expected) in cases {
        let [at, now, last, expected] = [at, now, last, expected].map(Timestamp::from_ms);
        assert_eq!(backfilled_at(at, now, last), expected, "{at:?} {now:?} {last:?}");
    }
}

/// J2: a charge with a budget brings the quota in force, and an older generation of its rules changes nothing else.
#[test]
fn the_quota_of_a_budget_holds_whatever_the_generation() {
    let window = Window::new(60_000, 12).unwrap();
    let limit = Limit { algorithm: Algorithm::SlidingWindow(Estimate::Conservative), units: 9, window, burst: 0 };
    let newer = Charge::enforce(CounterId::from_u128(1), limit, 2, 1, Timestamp::from_ms(u64::MAX));
    let older_limit = Limit { units: 5, window: Window::new(30_000, 6).unwrap(), ..limit };
    let older = Charge { limit: older_limit, generation: 1, ..newer.clone() };
    let mut counter = StoredCounter::new(&newer);
    let mut limit_of = |charge: &Charge| {
        let units = counter.evaluate(charge, Timestamp::from_ms(1_000_000)).limit;
        assert_eq!((counter.limit().window, counter.generation()), (window, 2));
        units
    };
    assert_eq!((limit_of(&newer), limit_of(&older)), (9, 9));
    assert_eq!(limit_of(&Charge { budget: Some("rule".into()), ..older }), 5);
}

#[test]
fn a_window_that_has_passed_in_part_is_counted_whole() {
    let window = Window::new(60_000, 12).unwrap();
    for algorithm in [
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::SlidingLog,
    ] {
        let limit = Limit { algorithm, units: 9, window, burst: 0 };
        let charge = Charge::enforce(CounterId::from_u128(1), limit, 1, 7, Timestamp::from_ms(u64::MAX));
        let mut counter = StoredCounter::new(&charge);
        let now = Timestamp::from_ms(6_000_000);
        let mut result = counter.evaluate(&charge, now);
        counter.commit(&charge, &mut result, now);
        let used = [0, 59_999, 70_000].map(|ms| counter.used_at(now.plus_ms(ms)));
        assert_eq!(used, [7, 7, 0], "{algorithm:?}");
    }
}

/// B8: a settlement that is repeated for longer than its call may count in the bucket gives its units back once.
#[test]
fn a_refund_of_a_bucket_is_made_once() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (window, at) = (Window::new(1_000, 1).unwrap(), |ms| Timestamp::from_ms(1_000_000 + ms));
        let limit = Limit { algorithm, units: 10, window, burst: 1_000 };
        let call = Charge::enforce(CounterId::from_u128(1), limit, 1, 500, Timestamp::from_ms(u64::MAX));
        let id = Some(RequestId::from_u128(7));
        let refund = Charge { mode: ChargeMode::Refund { at: at(0), whole: None }, request: id, ..call.clone() };
        let mut counter = StoredCounter::new(&call);
        let mut step = |charge: &Charge, ms| {
            let mut result = counter.evaluate(charge, at(ms));
            counter.commit(charge, &mut result, at(ms));
            (result.repeated, result.verdict.remaining)
        };
        assert_eq!(step(&call, 0), (false, 500));
        assert_eq!(step(&call, 0), (false, 0));
        assert_eq!(step(&refund, 1_100), (false, 511));
        for seconds in 2..91 {
            let (repeated, remaining) = step(&refund, 1_100 * seconds);
            assert!(repeated && remaining == (500 + 11 * seconds).min(1_000), "{algorithm:?}: {remaining}");
        }
        // The id is forgotten, and nothing of the call is left.
        assert_eq!(step(&call, 200_000).1, 500);
        assert_eq!(step(&refund, 200_000), (false, 500), "{algorithm:?}");
    }
}

#[test]
fn a_counter_remembers_so_many_requests_and_drops_the_oldest() {
    let mut requests = ChargedRequests::default();
    for id in 0..30_000_u32 {
        let now = Timestamp::from_ms(u64::from(id) / 1_000);
        requests.insert(RequestId::from_u128(id.into()), now, 60_000, now);
        assert!(requests.charged_at.len() <= COUNTER_REQUESTS_MAX);
    }
    let knows = |id: u128| requests.charged_at.contains_key(&RequestId::from_u128(id));
    assert!((22_500..30_000).all(knows), "the newest are known");
    assert!(!knows(0), "the oldest is dropped");
}
