//! Values that the script cannot use: they are converted or re-based in the agent, while other agents charge them.

use conformance::HandClock;

use super::super::codec::StepAnswer;
use super::super::conversion;
use super::*;
use tollgate_redis::{ServerWay, Socket};

const NOW: u64 = 1_000_000_000_000;

/// A charge as given, but under a newer rule with another algorithm and quota.
fn newer(charge: &Charge, units: u64) -> Charge {
    let limit = Limit { algorithm: Algorithm::SlidingLog, units, ..charge.limit };
    Charge { limit, generation: charge.generation + 1, ..charge.clone() }
}

/// The usual way to the server.
fn way(socket: &Arc<Socket>) -> ServerWay<'_> {
    ServerWay { socket, is_passing: false }
}

/// A charge of one counter, evaluated up to the replacement that its value needs; the replacement is written after
/// `meanwhile`. Returns whether it was written.
fn replaced_after(store: &RedisStore, charge: &Charge, meanwhile: impl FnOnce()) -> bool {
    let steps = &store.gathered().steps;
    let socket = steps.connection.socket().expect("it is connected");
    let charges = std::slice::from_ref(charge);
    let keys = steps.keys(charges);
    let answer = on(steps.evaluate(&way(&socket), &keys, charges)).expect("Redis answers");
    let StepAnswer::Stale { now, value, .. } = answer else { panic!("the value must be replaced: {answer:?}") };
    let replacement = conversion::replacement(charge, &value, now).expect("it is readable");
    meanwhile();
    on(steps.replace(&way(&socket), &keys[0], &value, &replacement)).expect("Redis answers")
}

#[test]
fn a_unit_that_is_charged_during_a_conversion_is_not_lost() {
    let store = by_hand(HashSlots::Together, Arc::new(HandClock::at(NOW)));
    let old = ask(1, 10);
    let new = newer(&old, 5);
    assert!(take(&store, &old).expect("Redis answers")[0].charged);
    assert!(!replaced_after(&store, &new, || assert!(take(&store, &old).expect("Redis answers")[0].charged)));
    assert_eq!(left(&store, &new), 3, "both units are converted");
    assert!(take(&store, &old).expect("Redis answers")[0].charged, "an older agent charges by the newer rule");
    assert_eq!(left(&store, &new), 2);
}

#[test]
fn two_agents_that_convert_at_once_convert_once() {
    let store = by_hand(HashSlots::Together, Arc::new(HandClock::at(NOW)));
    let old = ask(1, 10);
    let new = newer(&old, 5);
    assert!(take(&store, &old).expect("Redis answers")[0].charged);
    assert!(!replaced_after(&store, &new, || assert!(take(&store, &new).expect("Redis answers")[0].charged)));
    assert_eq!(left(&store, &new), 3);
}

#[test]
fn a_counter_that_vanishes_during_a_conversion_starts_anew() {
    let store = by_hand(HashSlots::Together, Arc::new(HandClock::at(NOW)));
    let old = ask(1, 10);
    assert!(take(&store, &old).expect("Redis answers")[0].charged);
    assert!(!replaced_after(&store, &newer(&old, 5), || store.lose(old.counter)));
    assert_eq!(left(&store, &newer(&old, 5)), 5);
}

/// A9, A10: after a step of the clock each unit stays as long as it would have.
#[test]
fn two_agents_that_see_the_clock_step_back_re_base_once() {
    let clock = Arc::new(HandClock::at(NOW));
    let store = by_hand(HashSlots::Together, clock.clone());
    for (counter, (algorithm, percent)) in (0..).zip(conformance::KINDS) {
        clock.set(NOW);
        let window = Window::new(60_000, if algorithm == Algorithm::FixedWindow { 1 } else { 12 }).expect("a window");
        let limit = Limit { algorithm, units: 10, window, burst: percent.min(1) * 10 };
        let one = Charge { limit, ..ask(counter, 10) };
        assert!(take(&store, &Charge { cost: 4, ..one.clone() }).expect("Redis answers")[0].charged);
        clock.set(NOW - 100_000);
        let other = || {
            let other = take(&store, &one).expect("Redis answers")[0];
            assert_eq!((other.charged, other.at), (true, Timestamp::from_ms(NOW - 100_000)));
        };
        assert!(!replaced_after(&store, &one, other), "{algorithm:?}");
        let again = take(&store, &one).expect("Redis answers")[0];
        assert_eq!(again.verdict.remaining, 4, "{algorithm:?}");
    }
}

/// A value that never fits is given up, and nothing is charged: here a call contradicts itself.
#[test]
fn a_step_gives_up_and_has_charged_nothing() {
    let store = by_hand(HashSlots::Together, Arc::new(HandClock::at(NOW)));
    let old = ask(1, 10);
    assert!(take(&store, &old).expect("Redis answers")[0].charged);
    let new = newer(&old, 10);
    let other = Charge { limit: Limit { algorithm: Algorithm::FixedWindow, ..new.limit }, ..new.clone() };
    assert_eq!(on(store.charge(&[new.clone(), other])), Err(StoreError::Contended));
    assert_eq!(left(&store, &new), 9);
}

/// Agents follow a new rule one after the other; units are neither lost nor admitted twice.
#[test]
fn a_fleet_that_changes_its_rules_under_load_keeps_the_quota() {
    for slots in [HashSlots::Together, HashSlots::Multi] {
        let prefix = own_prefix();
        let settings = RedisSettings::new(&SHARED.url()).prefixed(prefix).with_slots(slots);
        let agents: Vec<_> = (0..4)
            .map(|_| Arc::new(RedisStore::new(&settings, Arc::new(SystemClock::start())).expect("an address")))
            .collect();
        let old = ask_within(1, 1_000, 20 * 24 * 3_600_000);
        let tasks: Vec<_> = (0..)
            .zip(&agents)
            .map(|(number, agent)| {
                wait_for_answer(agent);
                let (agent, old) = (agent.clone(), old.clone());
                RUNTIME.spawn(async move {
                    let (mut admitted, mut gave_up) = (0, 0);
                    for call in 0..500 {
                        let charge = if call < 100 * number { old.clone() } else { newer(&old, 1_000) };
                        match agent.charge(&[charge]).await {
                            Ok(results) => admitted += u64::from(results[0].charged),
                            Err(StoreError::Contended) => gave_up += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (admitted, gave_up)
                })
            })
            .collect();
        let (mut admitted, mut gave_up) = (0, 0);
        for task in tasks {
            let done = on(task).expect("a task ends");
            (admitted, gave_up) = (admitted + done.0, gave_up + done.1);
        }
        assert_eq!(admitted, 1_000, "{slots:?}, {gave_up} gave up");
        assert!(gave_up < 100, "{slots:?}: {gave_up} gave up");
        assert_eq!(left(&agents[0], &newer(&old, 1_000)), 0, "{slots:?}");
    }
}

/// Two policies of a rule may alternate on a counter: a step follows each of them without a replacement.
#[test]
fn policies_that_alternate_on_a_counter_take_one_round_trip_a_call() {
    let store = by_hand(HashSlots::Together, Arc::new(HandClock::at(NOW)));
    let socket = store.gathered().steps.connection.socket().expect("it is connected");
    for (counter, (algorithm, percent)) in (0..).zip(conformance::KINDS) {
        let window = Window::new(60_000, if algorithm == Algorithm::FixedWindow { 1 } else { 12 }).expect("a window");
        let tier = |units| {
            let limit = Limit { algorithm, units, window, burst: units * percent.min(1) };
            [Charge { limit, ..ask(counter, units) }]
        };
        for units in [10, 20, 10, 20] {
            let keys = store.gathered().steps.keys(&tier(units));
            let answer = on(store.gathered().steps.evaluate(&way(&socket), &keys, &tier(units)));
            assert!(matches!(answer, Ok(StepAnswer::Evaluated(_))), "{algorithm:?} {units}: {answer:?}");
        }
        assert_eq!(left(&store, &tier(10)[0]), 6, "{algorithm:?}");
    }
}

#[test]
fn a_fleet_with_two_policies_on_one_bucket_is_never_contended() {
    let (store, bucket) = (Arc::new(shared(&own_prefix())), ask_within(1, 100, 20 * 24 * 3_600_000));
    let agents: Vec<_> = (0..4)
        .map(|number| {
            let burst = 100 + number % 2 * 50;
            let limit = Limit { algorithm: Algorithm::TokenBucket, burst, ..bucket.limit };
            let (store, charge) = (store.clone(), Charge { limit, ..bucket.clone() });
            RUNTIME.spawn(async move {
                for _ in 0..200 {
                    store.charge(std::slice::from_ref(&charge)).await.expect("it is not contended");
                }
            })
        })
        .collect();
    for agent in agents {
        on(agent).expect("a task ends");
    }
}
