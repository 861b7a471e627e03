//! Late answers: a request that missed its deadline stays in flight, and its answer tells if the store charged it.
//!
//! The caller has its decision by then. Units that were admitted and not charged are backfilled. Units that were charged for a
//! denied call, or for one that a lease has admitted, become a lease, or are refunded where there are none; unless the call has a
//! request id: then the charge stays for the retry, which would pass without a charge otherwise. If there will be no answer, admitted units are backfilled, under the call's own id if it has one. A late
//! answer takes back no miss, because no call waits for it.

use std::time::Duration;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResults, StoreError};
use tollgate_core::decision::LocalAnswer;
use tollgate_core::rules::Generation;

use crate::active_rules::ActiveRules;
use crate::check::PlannedCalls;
use crate::engine::Engine;
use crate::leases::Sending;
use crate::metrics::LateOutcome;
use crate::settle_release::Adjustment;
use crate::store_request::{Pending, PendingRequest, StoreRequest};
use crate::view::{UnsyncedRefund, ViewEvent};

/// Maximum number of requests of one agent that wait for their late answers. Past the cap, a request counts as lost.
pub const LATE_REQUESTS_MAX: usize = 10_000;
/// Maximum time for which a late answer is awaited. After it, a request counts as lost: it has expired at the store.
pub const LATE_ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);

impl Engine {
    /// Takes the answer to a request that was finished without it, or the error that there will be none:
    /// [`StoreError::AnswerLost`].
    pub fn late_answer(&self, now: Timestamp, request: StoreRequest, answer: Result<ChargeResults, StoreError>) {
        let PendingRequest { active, charges, carried, sent, pending, .. } = *request.0;
        self.note_time_of(sent.at, now, &answer);
        let (carried, charges) = charges.split_at(carried);
        let answer = answer.map(|results| self.learn(sent.at, carried, charges, results));
        let generation = active.set.generation;
        let outcome = match &pending {
            Pending::Check(planned) => {
                self.give_back_left(generation, planned);
                self.late_check(now, &active, planned, charges, &answer, sent)
            }
            Pending::Adjustment(adjustment) => self.late_adjustment(generation, adjustment, charges, &answer),
            // The units are sent again: under their ids, or to counters that have them already.
            Pending::Backfill(_) | Pending::Reopen(_) => return,
        };
        self.metrics.late_answer(outcome);
    }

    fn late_check(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        planned: &PlannedCalls<'_>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
        sent: Sending,
    ) -> LateOutcome {
        let generation = active.set.generation;
        if let Ok(results) = answer {
            self.take_leases(now, active, planned, charges, results, sent);
        }
        let is_held_back = planned.iter().any(|planned| !planned.combined.allowed);
        let mut outcome = outcome_of(answer);
        for (place, charge) in charges.iter().enumerate() {
            let result = answer.as_ref().map(|results| results.get(place));
            let is_charged = match result {
                Ok(result) => result.is_some_and(|result| result.charged || result.repeated),
                Err(error) => *error == StoreError::Unreadable,
            };
            // Units that stand for no call are refunded. Those that are only counted stay, unless they are slots.
            let mut stands = !charge.mode.is_enforced() && charge.limit.algorithm != Algorithm::Concurrency;
            let mut rule = None;
            for planned in planned.iter().filter(|planned| planned.error.is_some()) {
                for (place, matched) in planned.matched.iter().enumerate().filter(|(_, matched)| matched.shares(charge))
                {
                    rule = Some(matched);
                    if !planned.combined.allowed || is_held_back && !matched.is_counted_always() {
                        continue;
                    }
                    // Its units were charged before.
                    if planned.verdicts[place].is_some_and(|rule| rule.by == Some(LocalAnswer::Lease)) {
                        continue;
                    }
                    // A slot was unsynced from its decision on.
                    stands = !matched.is_slot();
                    if stands && !is_charged {
                        let unsynced = self.unsynced_of(planned, planned.at, matched.cost);
                        self.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
                    }
                }
            }
            let charge_made = result.ok().flatten().filter(|result| result.charged);
            if let (Some(result), Some(matched), None, false) = (charge_made, rule, charge.request, stands) {
                if self.take_charge(now, active, matched, charge, result, sent) {
                    outcome = LateOutcome::Leased;
                    continue;
                }
                let refund = UnsyncedRefund { at: result.at, units: charge.cost, request: None };
                self.update_counter(matched, generation, ViewEvent::UnsyncedRefund(refund));
                outcome = LateOutcome::Refunded;
            }
        }
        outcome
    }

    fn late_adjustment(
        &self,
        generation: Generation,
        adjustment: &Adjustment<'_>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> LateOutcome {
        let is_uncharged = answer.as_ref().is_err_and(|error| *error != StoreError::Unreadable);
        for (matched, charge) in adjustment.matched.iter().zip(charges) {
            if let ChargeMode::Backfill { at } = charge.mode
                && is_uncharged
            {
                let unsynced = self.unsynced_units(adjustment.number, adjustment.request, at, charge.cost);
                self.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
            }
        }
        outcome_of(answer)
    }
}

fn outcome_of(answer: &Result<ChargeResults, StoreError>) -> LateOutcome {
    match answer {
        Ok(results) if results.iter().any(|result| result.charged) => LateOutcome::Charged,
        Err(error) if error.may_have_charged() => LateOutcome::Lost,
        _ => LateOutcome::NotCharged,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Verdict;
    use tollgate_core::call::Call;
    use tollgate_core::counter::ChargeResult;
    use tollgate_core::rules::{LimitPolicy, Rule, RuleSet};

    use super::*;
    use crate::engine::EngineSettings;
    use crate::operation::{Operation, Output, Progress};

    const START: Timestamp = Timestamp::from_ms(1_000_000);
    const AT: Timestamp = Timestamp::from_ms(1_000_003);

    fn engine(is_strict: bool) -> Engine {
        let rule = Rule::per("per-key", &["api_key"], "100/min".parse().unwrap());
        let rule = if is_strict { rule.strict() } else { rule };
        Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]))
    }

    fn request(engine: &Engine, call: &Call<'_>) -> StoreRequest {
        match engine.begin(START, Operation::check(call)) {
            Progress::NeedsStore(request) => request,
            Progress::Done(output) => panic!("{output:?}"),
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

    /// Outcomes of late answers that an engine has counted.
    fn outcomes(engine: &Engine) -> Vec<(&'static str, u64)> {
        engine.metrics().late_answers().filter(|(_, count)| *count > 0).collect()
    }

    /// The answer of a store that charged all charges of a request, or none.
    fn answer(request: &StoreRequest, charged: bool) -> ChargeResults {
        let verdict = Verdict { admitted: charged, remaining: 9, retry_at: AT, reset_at: AT, delay_ms: 0 };
        let result =
            ChargeResult { verdict, charged, repeated: false, leased: 0, at: AT, limit: 100, born: AT, previous: AT };
        request.charges().iter().map(|_| result).collect()
    }

    /// Modes and ids of the charges that the maintenance sends.
    fn backfill(engine: &Engine) -> Vec<(ChargeMode, bool)> {
        match engine.begin(START, Operation::Backfill) {
            Progress::NeedsStore(request) => {
                request.charges().iter().map(|charge| (charge.mode, charge.request.is_some())).collect()
            }
            Progress::Done(_) => Vec::new(),
        }
    }

    /// Late answer of a case: charged, not charged, or an error.
    type CaseAnswer = Result<bool, StoreError>;
    /// True if the rule is strict, which denies; the id of the call; the answer; the outcome; the charges that follow.
    type LateCase = (bool, Option<&'static str>, CaseAnswer, LateOutcome, Vec<(ChargeMode, bool)>);

    /// A request that missed its deadline: what its late answer means for a call that was admitted or denied meanwhile.
    #[test]
    fn a_late_answer_says_what_is_backfilled_or_refunded() {
        let answered_at = START.plus_ms(15);
        let owed = || vec![(ChargeMode::Backfill { at: Timestamp::default() }, true)];
        let refund = || vec![(ChargeMode::Refund { at: AT }, false)];
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
            assert_eq!((decision.allowed, decision.at), (!is_strict, START.minus_ms(1)), "{case}: of its sending");
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
        let refund = || vec![(ChargeMode::Refund { at: AT }, false)];
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

    /// Where units are leased, the agent spends them, as long as the sub-window of the charge lasts.
    #[test]
    fn a_charge_of_a_denied_call_becomes_a_lease_or_is_refunded() {
        let late = |change: fn(&mut LimitPolicy), late_ms: u64| {
            let rule = Rule::per("per-key", &["api_key"], "100/min".parse().unwrap()).strict().with(change);
            let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
            engine.note_store_time(START, START, START);
            let mut request = request(&engine, &Call::new().with("api_key", "k"));
            let _ = engine.finish(START.plus_ms(15), &mut request, Err(StoreError::TimedOut));
            let answer = answer(&request, true);
            engine.late_answer(START.plus_ms(late_ms), request, Ok(answer));
            (outcomes(&engine), backfill(&engine))
        };
        let refunded = (vec![("refunded", 1)], vec![(ChargeMode::Refund { at: AT }, false)]);
        assert_eq!(late(|_| {}, 20), refunded);
        let by_log = |policy: &mut LimitPolicy| {
            *policy = policy.counted_by(Algorithm::SlidingLog);
            policy.leases = true;
        };
        assert_eq!(late(by_log, 20), refunded);
        assert_eq!(late(|policy| policy.leases = true, 5_000), refunded, "the sub-window has ended");
        assert_eq!(late(|policy| policy.leases = true, 4_900), (vec![("leased", 1)], vec![]));
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
            request.steps().map(|step| step.iter().map(is_backfill).collect()).collect()
        };
        assert_eq!(modes(&next), [vec![true], vec![false]]);
        assert_eq!(
            modes(&request(&engine, &call)),
            [vec![true], vec![false]],
            "each call, until the store confirms it"
        );
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
            for _ in 0..5 {
                let mut request = request(&engine, &Call::new().with("api_key", "k"));
                let _ = engine.finish(START.plus_ms(late_ms), &mut request, Err(StoreError::TimedOut));
            }
            assert_eq!(engine.is_degraded(), opens, "{late_ms} ms");
        }
    }
}
