//! From verdicts to a decision: plan, combine, publish, update the views, and make the answer.
//!
//! Every call comes here, so that it is published, counted and answered in the same way whoever decided it. The
//! decision of a single counter is in `enforce`.

use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResult, CounterId, RequestId};
use tollgate_core::decision::{Decision, LocalAnswer, Source};
use tollgate_core::messages::calls::{DenialCause, Outcome};
use tollgate_core::rules::{Consistency, LimitPolicy};

use crate::call::planned_call::{PlannedCall, Verdicts};
use crate::call::record::{CallHome, CallRow, signed};
use crate::counters::{Combined, RuleVerdict, Unsynced, ViewEvent, combine};
use crate::engine::{Context, Engine};
use crate::rules::MatchedRule;
use crate::store::Fate;

/// Facts about one rule of an answered call, from which its view follows.
struct AnsweredRule<'a> {
    /// The charge in the store, unless another store or a lease has decided.
    result: Option<&'a ChargeResult>,
    at: Timestamp,
    /// Round of the published row.
    round: Option<u64>,
    /// The charge stands: the call is admitted, or the rule counts it always.
    stands: bool,
    fate: Fate,
}

impl Engine {
    /// Decides a call: publishes its charges, updates the views, and makes the answer. While another call of the request is
    /// denied, the enforced charges of this one are held back and do not count.
    pub(crate) fn answer(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        planned: &PlannedCall<'_>,
        held_back: bool,
    ) -> Decision {
        let PlannedCall { number, matched, rejection, combined, .. } = planned;
        let Combined { allowed, shown, source, by } = *combined;
        let (decider, counts) = match (rejection, shown.map(|shown| &matched[shown])) {
            (Some(rejection), _) => (Some(&*rejection.by), &rejection.counts),
            (None, Some(shown)) => (Some(&*shown.rule.name), &context.active.counts[shown.index]),
            (None, None) => (None, self.rules.unlimited()),
        };
        counts.decided(source, allowed);
        let told = shown.and_then(|shown| planned.told(shown));
        if allowed && !held_back && call.cost() > 0 && told.is_some_and(|rule| rule.is_near_limit()) {
            counts.came_near_limit();
        }
        planned.count_shadowed(context);
        let denied = (!allowed).then(|| DenialCause::by_rules(rejection.is_some(), source, by));
        let remaining = told.map(|rule| rule.verdict.remaining);
        // The first row is the home row.
        let mut home = Some(CallHome { decider, shadow_denied: planned.is_shadow_denied(), denied, remaining });
        for position in 0..matched.len() {
            self.account_for(context, call, planned, position, held_back, &mut home);
        }
        if matched.is_empty() {
            let outcome = denied.map_or(Outcome::Admitted, Outcome::Denied);
            let row = CallRow::new(*number, planned.decided_at(), signed(call.cost()), outcome, source);
            self.publish(context, call, None, row, home);
        }
        self.decision(context, call, planned, held_back)
    }

    /// Accounts for the rule of a call at a position: its row, its counts, its view, and what the call holds or gives back under it.
    fn account_for(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        planned: &PlannedCall<'_>,
        position: usize,
        held_back: bool,
        home: &mut Option<CallHome<'_>>,
    ) {
        let matched = &planned.matched[position];
        let counts = &context.active.counts[matched.index];
        let verdict = planned.verdicts.get(position).copied().flatten();
        let result = planned.result(position);
        let stands = planned.stands(position, held_back);
        self.resolve_payment(context, matched, stands);
        match verdict.and_then(|rule| rule.by) {
            Some(LocalAnswer::Part) if stands => counts.late_part_units.add(matched.unpaid()),
            Some(LocalAnswer::Late) => {
                counts.late_denials.add(1);
                self.reports.note_late_denial(context.now);
            }
            _ => {}
        }
        let charged_at = planned.counted_at(position);
        let at = planned.planned_at(position);
        let fate = planned.fate(position, result, stands, call.id().is_some());
        // The slot of a denied call without an id is held for nobody.
        let holds_none = matched.is_slot() && !stands && call.id().is_none();
        // A rule that is counted always may have been charged although the call was denied.
        let is_charged = |result: &ChargeResult| {
            result.charged && (result.verdict.admitted || matched.never_denies()) && !holds_none
        };
        let by_store = !self.settings.owns_table && matched.sketched.is_none();
        let is_new = |r: &ChargeResult| is_charged(r) && !r.repeated && r.born > Timestamp::default();
        // Units that a sketch keeps of a denied call are of no call in the log.
        let outcome = if by_store && result.is_some_and(is_new) {
            Outcome::Charged
        } else if stands || result.is_some_and(is_charged) {
            Outcome::Admitted
        } else {
            let Combined { allowed, shown, source, by } = planned.combined;
            let denied = (!allowed && shown == Some(position))
                .then(|| DenialCause::by_rules(planned.rejection.is_some(), source, by));
            denied.map_or(Outcome::Spared, Outcome::Denied)
        };
        let cost = if result.is_some_and(|result| result.repeated) { 0 } else { signed(matched.cost) };
        let shadow_denied = planned.is_shadow_denied_by(position);
        let source = if home.is_some() { None } else { verdict.map(|rule| rule.source) };
        let source = source.unwrap_or(planned.combined.source);
        let row = CallRow { call: planned.number, at: charged_at, cost, outcome, shadow_denied, source };
        let round = self.publish(context, call, Some(matched.charged_counter()), row, home.take());
        if shadow_denied {
            counts.shadow_denials.add(1);
        }
        if matched.sketched.is_some() {
            return;
        }
        if let Some(result) = result.filter(|_| fate == Fate::Refund) {
            self.give_back_slots(context, matched, result.at);
        }
        self.update_view(context, planned, position, &AnsweredRule { result, at, round, stands, fate });
    }

    /// Makes the answer to a call.
    fn decision(&self, context: &Context<'_>, call: &Call<'_>, planned: &PlannedCall<'_>, held_back: bool) -> Decision {
        let PlannedCall { number, matched, rejection, bounds, verdicts, combined, .. } = planned;
        let Combined { allowed, shown, source, by } = *combined;
        // Waits count from the store's step, or from the earliest that the store's time may be: never too short.
        let from = planned.answer.as_ref().map_or(bounds.earliest, |answer| answer.at);
        let shown = shown.or_else(|| combine(verdicts).shown);
        let status_of = |place: usize| {
            let (matched, verdict) = (matched.get(place)?, planned.told(place)?);
            let from = if context.store.has_several_primaries() { planned.waits_from(context, place) } else { from };
            Some(matched.status(context.active, matched.cost, verdict, from))
        };
        let status = shown.and_then(status_of);
        // A rule that cannot deny makes no call wait.
        let waits = matched.iter().zip(verdicts).filter(|(matched, _)| !matched.never_denies());
        let delays = waits.filter_map(|(_, rule)| Some(rule.as_ref()?.verdict.delay_ms));
        let id = self.ids.decision(*number, matched.first().map(|matched| matched.counter));
        let at = if matched.is_empty() { planned.decided_at() } else { planned.counted_at(0) };
        let mut decision = Decision::new(allowed, source, at, id);
        decision.by = by.filter(|_| rejection.is_none());
        decision.status = rejection.as_ref().map(|rejection| rejection.status(call.cost())).or(status);
        if planned.tells_all {
            decision.others = (0..matched.len()).filter(|place| shown != Some(*place)).filter_map(status_of).collect();
        }
        (decision.is_over_quota, decision.is_shadow_denied) = (planned.is_over_quota, planned.is_shadow_denied());
        if let (true, Some(status)) = (planned.is_over_quota, &mut decision.status) {
            status.retry_after_ms = 0;
        }
        if !self.settings.store.has_one_step() {
            decision.counted_after_ms = planned.counted_after_ms();
        }
        decision.delay_ms = if allowed { delays.max().unwrap_or(0) } else { 0 };
        decision.holds_slots = allowed && !held_back && matched.iter().any(MatchedRule::is_slot);
        decision
    }

    /// Tells the view of a counter what a call has charged on it.
    fn update_view(
        &self,
        context: &Context<'_>,
        planned: &PlannedCall<'_>,
        position: usize,
        answered: &AnsweredRule<'_>,
    ) {
        let AnsweredRule { result, at, round, stands, fate } = *answered;
        let generation = context.active.order;
        let matched = &planned.matched[position];
        let eventual = matched.eventual.as_deref();
        let verdict = eventual.map(|eventual| eventual.rule).or(planned.verdicts[position]);
        // Until now, the view counts an admission without a store as of its plan.
        let planned_at = eventual.map_or(at, |eventual| eventual.at);
        let admitted = |units, is_demand| {
            let (is_planned, unsynced, acknowledged) = (false, None, None);
            ViewEvent::Admitted { at, units, is_planned, round, unsynced, acknowledged, is_demand }
        };
        let event = match (result, verdict) {
            (Some(result), _) if !self.settings.owns_table => {
                let units = if matches!(fate, Fate::Keep | Fate::KeepForRetry) { matched.cost } else { 0 };
                let answer = (units > 0 && !matched.is_passing)
                    .then(|| self.store.acknowledgement(context.now, matched, result));
                let is_demand = matched.is_demand && planned.combined.allowed;
                ViewEvent::Answered { result, units, round, acknowledged: answer, is_demand }
            }
            _ if matched.follows && stands => {
                let unsynced = (fate == Fate::Backfill).then(|| self.unsynced_of(planned, at, matched.cost));
                let (units, is_planned, acknowledged, is_demand) = (matched.cost, false, None, false);
                ViewEvent::Admitted { at, units, is_planned, round, unsynced, acknowledged, is_demand }
            }
            _ if matched.is_paid() && stands => admitted(matched.cost, matched.is_demand),
            _ if matched.is_paid() => return,
            (None, Some(rule)) if rule.verdict.admitted && stands => {
                let units = matched.unpaid();
                if units < matched.cost {
                    self.store.update_counter(matched, generation, admitted(matched.cost - units, false));
                }
                let is_unsynced = fate == Fate::Backfill && eventual.is_none_or(|eventual| eventual.is_unsynced);
                let unsynced = is_unsynced.then(|| self.unsynced_of(planned, at, units));
                let is_planned = planned_at == at;
                if !is_planned {
                    self.give_back_planned(generation, matched, planned_at);
                }
                ViewEvent::Admitted { at, units, is_planned, round, unsynced, acknowledged: None, is_demand: false }
            }
            (None, Some(rule)) if rule.verdict.admitted => {
                self.give_back_planned(generation, matched, planned_at);
                return;
            }
            _ => return,
        };
        self.store.update_counter(matched, generation, event);
        if let Some(result) = result {
            self.store.forget_outdated(context.now, matched.counter, result.at);
        }
    }

    /// Returns units of a call that was admitted without the store. A call with an id is backfilled under it. If the
    /// store has charged the call or a retry of it after all, it does not charge it again.
    pub(crate) fn unsynced_of(&self, planned: &PlannedCall<'_>, at: Timestamp, units: u64) -> Unsynced {
        self.unsynced_units(planned.number, planned.request, at, units)
    }

    /// Returns the number of agents on which a unit of a counter is placed before this one; none if units are not
    /// placed. Units are placed under a strict rule with fewer units than there are agents.
    pub(crate) fn rank_of(&self, policy: &LimitPolicy, counter: CounterId) -> Option<u32> {
        let is_placed =
            policy.consistency == Consistency::Strict && policy.quota.units() < u64::from(self.fleet.size().get());
        is_placed.then(|| self.fleet.rank(counter)).flatten()
    }

    /// Returns units that were admitted for the call of this number without the store.
    pub(crate) fn unsynced_units(&self, call: u64, request: Option<RequestId>, at: Timestamp, units: u64) -> Unsynced {
        self.store.unsynced(request, self.ids.backfill(call), at, units)
    }
}

/// Returns the verdicts of the rules of a call by the results of the store, and by what the agent itself has answered.
pub(crate) fn verdicts_of(matched: &[MatchedRule<'_>], results: &[Option<ChargeResult>]) -> Verdicts {
    let verdict_of = |(matched, result): (&MatchedRule<'_>, &Option<ChargeResult>)| {
        let Some(result) = result else { return matched.own_verdict() };
        let admitted = result.verdict.admitted || matched.never_denies();
        let verdict = Verdict { admitted, ..result.verdict };
        Some(RuleVerdict::new(&matched.policy, verdict, result.limit, Source::Store))
    };
    matched.iter().zip(results).map(verdict_of).collect()
}
