//! Backfills of an engine whose store was away.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, PrimaryIndex, StoreError, StoredCounter};
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::rules::{Rule, RuleSet};

use crate::counters::UNSYNCED_ENTRIES_OF_COUNTER_MAX;
use crate::engine::Engine;
use crate::engine_settings::EngineSettings;
use crate::store::outbox::{LostCounter, Offered, Turn};
use crate::store::{BACKFILL_CHARGES_MAX, UNSYNCED_COUNTERS_MAX};
use crate::{Operation, Output, Progress, StoreRequest};

const START: Timestamp = Timestamp::from_ms(1_000_000);
const HOUR_MS: u64 = 3_600_000;

/// An engine with slots per key, whose store is unavailable.
fn engine() -> Engine {
    let rule = Rule::per("slots", &["api_key"], "100/min".parse().expect("a quota"));
    let rule = rule.with(|policy| policy.algorithm = Algorithm::Concurrency);
    let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
    engine.lose_store();
    engine
}

/// Admits a call without the store.
fn admit(engine: &Engine, ms: u64, key: &str) -> DecidedCall {
    let call = Call::new().with("api_key", key);
    let Progress::Done(output) = engine.begin(START.plus_ms(ms), Operation::check(&call)) else {
        panic!("the store is unavailable");
    };
    let decision = output.into_decisions().pop().filter(|decision| decision.allowed).expect("an admission");
    DecidedCall::new(&engine.settings().digest_key, &call, &decision).expect("it is admitted")
}

fn release(engine: &Engine, key: &str, decided: &DecidedCall) -> Option<StoreRequest> {
    let call = Call::new().with("api_key", key);
    request(engine.begin(START, Operation::Release { call: &call, decided }))
}

/// capped: past the cap on counters with unsynced units, the units of the oldest counter are dropped and counted.
#[test]
fn past_the_cap_the_oldest_counter_is_forgotten_and_counted() {
    let engine = engine();
    for key in 0..UNSYNCED_COUNTERS_MAX + 2 {
        admit(&engine, 0, &key.to_string());
    }
    let metrics = engine.metrics();
    assert_eq!((metrics.unsynced_forgotten.get(), metrics.unsynced_units.get()), (2, UNSYNCED_COUNTERS_MAX as u64));
    assert_eq!(engine.held().unsynced_counters, UNSYNCED_COUNTERS_MAX);
}

fn backfill(engine: &Engine) -> Option<StoreRequest> {
    request(engine.begin(START, Operation::Backfill(PrimaryIndex::ONLY)))
}

/// Finishes a request whose charges the store makes, if it is there; else with the error.
fn finish(engine: &Engine, request: &mut StoreRequest, error: Option<StoreError>) -> Output {
    let charge = |charge: &Charge| StoredCounter::new(charge).evaluate(charge, START);
    let answer = error.map_or_else(|| Ok(request.charges().iter().map(charge).collect()), Err);
    engine.finish(START, request, answer)
}

fn request(progress: Progress) -> Option<StoreRequest> {
    if let Progress::NeedsStore(request) = progress { Some(request) } else { None }
}

/// C6: counters whose units were refunded do not hide those that still have some.
#[test]
fn a_counter_is_queued_once_and_passed_over_when_its_units_were_refunded() {
    let engine = engine();
    for ms in 0..200 {
        let key = (ms % 100).to_string();
        let decided = admit(&engine, ms, &key);
        assert!(release(&engine, &key, &decided).is_none(), "the store was never told");
    }
    assert_eq!(engine.held().unsynced_counters, 100);
    admit(&engine, 300, "real");
    assert_eq!(backfill(&engine).expect("one charge").charges().len(), 1);
    assert_eq!(engine.held().unsynced_counters, 0);
    admit(&engine, 400, "0");
    assert_eq!(engine.held().unsynced_counters, 1, "it had left the queue");
}

#[test]
fn a_counter_is_not_swept_while_it_is_queued_or_backfilled() {
    let engine = engine();
    let decided = admit(&engine, 0, "k");
    assert!(release(&engine, "k", &decided).is_none());
    let sweep = |ms| (0..64).for_each(|_| engine.keep_house(START.plus_ms(ms)));
    sweep(HOUR_MS);
    admit(&engine, HOUR_MS, "k");
    assert_eq!((engine.held().counters, engine.held().unsynced_counters), (1, 1));
    let mut sent = backfill(&engine).expect("a request");
    let _ = finish(&engine, &mut sent, None);
    sweep(2 * HOUR_MS);
    assert_eq!(engine.held().counters, 0, "nothing waits for it any more");
}

#[test]
fn units_admitted_during_a_backfill_that_the_store_cannot_charge_are_kept() {
    let engine = engine();
    admit(&engine, 0, "k");
    let mut first = backfill(&engine).expect("a request");
    let later = admit(&engine, 10, "k");
    let output = engine.finish(START, &mut first, Err(StoreError::Unreadable));
    assert!(matches!(output, Output::Backfilled(Ok(()))) && engine.has_unsynced());
    let mut second = backfill(&engine).expect("a request");
    let modes: Vec<_> = second.charges().iter().map(|charge| charge.mode).collect();
    assert_eq!(modes, [ChargeMode::Backfill { at: later.at() }]);
    let _ = finish(&engine, &mut second, None);
    assert!(!engine.has_unsynced());
}

/// A counter whose units were refunded meanwhile neither ends a round nor takes the turn of one that is sent alone.
#[test]
fn a_counter_with_nothing_left_does_not_end_a_round_of_counters_that_are_sent_alone() {
    let engine = engine();
    let [first, ..] = ["a", "b", "c"].map(|key| admit(&engine, 0, key));
    let mut all = backfill(&engine).expect("a request");
    assert_eq!(all.charges().len(), 3);
    let _ = engine.finish(START, &mut all, Err(StoreError::Contended));
    let released = release(&engine, "a", &first);
    assert!(released.is_some(), "its slot was sent, so the store must be told");
    let mut released = released.expect("a request");
    let _ = engine.finish(START, &mut released, Err(StoreError::Unreachable));
    let sent: Vec<_> = (0..2)
        .map(|_| {
            let mut request = backfill(&engine).expect("b and c wait");
            let len = request.charges().len();
            let _ = finish(&engine, &mut request, None);
            len
        })
        .collect();
    assert_eq!((sent, backfill(&engine).is_none()), (vec![1, 1], true));
}

/// Re-opening takes a maximum, which does not contain units that the store does not know yet.
#[test]
fn a_lost_counter_is_opened_after_its_unsynced_units() {
    let engine = engine();
    admit(&engine, 0, "k");
    let (outbox, mut waiting) = (engine.store.outbox(PrimaryIndex::ONLY), Vec::new());
    outbox.offer_unsynced(|counter| {
        waiting.push(counter);
        Offered::Full
    });
    let matched = waiting[0].matched.clone();
    outbox.put_back_unsynced(waiting, Turn::First);
    assert!(outbox.add_lost(LostCounter { matched, generation: 1, floor: (START, 3), second_pass_at: None }));
    let reopening = || request(engine.begin(START, Operation::Reopen(PrimaryIndex::ONLY)));
    assert!(reopening().is_none());
    let mut units = backfill(&engine).expect("a request");
    let _ = finish(&engine, &mut units, None);
    let opened = reopening().expect("a request");
    assert!(opened.charges().iter().all(|charge| matches!(charge.mode, ChargeMode::Reopen { .. })));
}

/// A counter that the store has no room for does not keep the others from being charged.
#[test]
fn what_a_full_store_refuses_waits_for_the_next_round() {
    let engine = engine();
    for key in ["a", "b", "c"] {
        admit(&engine, 0, key);
    }
    let mut seen = Vec::new();
    let mut answer = |answer: Option<StoreError>| {
        let mut request = backfill(&engine)?;
        seen.push(request.charges().len());
        assert!(matches!(finish(&engine, &mut request, answer), Output::Backfilled(Ok(()))), "the store answers");
        Some(())
    };
    let (charged, full) = (None, Some(StoreError::Full));
    let round: Vec<_> = [full, charged, full, charged, charged].map(&mut answer).into();
    assert_eq!(round, [Some(()), Some(()), Some(()), Some(()), None], "the round is over");
    assert!(engine.has_unsynced() && answer(charged).is_some() && !engine.has_unsynced());
    for key in ["d", "e"] {
        admit(&engine, 10, key);
    }
    answer(charged);
    assert_eq!(seen, [3, 1, 1, 1, 1, 2], "counters are sent alone until all of the request were");
}

/// A slot that is released during a backfill is not charged after the backfill has failed.
#[test]
fn a_release_during_a_backfill_that_fails_is_not_lost() {
    for error in [Some(StoreError::Unreachable), None] {
        let engine = engine();
        let decided = admit(&engine, 0, "k");
        let mut sent = backfill(&engine).expect("a request");
        let mut released = release(&engine, "k", &decided).expect("the store may be charged");
        let _ = finish(&engine, &mut released, error);
        let _ = engine.finish(START, &mut sent, Err(StoreError::Unreachable));
        assert!(!engine.has_unsynced() && backfill(&engine).is_none());
    }
}

/// An engine whose store is unavailable, with so many calls that have an id and were admitted on one counter.
fn engine_with_named_calls(calls: u64) -> Engine {
    let rule = Rule::per("key", &["api_key"], "1000000/min".parse().expect("a quota"));
    let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
    engine.note_store_time(START, START, START);
    engine.lose_store();
    for number in 0..calls {
        let call = Call::new().with("api_key", "k").identified(number.to_string());
        let Progress::Done(output) = engine.begin(START.plus_ms(number), Operation::check(&call)) else {
            panic!("the store is unavailable");
        };
        assert!(output.into_decisions().iter().all(|decision| decision.allowed));
    }
    engine
}

/// capped, I12: one counter with thousands of calls that have ids is sent in small requests. A request that missed its
/// deadline is repeated, and no unit is lost.
#[test]
fn a_request_has_few_charges_however_many_calls_have_an_id() {
    const CALLS: u64 = 6_000;
    let engine = engine_with_named_calls(CALLS);
    assert_eq!(engine.metrics().unsynced_units.get(), CALLS);
    let held = engine.held().unsynced_entries_most;
    assert!(held <= UNSYNCED_ENTRIES_OF_COUNTER_MAX, "{held} entries");
    let (mut units, mut requests, mut missed) = (0, 0, None);
    while let Some(mut request) = backfill(&engine) {
        let charges = request.charges().to_vec();
        assert!(charges.len() <= BACKFILL_CHARGES_MAX, "{} charges", charges.len());
        let before = missed.take();
        assert!(before.is_none_or(|before| before == charges), "it is repeated as it was");
        requests += 1;
        let error = (requests % 5 == 1).then_some(StoreError::TimedOut);
        if error.is_none() {
            units += charges.iter().map(|charge| charge.cost).sum::<u64>();
        } else {
            missed = Some(charges);
        }
        let _ = finish(&engine, &mut request, error);
    }
    assert_eq!((units, engine.metrics().backfilled_units.get()), (CALLS, CALLS));
    let requests_max = CALLS / BACKFILL_CHARGES_MAX as u64 * 5 / 4 + 2;
    assert!(!engine.has_unsynced() && requests <= requests_max, "{requests} requests");
}

/// C6: a refund that names its request is made once by the store, so it is repeated until the store answers; another
/// one might be made twice.
#[test]
fn only_a_refund_that_names_its_request_is_repeated_after_a_time_out() {
    for is_named in [true, false] {
        let engine = engine_with_named_calls(0);
        let call = Call::new().with("api_key", "k").costing(5);
        let Progress::Done(output) = engine.begin(START, Operation::check(&call)) else { panic!("no store") };
        let decision = output.into_decisions().pop().expect("a decision");
        let decided = DecidedCall::new(&engine.settings().digest_key, &call, &decision);
        let settle = Operation::Settle { call: &call, units: -3, decided: decided.as_ref() };
        assert!(request(engine.begin(START, settle)).is_none(), "the store was never told");
        let mut sent = backfill(&engine).expect("a request");
        if !is_named {
            sent.0.charges.iter_mut().for_each(|charge| {
                charge.request.take_if(|_| matches!(charge.mode, ChargeMode::Refund { .. }));
            });
        }
        let modes = |request: &StoreRequest| request.charges().iter().map(|charge| charge.mode).collect::<Vec<_>>();
        let (units, refund) =
            (ChargeMode::Backfill { at: decision.at }, ChargeMode::Refund { at: decision.at, whole: None });
        assert_eq!(modes(&sent), [units, refund]);
        let _ = engine.finish(START, &mut sent, Err(StoreError::TimedOut));
        let again = backfill(&engine).expect("a request");
        assert_eq!(modes(&again), if is_named { vec![units, refund] } else { vec![units] });
    }
}
