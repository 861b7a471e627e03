//! Tests of settlements and releases: of the slots of calls that were denied, or that the store does not know.

use tollgate_core::algorithm::{Algorithm, Verdict};
use tollgate_core::counter::{ChargeResult, ChargeResults, PrimaryIndex};
use tollgate_core::decision::Decision;
use tollgate_core::rules::{OnFailure, Rule, RuleSet};

use super::*;
use crate::engine_settings::EngineSettings;
use crate::{Operation, Output, Progress, StoreRequest};

const START: Timestamp = Timestamp::from_ms(1_000_000);

fn slots(name: &'static str, units: u64) -> Rule {
    let rule = Rule::per(name, &["api_key"], format!("{units}/min").parse().expect("a quota"));
    rule.with(|policy| policy.algorithm = Algorithm::Concurrency)
}

fn call() -> Call<'static> {
    Call::new().with("api_key", "k")
}

fn begin(engine: &Engine, operation: Operation<'_, '_>) -> Result<Output, StoreRequest> {
    begin_at(engine, START, operation)
}

fn begin_at(engine: &Engine, now: Timestamp, operation: Operation<'_, '_>) -> Result<Output, StoreRequest> {
    match engine.begin(now, operation) {
        Progress::Done(output) | Progress::Deferred(output, _) => Ok(output),
        Progress::NeedsStore(request) => Err(request),
    }
}

fn sole(output: Output) -> Decision {
    output.into_decisions().pop().expect("a decision")
}

/// Answer of a store that charges a request at an instant.
fn answer(request: &StoreRequest, at: Timestamp, has_room: impl Fn(&Charge) -> bool) -> ChargeResults {
    let is_refused = request.charges().iter().any(|charge| charge.mode.is_enforced() && !has_room(charge));
    let result = |charge: &Charge| {
        let admitted = has_room(charge);
        let verdict = Verdict { admitted, remaining: 0, retry_at: at, reset_at: at, delay_ms: 0 };
        let charged = charge.mode.is_charged(!is_refused);
        ChargeResult {
            verdict,
            charged,
            repeated: false,
            leased: 0,
            at,
            limit: 2,
            limit_until: None,
            born: at,
            previous: at,
        }
    };
    request.charges().iter().map(result).collect()
}

/// C6: two calls on one counter at one instant. The store has charged one of them, and does not know the other.
#[test]
fn a_release_leaves_the_unsynced_slot_of_another_call_of_the_same_instant() {
    let mut seen = Vec::new();
    for (is_asked, ms) in [true, false].into_iter().flat_map(|is_asked| (0..5).map(move |ms| (is_asked, ms))) {
        let rule = slots("slots", 9).with(|policy| policy.on_failure = OnFailure::Open);
        let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
        let (call, later) = (call(), START.plus_ms(1));
        engine.note_store_time(later, later, later);
        let mut request = begin_at(&engine, later, Operation::check(&call)).expect_err("the store is asked");
        let answer = answer(&request, START.plus_ms(ms), |_| true);
        let charged = sole(engine.finish(later, &mut request, Ok(answer.clone())));
        engine.lose_store();
        // By the latest that the store's time may be.
        let unsynced = sole(begin(&engine, Operation::check(&call)).expect("the store is unavailable"));
        if unsynced.at != charged.at {
            continue;
        }
        seen.push(is_asked);
        let key = &engine.settings().digest_key;
        let decided = DecidedCall::new(key, &call, &charged).expect("it is admitted");
        let mut release = begin(&engine, Operation::Release { call: &call, decided: &decided })
            .expect_err("the store knows the slot");
        let answer = if is_asked { Ok([answer.clone(), answer].concat().into()) } else { Err(StoreError::Unreachable) };
        // The request carries the unsynced slot, and confirms it if it is answered.
        let _ = engine.finish(START, &mut release, answer);
        assert_eq!(engine.metrics().unsynced_units.get(), u64::from(!is_asked), "answered: {is_asked}");
        assert_eq!(engine.metrics().backfilled_units.get(), u64::from(is_asked), "answered: {is_asked}");
        let decided = DecidedCall::new(key, &call, &unsynced).expect("it is admitted");
        if let Err(mut request) = begin(&engine, Operation::Release { call: &call, decided: &decided }) {
            let _ = engine.finish(START, &mut request, Err(StoreError::Unreachable));
        }
        assert_eq!(engine.metrics().unsynced_units.get(), 0, "answered: {is_asked}");
    }
    assert!(seen.contains(&true) && seen.contains(&false), "calls of one instant: {seen:?}");
}

/// A rule in shadow is charged although another one denies the call, and nobody releases a denied call.
#[test]
fn a_denied_call_gives_the_slots_of_a_rule_in_shadow_back() {
    let rules = || {
        let shadow = slots("shadow", 2).in_shadow();
        RuleSet::new(1, [shadow, Rule::per("calls", &["api_key"], "1/min".parse().expect("a quota"))])
    };
    let mut settings = EngineSettings::new("a", START);
    let engine = Engine::new(settings.clone(), rules());
    let mut request = begin(&engine, Operation::check(&call())).expect_err("the store is asked");
    let denied = answer(&request, START, |charge| charge.limit.algorithm == Algorithm::Concurrency);
    assert_eq!(denied.iter().map(|result| result.charged).collect::<Vec<_>>(), [true, false]);
    let decision = sole(engine.finish(START, &mut request, Ok(denied)));
    assert!(!decision.allowed);
    let backfill = begin(&engine, Operation::Backfill(PrimaryIndex::ONLY)).expect_err("a refund");
    let sent: Vec<_> = backfill.charges().iter().map(|charge| (charge.limit.algorithm, charge.mode)).collect();
    assert_eq!(sent, [(Algorithm::Concurrency, ChargeMode::Refund { at: decision.at, whole: None })]);

    settings.owns_table = true;
    let engine = Engine::new(settings, rules());
    let admitted: Vec<_> =
        (0..5).map(|_| sole(begin(&engine, Operation::check(&call())).expect("its own table")).allowed).collect();
    assert_eq!(admitted, [true, false, false, false, false]);
    let denials: u64 = engine.metrics().rules().iter().map(|(_, counts)| counts.shadow_denials.get()).sum();
    assert_eq!(denials, 0, "only the admitted call holds one of two slots");
}

#[test]
fn a_rule_in_shadow_would_have_denied_a_call_once_however_often_it_is_corrected() {
    let start = Timestamp::from_ms(1_000_000);
    let rule = Rule::denying("closed", Vec::new()).in_shadow();
    let settings = EngineSettings { owns_table: true, ..EngineSettings::new("a", start) };
    let engine = Engine::new(settings, RuleSet::new(1, [rule]));
    let call = Call::new();
    let Progress::Done(output) = engine.begin(start, Operation::check(&call)) else { panic!("no store is asked") };
    let decision = output.into_decisions().pop().expect("a decision");
    let decided = DecidedCall::new(&engine.settings().digest_key, &call, &decision).expect("an admission");
    let _ = engine.begin(start, Operation::Settle { call: &call, units: 1, decided: None });
    let _ = engine.begin(start, Operation::Release { call: &call, decided: &decided });
    let counts = engine.metrics().rules();
    let denials: u64 = counts.iter().map(|(_, counts)| counts.shadow_denials.get()).sum();
    assert_eq!(denials, 1);
}

/// The store was late, so the call was denied; its late answer says that both rules were charged.
#[test]
fn a_call_that_was_denied_before_its_late_answer_gives_the_slots_of_a_rule_in_shadow_back() {
    let shadow = slots("shadow", 2).in_shadow();
    let calls = Rule::per("calls", &["api_key"], "1/min".parse().expect("a quota")).strict();
    let rules = [shadow, calls.with(|policy| policy.leases = false)];
    let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, rules));
    let mut request = begin(&engine, Operation::check(&call())).expect_err("the store is asked");
    assert!(!sole(engine.finish(START, &mut request, Err(StoreError::TimedOut))).allowed);
    let answer = answer(&request, START, |_| true);
    engine.late_answer(START, request, Ok(answer));
    let backfill = begin(&engine, Operation::Backfill(PrimaryIndex::ONLY)).expect_err("refunds");
    let refunded = |charge: &Charge| matches!(charge.mode, ChargeMode::Refund { .. });
    assert_eq!(backfill.charges().iter().map(refunded).collect::<Vec<_>>(), [true, true]);
}

/// One settlement without a decision may be of many calls, so all of a window together charge one quota; one with a decision is
/// made in full.
#[test]
fn settlements_without_a_decision_charge_one_quota_in_a_window() {
    let rule = Rule::per("tokens", &["api_key"], "10/min".parse().expect("a quota"));
    let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
    let call = call();
    let charged = |ms: u64, units: i64, decided: Option<&DecidedCall>| {
        let now = START.plus_ms(ms);
        engine.note_store_time(now, now, now);
        let asked = begin_at(&engine, now, Operation::Settle { call: &call, units, decided });
        let request = asked.err();
        request.map_or(0, |request| request.charges().iter().map(|charge| charge.cost).sum::<u64>())
    };
    assert_eq!((charged(0, 4, None), charged(10, 100, None), charged(59_999, 1, None)), (4, 6, 0));
    let mut request = begin_at(&engine, START, Operation::check(&call)).expect_err("the store is asked");
    let answered = answer(&request, START, |_| true);
    let decision = sole(engine.finish(START, &mut request, Ok(answered)));
    let decided = DecidedCall::new(&engine.settings().digest_key, &call, &decision).expect("it is admitted");
    assert_eq!(charged(59_999, 7, Some(&decided)), 7);
    assert_eq!(charged(60_000, 100, None), 10, "the next window");
}
