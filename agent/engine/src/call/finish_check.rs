//! Second half of a check: the verdicts of its calls by the answer of the store, or without one.
//!
//! The calls of a request are decided as if one had come after the other. Without an answer, a call is decided by the leases that pay for
//! it, by signals, or by the rule's `on_failure`.

use smallvec::{SmallVec, smallvec};
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, StoreError};

use crate::call::check::{Decisions, is_admitted};
use crate::call::decide::verdicts_of;
use crate::call::leases::payments::Payments;
use crate::call::leases::{Sending, grant};
use crate::call::plan_call::PlanInstant;
use crate::call::planned_call::{AnsweredStep, PlannedCall, StepResults, Verdicts, allow_over_quota};
use crate::counters::StoreAccess;
use crate::engine::{Context, Engine};
use crate::rules::MatchedRule;
use crate::store::{ChargeAnswer, ChargeStanding};

impl Engine {
    /// Decides the calls of a request with the answers of the store, or the reasons why there are none.
    pub(crate) fn finish_check(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        planned: &mut [PlannedCall<'_>],
        charges: &[Charge],
        sent: Sending<'_>,
        answers: &[ChargeAnswer],
    ) -> Decisions {
        let may_lease = calls.len() == 1 && planned[0].may_lease();
        self.take_leases(context.now, context.active, planned, charges, answers, sent);
        if answers.iter().any(Result::is_err) {
            let error_of = |matched: &MatchedRule<'_>| {
                let place = charges.iter().position(|charge| matched.shares(charge));
                place.and_then(|place| answers[place].err())
            };
            for planned in planned.iter_mut().filter(|planned| planned.is_deferred) {
                planned.errors = planned.matched.iter().map(error_of).collect();
            }
        }
        // Cost of the earlier calls in each charge.
        let mut before: SmallVec<[u64; 8]> = smallvec![0; charges.len()];
        for planned in planned.iter_mut().filter(|planned| planned.asks_store()) {
            let mut share = |matched: &MatchedRule<'_>| {
                if matched.own_verdict().is_some() {
                    return None;
                }
                let place = charges.iter().position(|charge| matched.shares(charge))?;
                let (charge, before) = (&charges[place], &mut before[place]);
                let share = answers[place].map(|result| result.share(charge, *before, matched.unpaid()));
                *before = before.saturating_add(matched.unpaid());
                Some(share)
            };
            let shares: SmallVec<[Option<ChargeAnswer>; 2]> = planned.matched.iter().map(&mut share).collect();
            self.decide_answered(context, planned, &shares, sent.at, may_lease);
        }
        self.take_back_held(context, planned, charges, sent, answers);
        let decisions = self.answer_all(context, calls, planned);
        self.followed_by(context, calls, planned, charges, answers);
        decisions
    }

    /// Takes back the charges of a request that is denied although some of its steps have charged: each slot is charged in a
    /// step of its own, whatever the others answer.
    fn take_back_held(
        &self,
        context: &Context<'_>,
        planned: &mut [PlannedCall<'_>],
        charges: &[Charge],
        sent: Sending<'_>,
        answers: &[ChargeAnswer],
    ) {
        if self.settings.store.has_one_step() {
            return;
        }
        allow_over_quota(planned);
        if planned.iter().all(|planned| planned.combined.allowed) {
            return;
        }
        for (place, (charge, answer)) in charges.iter().zip(answers).enumerate() {
            let Some(result) = answer.ok().filter(|result| result.charged && charge.mode.is_enforced()) else {
                continue;
            };
            for planned in planned.iter_mut() {
                let shares = |matched: &MatchedRule<'_>| matched.shares(charge);
                let results = planned.answer.iter_mut().flat_map(|answer| &mut answer.results);
                let own = planned.matched.iter().zip(results).filter(|(matched, _)| shares(matched));
                own.filter_map(|(_, result)| result.as_mut()).for_each(|result| result.charged = false);
            }
            let of_charge = |planned: &PlannedCall<'_>| {
                let position = planned.matched.iter().position(|matched| matched.shares(charge));
                position.map(|position| (planned.number, position))
            };
            let owner = planned.iter().find_map(|planned| Some((planned, of_charge(planned)?)));
            if let Some((planned, (number, position))) = owner.filter(|_| !result.repeated) {
                let matched = &planned.matched[position];
                let grant = grant(context.active, matched, number, (charge, &result), charge.cost, sent.of(place));
                self.dispose(context, matched, ChargeStanding::VoidBefore, charge, grant);
            }
        }
    }

    /// Decides a call by the answers to its charges. A rule whose primary has not answered is decided without it.
    fn decide_answered(
        &self,
        context: &Context<'_>,
        planned: &mut PlannedCall<'_>,
        shares: &[Option<ChargeAnswer>],
        sent_at: Timestamp,
        may_lease: bool,
    ) {
        let results: StepResults = shares.iter().map(|share| share.and_then(Result::ok)).collect();
        // Another slot may have been charged at another instant, and another primary has another clock.
        let first = planned.matched.first().map(|matched| matched.primary);
        let is_of_first = |matched: &MatchedRule<'_>| Some(matched.primary) == first;
        let of_first = planned.matched.iter().zip(&results).filter(|(matched, _)| is_of_first(matched));
        let charged_at = of_first.filter_map(|(_, result)| *result).map(|result| result.at).next();
        let is_answered = results.iter().any(Option::is_some);
        let error = worst_error(shares.iter().flatten());
        let planned_at = planned.matched.first().map_or(context.bounds.latest, |matched| matched.at);
        let mut at = charged_at.unwrap_or(planned_at);
        let mut verdicts = verdicts_of(&planned.matched, &results);
        let Some(error) = error else {
            planned.answer = Some(AnsweredStep { at, results });
            if may_lease {
                self.pay_denied(context, planned, &mut verdicts);
            }
            planned.set_verdicts(context.bounds, verdicts);
            return planned.set_instant(at);
        };
        planned.error = Some(error);
        planned.errors = shares.iter().map(|share| share.and_then(Result::err)).collect();
        self.end_payments(context, planned);
        let deadline = Self::deadline(&planned.matched);
        let mut are_late = true;
        for (matched, share) in planned.matched.iter_mut().zip(shares) {
            // A rule that was not asked, because a lease had paid that is over, has no other answer either.
            let error = match share {
                Some(Ok(_)) => continue,
                Some(Err(error)) => *error,
                None => error,
            };
            let is_late = error.may_pass() && !self.store.breaker(matched.primary).is_open_for(deadline);
            matched.access = if is_late { StoreAccess::Late } else { StoreAccess::Closed };
            are_late &= is_late;
        }
        // The store may have charged the call from its sending on: decided later, it would leave the
        // store's window before it leaves that of the decision.
        let instant = if error.may_have_charged() { PlanInstant::SentAt(sent_at) } else { PlanInstant::Now };
        let known = verdicts.iter().zip(&results).filter(|_| is_answered);
        let known: Verdicts = known.map(|(verdict, result)| result.and(*verdict)).collect();
        let matched = &mut planned.matched;
        let mut table = self.counters.lock(matched.iter().map(|matched| matched.counter));
        let payments = if are_late && may_lease && !is_answered {
            self.payments(context, matched, &mut table, None)
        } else {
            Payments::new()
        };
        let verdicts = self.plan(context, matched, &mut table, instant, &payments, &known).unwrap_or_default();
        if is_admitted(&verdicts) {
            Self::take_payments(matched, &payments, &mut table);
        }
        drop(table);
        if let Some(first) = planned.matched.first() {
            at = charged_at.unwrap_or(first.at);
        }
        if is_answered {
            planned.answer = Some(AnsweredStep { at, results });
        }
        planned.set_verdicts(context.bounds, verdicts);
        planned.set_instant(at);
    }
}

/// Returns the error of an answer that may have charged, else any.
fn worst_error<'a>(answers: impl Iterator<Item = &'a ChargeAnswer>) -> Option<StoreError> {
    let errors = answers.filter_map(|answer| answer.err());
    errors.reduce(|worst, error| if error.may_have_charged() && !worst.may_have_charged() { error } else { worst })
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Algorithm;
    use tollgate_core::counter::{ChargeResults, StoredCounter};
    use tollgate_core::rules::{MatchScope, Rule, RuleSet};

    use super::*;
    use crate::engine_settings::EngineSettings;
    use crate::request::{Operation, Progress};

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// The slots of a call are released by the instant of its decision. Another primary may have charged them at another instant.
    #[test]
    fn a_call_of_a_request_has_the_instant_of_its_own_step() {
        let rule = Rule::per("slots", &["api_key"], "9/min".parse().expect("a quota"));
        let rule = rule.with(|policy| policy.algorithm = Algorithm::Concurrency);
        let engine = Engine::new(EngineSettings::new("a", START), RuleSet::new(1, [rule]));
        let calls = ["a", "b"].map(|key| Call::new().with("api_key", key));
        let operation = Operation::Check { calls: &calls, scope: MatchScope::default() };
        let Progress::NeedsStore(mut request) = engine.begin(START, operation) else { panic!("the store decides") };
        let charged = |(charge, ms): (&Charge, u64)| StoredCounter::new(charge).evaluate(charge, START.plus_ms(ms));
        let results: ChargeResults = request.charges().iter().zip([3, 7]).map(charged).collect();
        let decisions = engine.finish(START.plus_ms(8), &mut request, Ok(results)).into_decisions();
        let instants: Vec<_> = decisions.iter().map(|decision| decision.at.ms_since(START)).collect();
        assert_eq!(instants, [3, 7]);
    }
}
