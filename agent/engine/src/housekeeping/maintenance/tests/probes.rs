//! The probes of a store that is away or late, and the backfill.

use std::time::Duration;

use tollgate_core::call::Call;
use tollgate_core::counter::CLUSTER_SLOTS;

use super::*;
use crate::engine_settings::StoreShape;

#[test]
fn a_silent_store_is_probed_until_it_answers() {
    let mut fixture = Fixture::reached(ALONE);
    for turn in 0..4 {
        let ms = 10_000 + turn * 60;
        fixture.tick(ms);
        assert_eq!(fixture.waiting(), ["ping"]);
        fixture.requests.clear();
        fixture.poll(ms + 50, pinged(Err(StoreError::TimedOut)));
        if turn < 3 {
            assert_eq!(fixture.waiting(), ["ping"], "at once, because calls may be denied meanwhile");
        }
    }
    assert!(fixture.engine.is_degraded(), "pings count as misses");
    assert_eq!((fixture.waiting(), fixture.wake_ms(10_230)), (vec![], 10_240));
    assert_eq!(fixture.notices, [Notice::StoreUnavailable(StoreError::TimedOut)]);
    fixture.tick(10_240);
    fixture.answer_all(10_241);
    assert!(!fixture.engine.is_degraded());
    assert_eq!(fixture.notices[1..], [Notice::StoreRecovered]);
}

/// Calls wait for the first connection, each until its own deadline, so the breaker stays closed while it may be in
/// progress. A store that never answers opens it, and an error after which none can answer opens it at once.
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
    fixture.engine.lose_store();
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
        let confirmed = confirmed(&request, 22);
        fixture.poll(22, MaintenanceInput::Backfilled(request, confirmed));
    }
    assert_eq!(backfills, 4, "a hundred counters in steps of 32");
    assert!(!fixture.engine.is_degraded() && !fixture.engine.store.has_unsynced());
}

/// Calls at full load make units without the store as fast as the backfill removes them.
#[test]
fn calls_that_go_on_without_the_store_keep_the_breaker_open_for_a_second_only() {
    let mut fixture = Fixture::reached(ALONE);
    fixture.engine.lose_store();
    fixture.admit_without_store(10, "0");
    fixture.tick(20);
    fixture.requests.clear();
    let mut now_ms = 21;
    fixture.poll(now_ms, pinged(Ok(START.plus_ms(now_ms))));
    while let Some(MaintenanceRequest::Backfill(request)) = fixture.requests.pop() {
        assert!(fixture.engine.is_degraded() && now_ms < 2_000);
        fixture.admit_without_store(now_ms, &now_ms.to_string());
        now_ms += 10;
        let confirmed = confirmed(&request, now_ms);
        fixture.poll(now_ms, MaintenanceInput::Backfilled(request, confirmed));
    }
    assert_eq!(now_ms, 1_021);
    assert!(!fixture.engine.is_degraded() && fixture.engine.store.has_unsynced(), "the rest is sent by the next probe");
    fixture.tick(1_200);
    fixture.answer_all(1_201);
    assert!(!fixture.engine.store.has_unsynced());
}

#[test]
fn a_backfill_that_fails_ends_the_probe_and_the_units_stay_unsynced() {
    let mut fixture = Fixture::reached(ALONE);
    fixture.engine.lose_store();
    fixture.admit_without_store(10, "k");
    fixture.tick(20);
    fixture.requests.clear();
    fixture.poll(21, pinged(Ok(START.plus_ms(21))));
    let Some(MaintenanceRequest::Backfill(request)) = fixture.requests.pop() else { panic!("a backfill") };
    fixture
        .poll(22, MaintenanceInput::Backfilled(request, StepAnswers::from_iter([Some(Err(StoreError::Unreachable))])));
    assert!(fixture.engine.is_degraded() && fixture.engine.store.has_unsynced());
    assert_eq!(fixture.wake_ms(22), 32, "the next probe");
    fixture.tick(32);
    fixture.answer_all(33);
    assert!(!fixture.engine.is_degraded() && !fixture.engine.store.has_unsynced());
}

#[test]
fn a_store_that_answers_pings_and_no_calls_is_probed_less_often() {
    let mut fixture = Fixture::reached(ALONE);
    let mut pings = 0;
    for ms in 1..20_000 {
        if !fixture.engine.is_degraded() {
            fixture.engine.lose_store();
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

/// An announcement that a lost primary cannot take is made again at the usual time, while others answer. Without a pause, announcements
/// that fail at once would take the whole processor, and no connection could be made any more.
#[test]
fn an_announcement_that_fails_at_one_of_several_primaries_is_repeated_after_a_second() {
    let settings = EngineSettings { store: StoreShape::Primaries, ..EngineSettings::new("a", START) };
    let mut fixture = Fixture::of(settings, ON_REDIS);
    let primary = |slot: u16| PrimaryIndex::new(usize::from(slot % 2));
    fixture.engine.follow_slots(&(0..CLUSTER_SLOTS).map(primary).collect::<Vec<_>>());
    fixture.tick(0);
    fixture.answer_all(0);
    fixture.tick(1_000);
    assert_eq!(fixture.waiting(), ["announce"]);
    fixture.requests.clear();
    fixture.poll(1_001, MaintenanceInput::Announced(Err(StoreError::Unreachable)));
    for ms in [1_002, 1_050, 1_999] {
        fixture.tick(ms);
        assert!(!fixture.waiting().contains(&"announce"), "at {ms}: {:?}", fixture.waiting());
    }
    fixture.tick(2_000);
    assert!(fixture.waiting().contains(&"announce"), "{:?}", fixture.waiting());
}

/// A store that answers later than calls wait is told of the units that passed without it, and ends no outage.
#[test]
fn a_ping_that_comes_too_late_for_calls_ends_no_outage() {
    let mut fixture = Fixture::reached(ALONE);
    let call = Call::new().with("api_key", "k");
    let deadlines = |fixture: &Fixture| match &fixture.requests[..] {
        [MaintenanceRequest::Ping { in_time, deadline, .. }] => (in_time.as_millis(), deadline.as_millis()),
        waiting => panic!("{waiting:?}"),
    };
    for missed in 0..4 {
        let Progress::NeedsStore(mut request) =
            fixture.engine.begin(START.plus_ms(missed * 15), Operation::check(&call))
        else {
            panic!("the store is asked")
        };
        let _ = fixture.engine.finish(START.plus_ms(missed * 15 + 15), &mut request, Err(StoreError::TimedOut));
        fixture.tick(missed * 15 + 15);
        if missed == 0 {
            assert_eq!(deadlines(&fixture), (15, 15), "a miss calls for a ping, whose miss counts like that of a call");
        }
    }
    assert!(fixture.engine.is_degraded());
    fixture.requests.clear();
    fixture.poll(91, pinged(Err(StoreError::TimedOut)));
    fixture.admit_without_store(100, "k");
    for ms in [101, 140] {
        fixture.tick(ms);
        assert_eq!(deadlines(&fixture), (15, 50));
        fixture.requests.clear();
        fixture.poll(
            ms + 20,
            MaintenanceInput::Pinged { primary: PrimaryIndex::ONLY, answer: Ok(START.plus_ms(ms)), is_late: true },
        );
        fixture.answer_all(ms + 21);
        assert!(fixture.engine.is_degraded() && !fixture.engine.store.has_unsynced(), "{ms}");
    }
    fixture.tick(180);
    fixture.answer_all(181);
    assert!(!fixture.engine.is_degraded());
}

/// A rule with a short deadline keeps no other rule from asking the store. New rules with a longer deadline ask it
/// again.
#[test]
fn a_store_that_is_too_late_for_one_rule_answers_the_others() {
    let rule = |name, per, deadline_ms| {
        let rule = Rule::per(name, &[per], "100/min".parse().expect("a quota")).strict();
        rule.with(|policy| policy.deadline = Duration::from_millis(deadline_ms))
    };
    let rules = |generation, quick_ms| RuleSet::new(generation, [rule("quick", "q", quick_ms), rule("slow", "s", 200)]);
    let mut fixture = Fixture::reached(ON_REDIS);
    fixture.engine.set_rules(START, rules(2, 5)).expect("newer rules");
    let begin = |fixture: &Fixture, ms, descriptor: &str| {
        let call = Call::new().with(descriptor, "k");
        fixture.engine.begin(START.plus_ms(ms), Operation::check(&call))
    };
    let asks = |fixture: &Fixture, ms, descriptor| matches!(begin(fixture, ms, descriptor), Progress::NeedsStore(_));
    for sent_ms in [100, 105, 110, 115] {
        let Progress::NeedsStore(mut request) = begin(&fixture, sent_ms, "q") else { panic!("the store is asked") };
        let _ = fixture.engine.finish(START.plus_ms(sent_ms + 5), &mut request, Err(StoreError::TimedOut));
    }
    assert!(!asks(&fixture, 126, "q") && asks(&fixture, 126, "s"));
    // Each ping takes 10 ms.
    for ms in [130, 2_000] {
        fixture.tick(ms);
        fixture.requests.retain(|request| !matches!(request, MaintenanceRequest::Ping { .. }));
        fixture.poll(
            ms + 10,
            MaintenanceInput::Pinged { primary: PrimaryIndex::ONLY, answer: Ok(START.plus_ms(ms)), is_late: true },
        );
        fixture.answer_all(ms + 11);
        assert!(!asks(&fixture, ms + 12, "q") && asks(&fixture, ms + 12, "s"), "{ms}");
    }
    fixture.tick(4_000);
    assert!(fixture.waiting().contains(&"announce"), "the agent's other requests reach the store");
    fixture.answer_all(4_001);
    fixture.engine.set_rules(START, rules(3, 200)).expect("newer rules");
    fixture.tick(6_000);
    let in_time = fixture.requests.iter().find_map(|request| match request {
        MaintenanceRequest::Ping { in_time, .. } => Some(*in_time),
        _ => None,
    });
    assert!(in_time.is_none_or(|in_time| in_time == UNATTENDED_DEADLINE));
    fixture.answer_all(6_010);
    assert!(asks(&fixture, 6_011, "q") && !fixture.engine.is_degraded());
}
