//! From verdicts to a decision: plan, combine, publish, update the views, and make the answer.
//!
//! [`check`](crate::check) and [`check_all`](crate::check_all) bring their calls here, so that a call is published, counted
//! and answered in the same way whoever decided it. The decision of a single counter is in [`enforce`](crate::enforce).

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::ChargeResult;
use tollgate_core::decision::{DENY_LIST, Decision, DecisionId, LimitStatus, Source};

use crate::enforce::{Authority, Combined, Facts, Plan, RuleVerdict, combine, plan};
use crate::engine::{ActiveRules, Engine};
use crate::match_rules::Rejection;
use crate::matched_rule::MatchedRule;
use crate::store_error::StoreError;
use crate::time_bounds::TimeBounds;
use crate::view::{Sequence, ViewEvent, update};

/// Verdict of each rule of a call; none for a rule that was not evaluated.
pub(crate) type Verdicts = SmallVec<[Option<RuleVerdict>; 2]>;

/// `Retry-After` of a denial that no counter gave, in ms: the rules may have changed by then.
const REJECTED_RETRY_MS: u64 = 60_000;

/// Everything from which a call is decided.
#[derive(Clone, Copy)]
pub(crate) struct Evaluation<'a> {
    pub(crate) number: u64,
    pub(crate) active: &'a ActiveRules,
    pub(crate) matched: &'a [MatchedRule],
    pub(crate) verdicts: &'a [Option<RuleVerdict>],
    /// Results of the store; empty if it was not asked or did not answer.
    pub(crate) results: &'a [ChargeResult],
    /// Reason for which the store did not answer, if it was asked.
    pub(crate) error: Option<StoreError>,
    pub(crate) bounds: TimeBounds,
    /// True if another call of the same request is denied, so that enforced charges of this one do not count.
    pub(crate) held_back: bool,
}

impl<'a> Evaluation<'a> {
    /// Evaluation of a call for which the store was not asked.
    pub(crate) fn local(
        number: u64,
        active: &'a ActiveRules,
        matched: &'a [MatchedRule],
        verdicts: &'a [Option<RuleVerdict>],
        bounds: TimeBounds,
    ) -> Self {
        Self { number, active, matched, verdicts, results: &[], error: None, bounds, held_back: false }
    }

    /// Returns the instant of the decision: the store's step, or the latest that the store's time may be.
    pub(crate) fn at(&self) -> Timestamp {
        self.results.first().map_or(self.bounds.latest, |result| result.at)
    }

    /// Combines the verdicts. A rule in shadow is counted and not shown.
    pub(crate) fn combined(&self) -> Combined {
        if !self.matched.iter().any(|matched| matched.rule.shadow) {
            return combine(self.verdicts);
        }
        let shown = |matched: &MatchedRule| self.verdicts[matched.position].filter(|_| !matched.rule.shadow);
        combine(&self.matched.iter().map(shown).collect::<Verdicts>())
    }

    /// Returns true if the charge of a rule stands when it was admitted without the store.
    fn stands(&self, combined: &Combined, matched: &MatchedRule) -> bool {
        combined.allowed && (!self.held_back || matched.is_counted_always())
    }

    /// Returns true if units of a rule were admitted: by the store, or without it.
    pub(crate) fn is_admitted(&self, combined: &Combined, matched: &MatchedRule) -> bool {
        // A rule that is counted always may have been charged although the call was denied.
        let charged = self
            .results
            .get(matched.position)
            .is_some_and(|result| result.charged && (result.verdict.admitted || matched.never_denies()));
        charged || self.stands(combined, matched)
    }
}

impl Engine {
    /// Plans a call: the verdicts of its rules, up to the first denial; none if the store must be asked.
    pub(crate) fn plan(
        &self,
        active: &ActiveRules,
        matched: &[MatchedRule],
        bounds: TimeBounds,
        may_ask_store: bool,
    ) -> Option<Verdicts> {
        let mut verdicts = Verdicts::new();
        let mut needs_store = false;
        for matched in matched {
            let authority = if may_ask_store {
                Authority::Store
            } else {
                let fresh = self.signals.fresh(matched.counter.partition(self.settings.partitions), bounds);
                fresh.map_or(Authority::Fallback, Authority::Signals)
            };
            let facts = Facts { now: bounds, authority, fleet: self.fleet.size() };
            let MatchedRule { policy, cost, enforcement, .. } = matched;
            let generation = active.set.generation;
            let plan = self.table.with(matched.counter, |view| {
                let plan = plan(policy, generation, view, &facts, *cost, *enforcement);
                if let Plan::Decided(_, _, Some(admission)) = plan {
                    update(policy, view, admission);
                }
                plan
            });
            match plan {
                Plan::NeedsStore => needs_store = true,
                Plan::Decided(verdict, source, _) => {
                    verdicts.resize(matched.position, None);
                    verdicts.push(Some(RuleVerdict { verdict, limit: policy.quota.units(), source }));
                    if !verdict.admitted {
                        needs_store = false;
                        break;
                    }
                }
            }
        }
        verdicts.resize(matched.len(), None);
        (!needs_store).then_some(verdicts)
    }

    /// Decides a call: publishes its charges, updates the views, and makes the answer.
    pub(crate) fn decide(&self, now: Timestamp, call: &Call<'_>, evaluation: &Evaluation<'_>) -> Decision {
        let combined = evaluation.combined();
        count_shadow_denials(evaluation);
        for matched in evaluation.matched {
            let sequence = self.publish(now, call, evaluation, &combined, Some(matched));
            self.update_view(evaluation, &combined, matched, sequence);
        }
        if evaluation.matched.is_empty() {
            self.publish(now, call, evaluation, &combined, None);
        }
        let shown = combined.shown.map(|shown| &evaluation.active.counts[evaluation.matched[shown].index]);
        shown.unwrap_or(&self.unlimited).count(combined.source, combined.allowed);
        self.answer(evaluation, &combined)
    }

    /// Denies a call by the deny list or by a rule that denies what it matches. No counter is charged.
    pub(crate) fn reject(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        call: &Call<'_>,
        number: u64,
        bounds: TimeBounds,
        rejection: Rejection,
    ) -> Decision {
        let (name, counts) = match rejection {
            Rejection::Rule(index) => (active.set.rules[index].name.clone(), &active.counts[index]),
            Rejection::Listed => (DENY_LIST.into(), &self.listed),
        };
        let evaluation = Evaluation::local(number, active, &[], &[], bounds);
        let combined = Combined { allowed: false, shown: None, source: Source::Local };
        self.publish_rejection(now, call, &evaluation, &name);
        counts.count(combined.source, combined.allowed);
        let status = LimitStatus {
            rule: name,
            limit: 0,
            window_ms: 0,
            at_once: 0,
            cost: call.cost(),
            remaining: 0,
            reset_ms: REJECTED_RETRY_MS,
            retry_after_ms: REJECTED_RETRY_MS,
        };
        Decision { status: Some(status), ..self.answer(&evaluation, &combined) }
    }

    fn update_view(&self, evaluation: &Evaluation<'_>, combined: &Combined, matched: &MatchedRule, sequence: Sequence) {
        let (at, cost) = (evaluation.bounds.latest, matched.cost);
        let generation = evaluation.active.set.generation;
        let verdict = evaluation.verdicts[matched.position];
        let admitted_locally =
            verdict.is_some_and(|verdict| verdict.verdict.admitted && verdict.source != Source::Store);
        let event = match evaluation.results.get(matched.position) {
            // The own table has updated the view in the same step.
            Some(_) if self.counts_in_own_table() => return,
            Some(result) => {
                ViewEvent::Charged { result, cost, evaluated_cost: matched.evaluated_cost, generation, sequence }
            }
            None if admitted_locally && evaluation.stands(combined, matched) => {
                let is_unsynced = evaluation.error.is_none_or(StoreError::needs_backfill);
                ViewEvent::Admitted { at, units: cost, is_planned: true, sequence, is_unsynced }
            }
            None if admitted_locally => ViewEvent::Refunded { at, units: cost, is_unsynced: false, by_store: false },
            None => return,
        };
        self.update_counter(matched, generation, event);
    }

    fn answer(&self, evaluation: &Evaluation<'_>, combined: &Combined) -> Decision {
        // Waits count from the store's step, or from the earliest that the store's time may be: never too short.
        let from = evaluation.results.first().map_or(evaluation.bounds.earliest, |result| result.at);
        let shown = combined.shown.and_then(|shown| Some((&evaluation.matched[shown], evaluation.verdicts[shown]?)));
        let delays = evaluation.verdicts.iter().flatten().map(|verdict| verdict.verdict.delay_ms);
        Decision {
            allowed: combined.allowed,
            status: shown.map(|(matched, RuleVerdict { verdict, limit, .. })| LimitStatus {
                retry_after_ms: if combined.allowed { 0 } else { verdict.retry_at.ms_since(from).max(1) },
                ..matched.status(matched.cost, limit, &verdict, from)
            }),
            delay_ms: if combined.allowed { delays.max().unwrap_or(0) } else { 0 },
            source: combined.source,
            at: evaluation.at(),
            id: DecisionId {
                agent: self.settings.node.clone(),
                epoch: self.settings.epoch.as_ms(),
                call: evaluation.number,
            },
        }
    }
}

/// Counts the calls that a rule in shadow would have denied.
fn count_shadow_denials(evaluation: &Evaluation<'_>) {
    for (matched, result) in evaluation.matched.iter().zip(evaluation.results) {
        if matched.rule.shadow && !result.verdict.admitted {
            evaluation.active.counts[matched.index].shadow_denials.add(1);
        }
    }
}
