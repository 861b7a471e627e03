//! The probes of a store that is away or late, and the backfill.

use tollgate_core::call::Call;
use tollgate_core::counter::ChargeResults;

use super::*;
use crate::store_request::StoreRequest;

#[test]
fn a_silent_store_is_probed_until_it_answers() {
    let mut fixture = Fixture::reached(ALONE);
    for turn in 0..5 {
        let ms = 10_000 + turn * 60;
        fixture.tick(ms);
        assert_eq!(fixture.waiting(), ["ping"]);
        fixture.requests.clear();
        fixture.poll(ms + 50, pinged(Err(StoreError::TimedOut)));
        if turn < 4 {
            assert_eq!(fixture.waiting(), ["ping"], "at once, because calls may be denied meanwhile");
        }
    }
    assert!(fixture.engine.is_degraded(), "pings count as misses");
    assert_eq!((fixture.waiting(), fixture.wake_ms(10_290)), (vec![], 10_300));
    assert_eq!(fixture.notices, [Notice::StoreUnavailable(StoreError::TimedOut)]);
    fixture.tick(10_300);
    fixture.answer_all(10_301);
    assert!(!fixture.engine.is_degraded());
    assert_eq!(fixture.notices[1..], [Notice::StoreRecovered]);
}

/// Calls wait for the first connection, each until its own deadline, so the breaker stays closed while it may be in progress. A
/// store that never answers opens it, and an error after which none can answer opens it at once.
#[test]
fn pings_that_are_not_answered_while_the_first_connection_is_made_open_no_breaker() {
    let opened_ms = |error| {
        let mut fixture = Fixture::new(ALONE);
        let mut turns = (0..40).map(|turn| turn * 60);
        turns.find(|ms| {
            fixture.tick(*ms);
            assert_eq!(fixture.waiting(), ["ping"]);
            fixture.requests.clear();
            fixture.poll(ms + 50, pinged(Err(error)));
            fixture.engine.is_degraded()
        })
    };
    assert_eq!(opened_ms(StoreError::Unreachable), Some(0));
    let silent = opened_ms(StoreError::TimedOut).expect("it opens");
    assert!((1_000..=1_500).contains(&silent), "{silent} ms");
}

/// C6: the store receives what passed without it before calls ask it again.
#[test]
fn unsynced_units_are_backfilled_before_the_breaker_closes() {
    let mut fixture = Fixture::reached(ON_REDIS);
    fixture.engine.unanswered(StoreError::Unreachable);
    for key in 0..100 {
        fixture.admit_without_store(10, &key.to_string());
    }
    fixture.tick(20);
    assert_eq!(fixture.waiting(), ["ping"]);
    let mut backfills = 0;
    fixture.requests.clear();
    fixture.poll(21, pinged(Ok(START.plus_ms(21))));
    while let Some(MaintenanceRequest::Backfill(request)) = fixture.requests.pop() {
        assert!(fixture.engine.is_degraded(), "no call uses the store yet");
        backfills += 1;
        fixture.poll(22, MaintenanceInput::Backfilled(request, Ok(ChargeResults::new())));
    }
    assert_eq!(backfills, 2, "a hundred counters in steps of 64");
    assert!(!fixture.engine.is_degraded() && !fixture.engine.has_unsynced());
}

#[test]
fn a_backfill_that_fails_ends_the_probe_and_the_units_stay_unsynced() {
    let mut fixture = Fixture::reached(ALONE);
    fixture.engine.unanswered(StoreError::Unreachable);
    fixture.admit_without_store(10, "k");
    fixture.tick(20);
    fixture.requests.clear();
    fixture.poll(21, pinged(Ok(START.plus_ms(21))));
    let Some(MaintenanceRequest::Backfill(request)) = fixture.requests.pop() else { panic!("a backfill") };
    fixture.poll(22, MaintenanceInput::Backfilled(request, Err(StoreError::Unreachable)));
    assert!(fixture.engine.is_degraded() && fixture.engine.has_unsynced());
    assert_eq!(fixture.wake_ms(22), 32, "the next probe");
    fixture.tick(32);
    fixture.answer_all(33);
    assert!(!fixture.engine.is_degraded() && !fixture.engine.has_unsynced());
}

#[test]
fn a_store_that_answers_pings_and_no_calls_is_probed_less_often() {
    let mut fixture = Fixture::reached(ALONE);
    let mut pings = 0;
    for ms in 1..20_000 {
        if !fixture.engine.is_degraded() {
            fixture.engine.unanswered(StoreError::Unreachable);
        }
        fixture.tick(ms);
        pings += fixture.waiting().len();
        fixture.answer_all(ms);
    }
    assert!((40..50).contains(&pings), "{pings} in twenty seconds");
}

#[test]
fn an_announcement_that_fails_leads_to_a_probe() {
    let mut fixture = Fixture::reached(ON_REDIS);
    fixture.tick(1_000);
    assert_eq!(fixture.waiting(), ["announce"]);
    fixture.requests.clear();
    fixture.poll(1_050, MaintenanceInput::Announced(Err(StoreError::TimedOut)));
    assert_eq!(fixture.waiting(), ["ping"]);
}

/// A store that answers later than calls wait is told of the units that passed without it, and ends no outage.
#[test]
fn a_ping_that_comes_too_late_for_calls_ends_no_outage() {
    let mut fixture = Fixture::reached(ALONE);
    let call = Call::new().with("api_key", "k");
    let mut requests: Vec<StoreRequest> = (0..5)
        .map(|_| match fixture.engine.begin(START, Operation::check(&call)) {
            Progress::NeedsStore(request) => request,
            Progress::Done(_) => panic!("the store is asked"),
        })
        .collect();
    let deadlines = |fixture: &Fixture| match &fixture.requests[..] {
        [MaintenanceRequest::Ping { in_time, deadline }] => (in_time.as_millis(), deadline.as_millis()),
        waiting => panic!("{waiting:?}"),
    };
    for (missed, request) in requests.iter_mut().enumerate() {
        let _ = fixture.engine.finish(START.plus_ms(15), request, Err(StoreError::TimedOut));
        fixture.tick(16);
        if missed == 0 {
            assert_eq!(deadlines(&fixture), (15, 15), "a miss calls for a ping, whose miss counts like that of a call");
        }
    }
    assert!(fixture.engine.is_degraded());
    fixture.requests.clear();
    fixture.poll(31, pinged(Err(StoreError::TimedOut)));
    fixture.admit_without_store(40, "k");
    for ms in [41, 80] {
        fixture.tick(ms);
        assert_eq!(deadlines(&fixture), (15, 50));
        fixture.requests.clear();
        fixture.poll(ms + 20, MaintenanceInput::Pinged { answer: Ok(START.plus_ms(ms)), is_late: true });
        fixture.answer_all(ms + 21);
        assert!(fixture.engine.is_degraded() && !fixture.engine.has_unsynced(), "{ms}");
    }
    fixture.tick(120);
    fixture.answer_all(121);
    assert!(!fixture.engine.is_degraded());
}
