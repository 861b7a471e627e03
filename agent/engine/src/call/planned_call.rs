//! A call of a request, from its plan to its decision: its rules, their verdicts, and the answer of the store.

use smallvec::SmallVec;
use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResult, RequestId, StoreError};
use tollgate_core::decision::Source;

use crate::call::match_rules::{Rejection, ShadowedRules};
use crate::counters::{Combined, RuleVerdict, combine};
use crate::engine::Context;
use crate::rules::{MatchedRule, MatchedRules};
use crate::store::{ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore, fate};
use crate::time::TimeBounds;

/// Verdict of each rule of a call; none for a rule that was not evaluated.
pub(crate) type Verdicts = SmallVec<[Option<RuleVerdict>; 2]>;

/// Result of the store for each rule of a call; none for a rule that the agent itself answers.
pub(crate) type StepResults = SmallVec<[Option<ChargeResult>; 2]>;

/// Answer of the store to the step of a call.
#[derive(Debug)]
pub(crate) struct AnsweredStep {
    /// Instant of the step.
    pub(crate) at: Timestamp,
    pub(crate) results: StepResults,
}

#[derive(Debug)]
pub(crate) struct PlannedCall<'a> {
    pub(crate) number: u64,
    pub(crate) matched: MatchedRules<'a>,
    pub(crate) rejection: Option<Rejection>,
    pub(crate) shadowed: ShadowedRules,
    /// Bounds of the store's time at the evaluation.
    pub(crate) bounds: TimeBounds,
    /// Instant of the decision, at which its admission counts.
    pub(crate) at: Timestamp,
    /// Verdicts of the rules; empty while the store must be asked.
    pub(crate) verdicts: Verdicts,
    pub(crate) combined: Combined,
    /// Denial by the rule to show, if that rule was not evaluated because another one denies the call. The decision is told and counted
    /// under it, and nothing is charged by it.
    pub(crate) unevaluated: Option<Box<RuleVerdict>>,
    /// True if the call is allowed although rules in quota mode deny it.
    pub(crate) is_over_quota: bool,
    /// Answer of the store; none if it was not asked or did not answer.
    pub(crate) answer: Option<AnsweredStep>,
    /// Reason for which the store did not answer, if it was asked.
    pub(crate) error: Option<StoreError>,
    /// Reason for which the charge of the rule at each position was not answered; empty if there is only one for the call.
    pub(crate) errors: Vec<Option<StoreError>>,
    /// Identifier of the call, if it has one and is alone in its request.
    pub(crate) request: Option<RequestId>,
    /// True if the call is decided and charged afterwards.
    pub(crate) is_deferred: bool,
    /// True if the decision tells the state of every rule.
    pub(crate) tells_all: bool,
}

impl PlannedCall<'_> {
    pub(crate) fn new(number: u64, bounds: TimeBounds) -> Self {
        let (matched, verdicts) = (MatchedRules::new(), Verdicts::new());
        let (shadowed, combined) = (ShadowedRules::new(), combine(&[]));
        Self {
            number,
            matched,
            rejection: None,
            shadowed,
            bounds,
            at: bounds.latest,
            verdicts,
            combined,
            unevaluated: None,
            is_over_quota: false,
            answer: None,
            error: None,
            errors: Vec::new(),
            request: None,
            is_deferred: false,
            tells_all: false,
        }
    }

    pub(crate) fn into_owned(self) -> PlannedCall<'static> {
        PlannedCall { matched: self.matched.into_iter().map(MatchedRule::into_owned).collect(), ..self }
    }

    pub(crate) fn asks_store(&self) -> bool {
        self.verdicts.is_empty() && !self.matched.is_empty()
    }

    pub(crate) fn has_charges(&self) -> bool {
        self.asks_store() || self.is_deferred
    }

    /// Sets the instant at which an admission without an answer of the store counts.
    pub(crate) fn set_instant(&mut self, at: Timestamp) {
        self.at = self.within_leases(at);
    }

    /// Returns the instant nearest to this one at which all leases that pay for the call have been charged and last. Only those of
    /// the first counter's primary have the same clock.
    pub(crate) fn within_leases(&self, at: Timestamp) -> Timestamp {
        let primary = self.matched.first().map(|matched| matched.primary);
        let of_primary = self.matched.iter().filter(|matched| Some(matched.primary) == primary);
        let taken = of_primary.filter_map(|matched| matched.paid.as_deref()?.taken);
        taken.fold(at, |at, taken| taken.span.nearest(at))
    }

    /// Returns true if the charge of the rule at this position counts: the call is admitted, or the rule counts it anyway. Slots
    /// are held only by calls that are admitted.
    pub(crate) fn stands(&self, position: usize, held_back: bool) -> bool {
        let matched = &self.matched[position];
        let admits = || self.verdicts.get(position).copied().flatten().is_some_and(|rule| rule.verdict.admitted);
        let is_counted = matched.is_counted_always() && !matched.is_slot() && (matched.follows || admits());
        self.combined.allowed && !held_back || is_counted
    }

    /// Returns what becomes of the charge of the rule at this position, once the call is decided.
    pub(crate) fn fate(&self, position: usize, result: Option<&ChargeResult>, stands: bool, has_id: bool) -> Fate {
        let matched = &self.matched[position];
        let own_error = self.errors.get(position).copied().flatten();
        let in_store = match (result, own_error.or(self.error)) {
            (Some(result), _) => InStore::of(Ok(Some(result))),
            (None, Some(error)) if !matched.is_unasked => error.into(),
            _ => InStore::NotAsked,
        };
        let standing = if stands { ChargeStanding::Counts } else { ChargeStanding::Void };
        let traits = ChargeTraits { has_id, ..ChargeTraits::default() };
        fate(ChargeKind::of_rule(matched), standing, in_store, traits)
    }

    /// Returns true if a rule in shadow would have denied the call.
    pub(crate) fn is_shadow_denied(&self) -> bool {
        !self.shadowed.is_empty() || (0..self.matched.len()).any(|position| self.is_shadow_denied_by(position))
    }

    /// Returns true if the rule at a position is in shadow and would have denied the call.
    pub(crate) fn is_shadow_denied_by(&self, position: usize) -> bool {
        let matched = &self.matched[position];
        if !matched.rule.shadow {
            return false;
        }
        let would_deny = matched.eventual.as_deref().is_some_and(|eventual| eventual.would_deny);
        would_deny || self.result(position).is_some_and(|result| !result.verdict.admitted)
    }

    /// Returns what the store has charged for the rule at a position; none if it was not asked or did not answer.
    pub(crate) fn result(&self, position: usize) -> Option<&ChargeResult> {
        self.answer.as_ref()?.results.get(position)?.as_ref().filter(|_| !self.matched[position].is_paid())
    }

    /// Returns the instant at which the call was decided: that of the step, or the one of its plan.
    pub(crate) fn decided_at(&self) -> Timestamp {
        self.within_leases(self.answer.as_ref().map_or(self.at, |answer| answer.at))
    }

    /// Returns true if the call may take units of leases. A call with an id may have been charged before. One that passes over a quota
    /// counts as denied while units are taken.
    pub(crate) fn may_lease(&self) -> bool {
        self.request.is_none() && !self.matched.iter().any(MatchedRule::in_quota_mode)
    }

    /// Returns a flag for each rule in quota mode that may deny the call: true if it does.
    fn quotas(&self) -> impl Iterator<Item = bool> {
        let in_quota_mode =
            |(_, matched): &(usize, &MatchedRule<'_>)| matched.in_quota_mode() && !matched.never_denies();
        self.matched.iter().enumerate().filter(in_quota_mode).map(|(position, _)| self.is_denied_by(position))
    }

    fn is_denied_by(&self, position: usize) -> bool {
        self.verdicts.get(position).copied().flatten().is_some_and(|rule| !rule.verdict.admitted)
    }

    /// Returns true if the call is denied, and by rules in quota mode alone.
    fn is_denied_by_quotas(&self) -> bool {
        let mut others = self.matched.iter().enumerate().filter(|(_, matched)| !matched.in_quota_mode());
        !self.combined.allowed
            && self.rejection.is_none()
            && !others.any(|(position, matched)| !matched.rule.shadow && self.is_denied_by(position))
    }

    /// Ends what the call holds until it is decided. A late answer does not concern it.
    pub(crate) fn decided(&mut self) {
        for matched in &mut self.matched {
            matched.eventual = None;
            matched.paid.iter_mut().for_each(|paid| paid.taken = None);
        }
    }

    /// Counts the denials of the rules in shadow that deny every call, once the call is decided.
    pub(crate) fn count_shadowed(&self, context: &Context<'_>) {
        self.shadowed.iter().for_each(|index| context.active.counts[*index].shadow_denials.add(1));
    }

    pub(crate) fn set_verdicts(&mut self, bounds: TimeBounds, verdicts: Verdicts) {
        (self.combined, self.unevaluated) = (combine_enforced(&self.matched, &verdicts), None);
        (self.bounds, self.at, self.verdicts) = (bounds, bounds.latest, verdicts);
        if !self.combined.allowed {
            for position in 0..self.matched.len() {
                if let Some(denial) = never_admitted(&self.matched[position], bounds) {
                    self.show_longer(position, denial);
                }
            }
        }
        self.combined.allowed &= self.rejection.is_none();
    }

    /// Returns true if another rule has denied the call before the rule at this position was evaluated.
    pub(crate) fn is_unevaluated(&self, position: usize) -> bool {
        !self.combined.allowed && self.verdicts.get(position) == Some(&None)
    }

    /// Shows this denial by a rule that was not evaluated, if it lasts longer than the denial that is shown.
    #[cold]
    pub(crate) fn show_longer(&mut self, position: usize, denial: RuleVerdict) {
        let lasts = |position: usize, rule: RuleVerdict| {
            let matched = &self.matched[position];
            (matched.cost > matched.policy.cost_max(), rule.verdict.retry_at)
        };
        let shown = self.combined.shown.and_then(|shown| Some(lasts(shown, self.told(shown)?)));
        if self.is_unevaluated(position) && shown < Some(lasts(position, denial)) {
            let RuleVerdict { source, by, .. } = denial;
            self.combined = Combined { allowed: false, shown: Some(position), source, by };
            self.unevaluated = Some(Box::new(denial));
        }
    }

    /// Returns the verdict to tell for the rule at a position.
    pub(crate) fn told(&self, position: usize) -> Option<RuleVerdict> {
        let unevaluated = self.unevaluated.as_deref().copied().filter(|_| self.combined.shown == Some(position));
        unevaluated.or_else(|| self.verdicts.get(position).copied().flatten())
    }
}

/// Returns the denial by a rule that never admits the cost of its call: no retry of it passes. None if the rule may admit it.
fn never_admitted(matched: &MatchedRule<'_>, bounds: TimeBounds) -> Option<RuleVerdict> {
    if matched.never_denies() || matched.rule.shadow || matched.cost <= matched.policy.cost_max() {
        return None;
    }
    let until = bounds.latest.plus_ms(matched.policy.window.width_ms());
    let denial = Verdict { admitted: false, remaining: 0, retry_at: until, reset_at: until, delay_ms: 0 };
    let denial = RuleVerdict::new(&matched.policy, denial, matched.policy.quota.units(), Source::Local);
    Some(RuleVerdict { is_final: true, ..denial })
}

/// Combines the verdicts of the rules that are enforced. A rule in shadow is counted and decides nothing.
pub(crate) fn combine_enforced(matched: &[MatchedRule], verdicts: &[Option<RuleVerdict>]) -> Combined {
    let enforced = |(verdict, matched): (&Option<RuleVerdict>, &MatchedRule)| {
        let verdict = verdict.filter(|_| !matched.rule.shadow)?;
        let is_final = !verdict.verdict.admitted && matched.cost > matched.policy.cost_max();
        Some(RuleVerdict { is_final, ..verdict })
    };
    combine(&verdicts.iter().zip(matched).map(enforced).collect::<SmallVec<[_; 8]>>())
}

/// Returns true if a request is denied whatever the store answers: by a rule that is not in quota mode, or by all rules in quota mode.
pub(crate) fn are_denied(calls: &[PlannedCall<'_>]) -> bool {
    let denied = || calls.iter().filter(|planned| !planned.combined.allowed);
    denied().next().is_some()
        && (denied().any(|planned| !planned.is_denied_by_quotas())
            || calls.iter().flat_map(PlannedCall::quotas).all(|denies| denies))
}

/// Allows the calls of a request that rules in quota mode deny, unless the request is denied.
pub(crate) fn allow_over_quota(calls: &mut [PlannedCall<'_>]) {
    if are_denied(calls) {
        return;
    }
    for planned in calls.iter_mut().filter(|planned| !planned.combined.allowed) {
        (planned.combined.allowed, planned.is_over_quota) = (true, true);
    }
}
