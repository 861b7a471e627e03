//! Second half of a check: the verdicts of its calls by the answer of the store, or without one.
//!
//! The calls of a request are decided as if one had come after the other. Without an answer, a call is decided by the leases that pay for
//! it, by signals, or by the rule's `on_failure`.

use smallvec::{SmallVec, smallvec};
use tollgate_core::call::Call;
use tollgate_core::counter::{Charge, ChargeResults, StoreError};

use crate::call::check::{Decisions, is_admitted};
use crate::call::decide::verdicts_of;
use crate::call::leases::Sending;
use crate::call::leases::payments::Payments;
use crate::call::planned_call::{AnsweredStep, PlannedCall, StepResults};
use crate::counters::StoreAccess;
use crate::engine::{Context, Engine};
use crate::rules::MatchedRule;

impl Engine {
    /// Decides the calls of a request with the answer of the store, or the reason why there is none.
    pub(crate) fn finish_check(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        planned: &mut [PlannedCall<'_>],
        charges: &[Charge],
        sent: Sending,
        answer: &Result<ChargeResults, StoreError>,
    ) -> Decisions {
        let (sent_at, may_lease) = (sent.at, calls.len() == 1 && planned[0].may_lease());
        if let Ok(results) = answer {
            self.take_leases(context.now, context.active, planned, charges, results, sent);
        }
        // Cost of the earlier calls in each charge.
        let mut before: SmallVec<[u64; 8]> = smallvec![0; charges.len()];
        if let Err(error) = answer {
            planned.iter_mut().filter(|planned| planned.is_deferred).for_each(|planned| planned.error = Some(*error));
        }
        for planned in planned.iter_mut().filter(|planned| planned.asks_store()) {
            let mut at = context.bounds.latest;
            let verdicts = match answer {
                Ok(results) => {
                    let at = results.first().map_or(at, |result| result.at);
                    let share = |matched: &MatchedRule<'_>| {
                        if matched.own_verdict().is_some() {
                            return None;
                        }
                        let mut evaluated = charges.iter().zip(results).zip(&mut before);
                        let ((charge, result), before) = evaluated.find(|((charge, _), _)| matched.shares(charge))?;
                        let result = result.share(charge, *before, matched.unpaid());
                        *before = before.saturating_add(matched.unpaid());
                        Some(result)
                    };
                    let shares: StepResults = planned.matched.iter().map(share).collect();
                    // Another slot may have been charged at another instant.
                    let at = shares.iter().flatten().next().map_or(at, |result| result.at);
                    let mut verdicts = verdicts_of(&planned.matched, &shares);
                    planned.answer = Some(AnsweredStep { at, results: shares });
                    if may_lease {
                        self.pay_denied(context, planned, &mut verdicts);
                    }
                    verdicts
                }
                Err(error) => {
                    planned.error = Some(*error);
                    // The store may have charged the call from its sending on: decided later, it would leave the
                    // store's window before it leaves that of the decision.
                    if error.may_have_charged() {
                        at = context.bounds.earliest.minus_ms(context.now.ms_since(sent_at));
                    }
                    let deadline = Self::expiry(context, planned).0;
                    let is_late = error.may_pass() && !self.store.breaker().is_open_for(deadline);
                    let store = if is_late { StoreAccess::Late } else { StoreAccess::Closed };
                    self.end_payments(context, planned);
                    let matched = &mut planned.matched;
                    let mut table = self.counters.lock(matched.iter().map(|matched| matched.counter));
                    let payments = if is_late && may_lease {
                        self.payments(context, matched, &mut table, None)
                    } else {
                        Payments::new()
                    };
                    let verdicts = self.plan(context, matched, &mut table, store, at, &payments).unwrap_or_default();
                    if is_admitted(&verdicts) {
                        Self::take_payments(matched, &payments, &mut table);
                    }
                    verdicts
                }
            };
            planned.set_verdicts(context.bounds, verdicts);
            planned.set_instant(at);
        }
        let decisions = self.answer_all(context, calls, planned);
        if let Ok(results) = answer {
            self.followed_by(context, calls, planned, charges, results);
        }
        decisions
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Algorithm;
    use tollgate_core::clock::Timestamp;
    use tollgate_core::counter::StoredCounter;
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
