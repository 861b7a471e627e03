//! Late answers, by their outcomes.

use tollgate_core::algorithm::{Algorithm, Verdict};
use tollgate_core::call::Call;
use tollgate_core::counter::{ChargeResult, PrimaryIndex};
use tollgate_core::rules::{LimitPolicy, OnFailure, Rule, RuleSet};

use super::*;
use crate::engine_settings::{EngineSettings, StoreShape};
use crate::request::operation::{Operation, Output, Progress};

const START: Timestamp = Timestamp::from_ms(1_000_000);
const AT: Timestamp = Timestamp::from_ms(1_000_003);

/// An engine whose rule has no leases: what a late answer charges is refunded. A late call is denied if the rule is strict, and
/// admitted if it is open.
fn engine(is_strict: bool) -> Engine {
    let rule = Rule::per("per-key", &["api_key"], "100/min".parse().unwrap()).with(|policy| policy.leases = false);
    let rule = if is_strict { rule.strict() } else { rule.with(|policy| policy.on_failure = OnFailure::Open) };
    Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]))
}

fn request(engine: &Engine, call: &Call<'_>) -> StoreRequest {
    request_at(START, engine, call)
}

fn request_at(now: Timestamp, engine: &Engine, call: &Call<'_>) -> StoreRequest {
    match engine.begin(now, Operation::check(call)) {
        Progress::NeedsStore(request) => request,
        Progress::Done(output) | Progress::Deferred(output, _) => panic!("{output:?}"),
    }
}

/// An engine that knows the store's time, and its request about a call with this id.
fn in_flight(is_strict: bool, id: Option<&str>) -> (Engine, StoreRequest) {
    let engine = engine(is_strict);
    engine.note_store_time(START, START, START);
    let call = Call::new().with("api_key", "k");
    let call = if let Some(id) = id { call.identified(id.to_owned()) } else { call };
    let request = request(&engine, &call);
    (engine, request)
}

fn outcomes(engine: &Engine) -> Vec<(&'static str, u64)> {
    engine.metrics().late_answers().filter(|(_, count)| *count > 0).collect()
}

/// The answer of a store that charged all charges of a request, or none.
fn answer(request: &StoreRequest, charged: bool) -> ChargeResults {
    let verdict = Verdict { admitted: charged, remaining: 9, retry_at: AT, reset_at: AT, delay_ms: 0 };
    let result = ChargeResult {
        verdict,
        charged,
        repeated: false,
        leased: 0,
        at: AT,
        limit: 100,
        limit_until: None,
        born: AT,
        previous: AT,
    };
    request.charges().iter().map(|_| result).collect()
}

/// Modes of the charges that the maintenance sends, each with true if the charge has an id.
fn backfill(engine: &Engine) -> Vec<(ChargeMode, bool)> {
    match engine.begin(START, Operation::Backfill(PrimaryIndex::ONLY)) {
        Progress::NeedsStore(request) => {
            request.charges().iter().map(|charge| (charge.mode, charge.request.is_some())).collect()
        }
        Progress::Done(_) | Progress::Deferred(..) => Vec::new(),
    }
}

/// Late answer of a case: charged, not charged, or an error.
type CaseAnswer = Result<bool, StoreError>;
/// True if the rule is strict, false if it is open; the id of the call; the answer; the outcome; the charges that follow.
type LateCase = (bool, Option<&'static str>, CaseAnswer, LateOutcome, Vec<(ChargeMode, bool)>);

/// A request that missed its deadline: what its late answer means for a call that was admitted or denied meanwhile.
#[test]
fn a_late_answer_says_what_is_backfilled_or_refunded() {
    let answered_at = START.plus_ms(15);
    let owed = || vec![(ChargeMode::Backfill { at: Timestamp::default() }, true)];
    let refund = || vec![(ChargeMode::Refund { at: AT, whole: None }, false)];
    let cases: [LateCase; 9] = [
        (false, None, Ok(true), LateOutcome::Charged, vec![]),
        (false, None, Ok(false), LateOutcome::NotCharged, owed()),
        (false, None, Err(StoreError::Expired(AT)), LateOutcome::NotCharged, owed()),
        (false, None, Err(StoreError::AnswerLost), LateOutcome::Lost, owed()),
        (false, Some("id"), Err(StoreError::AnswerLost), LateOutcome::Lost, owed()),
        (true, None, Ok(true), LateOutcome::Refunded, refund()),
        (true, Some("id"), Ok(true), LateOutcome::Charged, vec![]),
        (true, None, Err(StoreError::Expired(AT)), LateOutcome::NotCharged, vec![]),
        (true, None, Err(StoreError::AnswerLost), LateOutcome::Lost, vec![]),
    ];
    for (is_strict, id, late, outcome, follows) in cases {
        let (engine, mut request) = in_flight(is_strict, id);
        let output = engine.finish(answered_at, &mut request, Err(StoreError::TimedOut));
        let decision = output.into_decisions().pop().unwrap();
        let case = format!("{is_strict} {id:?} {late:?}");
        assert_eq!((decision.allowed, decision.at), (!is_strict, START.minus_ms(2)), "{case}: of its sending");
        if is_strict {
            assert_eq!(decision.status.as_ref().unwrap().retry_after_ms, 75, "{case}: five deadlines");
        }
        let late = late.map(|charged| answer(&request, charged));
        engine.late_answer(answered_at, request, late);
        assert_eq!(outcomes(&engine), [(LateOutcome::NAMES[outcome as usize].1, 1)], "{case}");
        let units = follows.iter().filter(|(mode, _)| matches!(mode, ChargeMode::Backfill { .. })).count() as u64;
        assert_eq!(engine.metrics().unsynced_units.get(), units, "{case}");
        let at_decision = |(mode, has_id): (ChargeMode, bool)| match mode {
            ChargeMode::Backfill { .. } => (ChargeMode::Backfill { at: decision.at }, has_id),
            mode => (mode, has_id),
        };
        let follows: Vec<_> = follows.into_iter().map(at_decision).collect();
        assert_eq!(backfill(&engine), follows, "{case}");
    }
}

/// A caller that leaves has no decision: its late answer is that to a denied call.
#[test]
fn a_call_whose_caller_has_left_is_refunded() {
    let refund = || vec![(ChargeMode::Refund { at: AT, whole: None }, false)];
    let cases: [LateCase; 4] = [
        (false, None, Ok(true), LateOutcome::Refunded, refund()),
        (false, Some("id"), Ok(true), LateOutcome::Charged, vec![]),
        (false, None, Err(StoreError::Expired(AT)), LateOutcome::NotCharged, vec![]),
        (true, None, Err(StoreError::AnswerLost), LateOutcome::Lost, vec![]),
    ];
    for (is_strict, id, late, outcome, follows) in cases {
        let (engine, mut request) = in_flight(is_strict, id);
        request.leave();
        let case = format!("{id:?} {late:?}");
        let late = late.map(|charged| answer(&request, charged));
        engine.late_answer(START.plus_ms(5), request, late.clone());
        assert_eq!(outcomes(&engine), [(LateOutcome::NAMES[outcome as usize].1, 1)], "{case}");
        assert_eq!((engine.metrics().unsynced_units.get(), backfill(&engine)), (0, follows), "{case}");
        assert!(!engine.is_degraded(), "it says nothing about the store");
    }
}

fn policy(rule: &mut Rule) -> &mut LimitPolicy {
    rule.policy.as_mut().expect("a policy")
}

/// A charge of a denied call is spent by the agent where units are leased, as long as its sub-window lasts. Where no unit ever comes
/// back, it is not refunded after that either.
#[test]
fn a_charge_of_a_denied_call_becomes_a_lease_or_is_refunded() {
    let late = |change: fn(&mut Rule), late_ms: u64| {
        let mut rule = Rule::per("per-key", &["api_key"], "100/min".parse().unwrap()).strict();
        change(&mut rule);
        let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
        engine.note_store_time(START, START, START);
        let mut request = request(&engine, &Call::new().with("api_key", "k"));
        let _ = engine.finish(START.plus_ms(15), &mut request, Err(StoreError::TimedOut));
        let answer = answer(&request, true);
        engine.late_answer(START.plus_ms(late_ms), request, Ok(answer));
        let stranded =
            engine.metrics().rules().iter().map(|(_, counts)| counts.lease_units_stranded.get()).sum::<u64>();
        (outcomes(&engine), backfill(&engine), stranded)
    };
    let refunded = (vec![("refunded", 1)], vec![(ChargeMode::Refund { at: AT, whole: None }, false)], 0);
    let leased = |stranded| (vec![("leased", 1)], vec![], stranded);
    assert_eq!(late(|rule| policy(rule).leases = false, 20), refunded);
    assert_eq!(late(|rule| *policy(rule) = policy(rule).counted_by(Algorithm::SlidingLog), 20), refunded);
    assert_eq!(late(|_| {}, 5_000), refunded, "the sub-window has ended");
    assert_eq!(late(|_| {}, 4_900), leased(0));
    assert_eq!(late(|rule| rule.cost = Some(1), 4_900), leased(0));
    assert_eq!(late(|rule| rule.cost = Some(1), 5_000), leased(1), "no unit comes back");
}

/// One late answer costs one decision without the store: the next call asks it, and carries what it does not know.
#[test]
fn unsynced_units_travel_with_the_next_call() {
    let engine = engine(false);
    let call = Call::new().with("api_key", "k");
    let mut late = request(&engine, &call);
    let _ = engine.finish(START, &mut late, Err(StoreError::TimedOut));
    engine.late_answer(START, late, Err(StoreError::Expired(AT)));
    let mut next = request(&engine, &call);
    let modes = |request: &StoreRequest| -> Vec<Vec<bool>> {
        let is_backfill = |charge: &Charge| matches!(charge.mode, ChargeMode::Backfill { .. });
        request.steps().iter().map(|step| step.charges.iter().map(is_backfill).collect()).collect()
    };
    assert_eq!(modes(&next), [vec![true], vec![false]]);
    assert_eq!(modes(&request(&engine, &call)), [vec![true], vec![false]], "each call, until the store confirms it");
    let charged = Ok(answer(&next, true));
    let Output::Decisions(decisions) = engine.finish(START, &mut next, charged) else { panic!("a check") };
    assert!(decisions[0].allowed && decisions[0].source == tollgate_core::decision::Source::Store);
    assert_eq!((engine.metrics().unsynced_units.get(), engine.metrics().backfilled_units.get()), (0, 1));
    assert_eq!(modes(&request(&engine, &call)), [vec![false]]);
}

/// A timer that fires long after its time says nothing about the store.
#[test]
fn a_delay_of_the_agent_itself_opens_no_breaker() {
    for (late_ms, opens) in [(16, true), (31, false)] {
        let engine = engine(true);
        let mut now = START;
        for _ in 0..4 {
            let mut request = request_at(now, &engine, &Call::new().with("api_key", "k"));
            now = now.plus_ms(late_ms);
            let _ = engine.finish(now, &mut request, Err(StoreError::TimedOut));
        }
        assert_eq!(engine.is_degraded(), opens, "{late_ms} ms");
    }
}

/// Two slots of a call: one primary fails by the deadline, the other one answers after it. Each charge is entered once: the units
/// of the first are backfilled, and those of the second are in the store.
#[test]
fn a_failed_step_and_a_late_one_are_each_entered_once() {
    let open = |name, descriptor| {
        let rule = Rule::per(name, &[descriptor], "100/min".parse().unwrap());
        rule.with(|policy| (policy.leases, policy.on_failure) = (false, OnFailure::Open))
    };
    let rules = [open("per-key", "api_key"), open("per-user", "user")];
    for failed in [0, 1] {
        let settings = EngineSettings { store: StoreShape::Slots, ..EngineSettings::new("a", START) };
        let engine = Engine::new(settings, RuleSet::new(1, rules.clone()));
        engine.note_store_time(START, START, START);
        let call = Call::new().with("api_key", "k").with("user", "u");
        let mut request = request(&engine, &call);
        let charged = answer(&request, true);
        let mut answers: StepAnswers = SmallVec::from_iter([None, None]);
        answers[failed] = Some(Err(StoreError::Unreachable));
        let decisions = engine.finish_steps(START.plus_ms(15), &mut request, &answers).into_decisions();
        assert!(decisions[0].allowed);
        answers[1 - failed] = Some(Ok(charged[1 - failed..2 - failed].iter().copied().collect()));
        engine.late_steps(START.plus_ms(40), request, &answers);
        assert_eq!(engine.metrics().unsynced_units.get(), 1, "step {failed} has failed");
        assert_eq!(outcomes(&engine), [("charged", 1)], "step {failed} has failed");
    }
}
