//! Check all: several calls of one request, charged all or none in one step of the store.
//!
//! Requests of several descriptors (`/json`, Envoy's protocol) use it. Each call keeps a decision of its own; if one of them is
//! denied, the enforced charges of the others do not count, and their decisions show the counters without them. A counter
//! that several calls share is charged once, with the sum of their costs.

use std::sync::Arc;

use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults, StoreError};
use tollgate_core::decision::Decision;
use tollgate_core::rules::MatchScope;

use crate::check::verdicts_of;
use crate::decide::{Evaluation, Verdicts};
use crate::engine::{ActiveRules, Engine};
use crate::match_rules::Rejection;
use crate::matched_rule::{MatchedRule, MatchedRules};
use crate::stage::{Charges, Stage};
use crate::time_bounds::TimeBounds;

/// One call of the request.
#[derive(Debug)]
pub(crate) struct PlannedCall {
    number: u64,
    matched: MatchedRules,
    plan: CallPlan,
}

#[derive(Debug)]
enum CallPlan {
    /// Denied without a counter.
    Rejected(Rejection),
    /// Decided without the store.
    Decided(Verdicts),
    /// Evaluated by the store; for each rule its part of a charge.
    AsksStore(Vec<ChargePart>),
}

/// Part of one call in a charge that several calls may share.
#[derive(Clone, Copy, Debug)]
struct ChargePart {
    /// Position of the charge in the request.
    charge: usize,
    /// Cost of the earlier calls in it.
    before: u64,
}

impl Engine {
    pub(crate) fn begin_check_all(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        calls: &[Call<'_>],
        scope: MatchScope<'_>,
    ) -> Stage<Vec<Decision>, Vec<PlannedCall>> {
        let bounds = self.store_time(now);
        let excluded = excluded(active, calls, scope);
        let scope = MatchScope { excluded: &excluded, ..scope };
        let mut planned: Vec<PlannedCall> =
            calls.iter().map(|call| self.plan_call(active, bounds, call, scope)).collect();
        let charges = self.join_charges(active, bounds, calls, &mut planned);
        if charges.is_empty() {
            let no_results = Ok(ChargeResults::new());
            return Stage::Done(self.finish_check_all(now, active, calls, &planned, &charges, &no_results));
        }
        let deadlines = planned.iter().filter(|planned| planned.asks_store()).flat_map(|planned| &planned.matched);
        let deadline = deadlines.map(|matched| matched.policy.deadline).min().unwrap_or_default();
        Stage::NeedsStore(charges, deadline, planned)
    }

    pub(crate) fn finish_check_all(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        calls: &[Call<'_>],
        planned: &[PlannedCall],
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> Vec<Decision> {
        let bounds = self.store_time(now);
        let evaluate = |planned: &PlannedCall| match (&planned.plan, answer) {
            (CallPlan::Rejected(_), _) => (Verdicts::new(), ChargeResults::new()),
            (CallPlan::Decided(verdicts), _) => (verdicts.clone(), ChargeResults::new()),
            (CallPlan::AsksStore(_), Err(_)) => {
                (self.plan(active, &planned.matched, bounds, false).unwrap_or_default(), ChargeResults::new())
            }
            (CallPlan::AsksStore(parts), Ok(results)) => {
                let part = |(part, matched): (&ChargePart, &MatchedRule)| {
                    part.result(&charges[part.charge], &results[part.charge], matched.cost)
                };
                let results = parts.iter().zip(&planned.matched).map(part).collect::<ChargeResults>();
                (verdicts_of(&planned.matched, &results), results)
            }
        };
        let evaluated: Vec<(Verdicts, ChargeResults)> = planned.iter().map(evaluate).collect();
        let evaluations = planned.iter().zip(&evaluated).map(|(planned, (verdicts, results))| {
            let error = answer.as_ref().err().filter(|_| planned.asks_store()).copied();
            let local = Evaluation::local(planned.number, active, &planned.matched, verdicts, bounds);
            Evaluation { results, error, ..local }
        });
        let evaluations: Vec<Evaluation<'_>> = evaluations.collect();
        let is_denied = |(planned, evaluation): (&PlannedCall, &Evaluation<'_>)| {
            matches!(planned.plan, CallPlan::Rejected(_)) || !evaluation.combined().allowed
        };
        let held_back = planned.iter().zip(&evaluations).any(is_denied);
        let decide = |((call, planned), evaluation): ((&Call<'_>, &PlannedCall), &Evaluation<'_>)| match planned.plan {
            CallPlan::Rejected(rejection) => self.reject(now, active, call, planned.number, bounds, rejection),
            _ => self.decide(now, call, &Evaluation { held_back, ..*evaluation }),
        };
        calls.iter().zip(planned).zip(&evaluations).map(decide).collect()
    }

    fn plan_call(
        &self,
        active: &ActiveRules,
        bounds: TimeBounds,
        call: &Call<'_>,
        scope: MatchScope<'_>,
    ) -> PlannedCall {
        let number = self.next_call();
        let (matched, plan) = match self.match_call(active, bounds, call, scope) {
            Err(rejection) => (MatchedRules::new(), CallPlan::Rejected(rejection)),
            Ok(matched) => match self.plan(active, &matched, bounds, self.may_ask_store(&matched)) {
                Some(verdicts) => (matched, CallPlan::Decided(verdicts)),
                None => (matched, CallPlan::AsksStore(Vec::new())),
            },
        };
        PlannedCall { number, matched, plan }
    }

    /// Joins the charges of the calls that ask the store. If another call is denied already, the enforced charges are only
    /// evaluated.
    fn join_charges(
        &self,
        active: &ActiveRules,
        bounds: TimeBounds,
        calls: &[Call<'_>],
        planned: &mut [PlannedCall],
    ) -> Charges {
        let mut joined = Charges::new();
        for (call, PlannedCall { matched, plan, .. }) in calls.iter().zip(&mut *planned) {
            let CallPlan::AsksStore(parts) = plan else { continue };
            for charge in self.check_charges(active, matched, call, bounds) {
                parts.push(ChargePart::join(&mut joined, charge));
            }
        }
        for PlannedCall { matched, plan, .. } in &mut *planned {
            let CallPlan::AsksStore(parts) = plan else { continue };
            for (matched, part) in matched.iter_mut().zip(parts) {
                matched.evaluated_cost = joined[part.charge].cost;
            }
        }
        let is_denied = |planned: &PlannedCall| match &planned.plan {
            CallPlan::Rejected(_) => true,
            CallPlan::Decided(verdicts) => {
                !Evaluation::local(planned.number, active, &planned.matched, verdicts, bounds).combined().allowed
            }
            CallPlan::AsksStore(_) => false,
        };
        if planned.iter().any(is_denied) {
            for charge in &mut joined {
                if let ChargeMode::Enforce { expires_at } = charge.mode {
                    charge.mode = ChargeMode::Evaluate { expires_at };
                }
            }
        }
        joined
    }
}

/// Returns the rules that apply to none of the calls: those outside the scope, and those that a rule of any call replaces.
fn excluded(active: &ActiveRules, calls: &[Call<'_>], scope: MatchScope<'_>) -> Vec<Arc<str>> {
    let mut excluded = scope.excluded.to_vec();
    for call in calls.iter().filter(|_| active.any_replaces) {
        let resolved = active.set.resolved_within(call, scope);
        let applicable = active.set.applicable_among(&resolved, active.index.candidates(&resolved));
        excluded.extend(applicable.iter().flat_map(|applicable| &applicable.rule.replaces).cloned());
    }
    excluded
}

impl PlannedCall {
    fn asks_store(&self) -> bool {
        matches!(self.plan, CallPlan::AsksStore(_))
    }
}

impl ChargePart {
    /// Adds a charge to those of a request. Request ids are kept only where one call alone charges the counter.
    fn join(joined: &mut Charges, charge: Charge) -> Self {
        let same =
            |known: &Charge| known.counter == charge.counter && known.mode.is_enforced() == charge.mode.is_enforced();
        if let Some(position) = joined.iter().position(same) {
            let known = &mut joined[position];
            let before = known.cost;
            known.cost = before.saturating_add(charge.cost);
            known.request = None;
            return Self { charge: position, before };
        }
        joined.push(charge);
        Self { charge: joined.len() - 1, before: 0 }
    }

    /// Returns the result of this part, which costs `cost`, as if the parts had been charged one after the other.
    fn result(self, charge: &Charge, result: &ChargeResult, cost: u64) -> ChargeResult {
        if result.repeated {
            return *result;
        }
        let verdict = result.verdict;
        // Room before anything of the request was charged.
        let room = verdict.remaining.saturating_add(if verdict.admitted { charge.cost } else { 0 });
        let through = self.before.saturating_add(cost);
        let admitted = verdict.admitted || through < charge.cost && through <= room;
        let used = match (result.charged, admitted) {
            (false, _) => 0,
            (true, true) => through,
            (true, false) => self.before,
        };
        let retry_at = if admitted { result.at } else { verdict.retry_at };
        let verdict = Verdict { admitted, remaining: room.saturating_sub(used), retry_at, ..verdict };
        ChargeResult { verdict, ..*result }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::{Algorithm, CounterState, Limit};
    use tollgate_core::counter::CounterId;
    use tollgate_core::window::{Estimate, Window};

    use super::*;

    /// Each case: the quota, the costs of the calls that share a counter, true if the charge is enforced; for each call the
    /// expected (admitted, remaining).
    #[test]
    fn calls_that_share_a_counter_are_decided_as_if_one_came_after_the_other() {
        type Case = (u64, &'static [u64], bool, &'static [(bool, u64)]);
        let cases: [Case; 6] = [
            (9, &[2], true, &[(true, 7)]),
            (9, &[2, 3], true, &[(true, 7), (true, 4)]),
            (4, &[2, 3], true, &[(true, 4), (false, 4)]),
            (4, &[2, 3], false, &[(true, 2), (false, 2)]),
            (1, &[2, 3], false, &[(false, 1), (false, 0)]),
            (3, &[1, 1, 1], false, &[(true, 2), (true, 1), (true, 0)]),
        ];
        let (counter, now, later) =
            (CounterId::from_u128(1), Timestamp::from_ms(1_000_000), Timestamp::from_ms(2_000_000));
        for (units, costs, is_enforced, expected) in cases {
            let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
            let limit = Limit { algorithm, units, window: Window::new(60_000, 12).unwrap(), burst: 0 };
            let mut joined = Charges::new();
            let parts: Vec<ChargePart> = costs
                .iter()
                .map(|cost| ChargePart::join(&mut joined, Charge::enforce(counter, limit, 1, *cost, later)))
                .collect();
            assert_eq!(joined.len(), 1);
            let verdict = CounterState::new(&limit).step(&limit, now, joined[0].cost);
            let charged = verdict.admitted || !is_enforced;
            let result =
                ChargeResult { verdict, charged, repeated: false, firm: true, at: now, limit: units, rebased: false };
            let parts = parts.iter().zip(costs).map(|(part, cost)| part.result(&joined[0], &result, *cost).verdict);
            let seen: Vec<_> = parts.map(|verdict| (verdict.admitted, verdict.remaining)).collect();
            assert_eq!(seen, expected, "{units} {costs:?} {is_enforced}");
        }
    }
}
