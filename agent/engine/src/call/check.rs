//! Check: the decisions of the calls of one request, charged all or none in one step of the store.
//!
//! Most requests are one call. Requests of several descriptors (`/json`, Envoy's protocol) are several: each call has a
//! decision of its own; if one of them is denied, the enforced charges of the others do not count, and their decisions show
//! the counters without them. A counter that several calls share is charged once, with the sum of their costs.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResult, StoreError};
use tollgate_core::decision::Decision;
use tollgate_core::rules::{MatchScope, Positions};

use crate::call::decide::verdicts_of;
use crate::call::known_calls::FoundRule;
use crate::call::leases::payments::Payments;
use crate::call::plan_call::PlanInstant;
use crate::call::planned_call::{AnsweredStep, PlannedCall, StepResults, Verdicts, allow_over_quota};
use crate::counters::{LockedTable, StoreAccess};
use crate::engine::{Context, Engine};
use crate::rules::{ActiveRules, Charges, MatchedRule};

/// Calls of one request. A single call needs no allocation.
pub(crate) type PlannedCalls<'a> = SmallVec<[PlannedCall<'a>; 1]>;

/// Decisions of the calls of one request, in their order.
pub type Decisions = SmallVec<[Decision; 1]>;

/// Calls of a request, as far as they need no store.
pub(crate) enum BegunCalls<'a> {
    Decided(Decisions),
    /// The calls are decided, and are charged afterwards.
    Deferred(Decisions, PlannedCalls<'a>),
    AskStore(PlannedCalls<'a>),
}

/// Way in which the check of one call begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning<'f> {
    /// Rule of the call, if it was found before.
    pub(crate) found: Option<&'f FoundRule>,
    /// True if the call is decided at once or not at all.
    pub(crate) is_tried: bool,
    /// True if a request to the store is sent. Else the views do not note that the store is asked.
    pub(crate) may_ask: bool,
}

impl Beginning<'_> {
    /// Check that waits for the store if it must.
    pub(crate) const WAITING: Self = Self { found: None, is_tried: false, may_ask: true };
}

impl Engine {
    /// Decides the calls of a request, unless the store must be asked. None if a call that is only tried is not begun, because what
    /// the sketch or the signals would enter could not be given back: nothing has happened then.
    pub(crate) fn begin_calls<'a>(
        &self,
        context: &Context<'a>,
        calls: &[Call<'_>],
        scope: MatchScope<'_>,
        beginning: Beginning<'_>,
    ) -> Option<BegunCalls<'a>> {
        if let Some(limit) = &context.active.emergency {
            return Some(BegunCalls::Decided(self.decide_in_emergency(context, limit, calls, scope)));
        }
        if let [call] = calls {
            return self.check_alone(context, call, scope, beginning);
        }
        let mut planned = self.plan_calls(context, calls, scope);
        if planned.iter().any(PlannedCall::asks_store) {
            return Some(BegunCalls::AskStore(planned));
        }
        let decisions = self.answer_all(context, calls, &mut planned);
        let is_deferred = planned.iter().any(|planned| planned.is_deferred);
        Some(if is_deferred { BegunCalls::Deferred(decisions, planned) } else { BegunCalls::Decided(decisions) })
    }

    /// Decides the only call of a request, unless the store must be asked. With counts in the own table, the call is
    /// charged in the same step, so that each of its counters is locked once.
    fn check_alone<'a>(
        &self,
        context: &Context<'a>,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        beginning: Beginning<'_>,
    ) -> Option<BegunCalls<'a>> {
        let mut planned = self.unplanned(context, call, scope);
        // A request that may have been charged asks the store.
        let may_lease = planned.request.is_none() && !self.settings.owns_table;
        let mut table = self.plan_call(context, call, scope, &mut planned, may_lease, beginning)?;
        if planned.asks_store() {
            if !self.settings.owns_table {
                return Some(BegunCalls::AskStore(smallvec![planned]));
            }
            let mut charges = Charges::new();
            self.add_charges(context, &planned, false, Self::deadline(&planned.matched), &mut charges);
            let results = table.charge(&charges, context.now).unwrap_or_default();
            let share = |(charge, result): (&Charge, &ChargeResult)| result.share(charge, 0, charge.cost);
            let mut applied = charges.iter().zip(&results).map(share);
            let result = |matched: &MatchedRule<'_>| matched.own_verdict().is_none().then(|| applied.next()).flatten();
            let results: StepResults = planned.matched.iter().map(result).collect();
            let verdicts = verdicts_of(&planned.matched, &results);
            planned.answer = Some(AnsweredStep { at: context.now, results });
            planned.set_verdicts(context.bounds, verdicts);
        }
        drop(table);
        allow_over_quota(slice::from_mut(&mut planned));
        let decision = self.answer(context, call, &planned, false);
        planned.decided();
        let decisions = smallvec![decision];
        Some(if planned.is_deferred {
            BegunCalls::Deferred(decisions, smallvec![planned])
        } else {
            BegunCalls::Decided(decisions)
        })
    }

    fn plan_calls<'a>(&self, context: &Context<'a>, calls: &[Call<'_>], scope: MatchScope<'_>) -> PlannedCalls<'a> {
        let excluded = excluded(context.active, calls, scope);
        let scope = MatchScope { excluded: &excluded, ..scope };
        let plan = |call| {
            let mut planned = self.unplanned(context, call, scope);
            // Another call of the request may hold back this one, so it spends no lease.
            drop(self.plan_call(context, call, scope, &mut planned, false, Beginning::WAITING));
            planned
        };
        calls.iter().map(plan).collect()
    }

    /// Returns the decisions of the calls of a request, once each call has its verdicts.
    pub(crate) fn answer_all(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        planned: &mut [PlannedCall<'_>],
    ) -> Decisions {
        allow_over_quota(planned);
        let held_back = planned.iter().any(|planned| !planned.combined.allowed);
        let decide = |(call, planned)| self.answer(context, call, planned, held_back);
        let decisions = calls.iter().zip(&*planned).map(decide).collect();
        planned.iter_mut().for_each(PlannedCall::decided);
        decisions
    }

    /// Plans one call, and returns the locked shards of its counters. The store may not be asked while the breaker is
    /// open, nor about a counter that lacks more units than the call can carry to it. None if the call is not begun.
    fn plan_call<'a>(
        &self,
        context: &Context<'a>,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        planned: &mut PlannedCall<'a>,
        may_lease: bool,
        beginning: Beginning<'_>,
    ) -> Option<LockedTable<'_>> {
        let PlannedCall { matched, shadowed, .. } = planned;
        if let Some(found) = beginning.found.and_then(|found| found.matched(context, call)) {
            matched.push(found);
        } else if let Err(rejection) = self.match_call(context, call, scope, false, matched, shadowed) {
            planned.matched.clear();
            planned.rejection = Some(rejection);
        }
        let mut table = self.place(context, &mut planned.matched, beginning.is_tried)?;
        let deadline = Self::deadline(&planned.matched);
        self.set_access(context.now, deadline, &mut planned.matched, &mut table);
        let is_open = |matched: &MatchedRule<'_>| matched.access == StoreAccess::Open;
        let may_lease = may_lease && planned.may_lease() && planned.matched.iter().all(is_open);
        let mut payments = Payments::new();
        if may_lease {
            payments = self.payments(context, &planned.matched, &mut table, Some(deadline));
            self.note_demand(&mut planned.matched, &mut table);
        }
        let asks = !self.settings.owns_table && beginning.may_ask;
        let verdicts = self.plan(context, &mut planned.matched, &mut table, PlanInstant::Now, &payments, &[]);
        // If the request is not sent, the views note nothing.
        if verdicts.as_ref().map_or(asks, is_admitted) {
            Self::take_payments(&mut planned.matched, &payments, &mut table);
        }
        let is_planned =
            |matched: &MatchedRule<'_>| matched.eventual.as_deref().is_some_and(|eventual| eventual.is_unsynced);
        if verdicts.is_none() && !beginning.may_ask && planned.matched.iter().any(is_planned) {
            // The call is not begun, so that a rule whose primary does not answer has admitted nothing either.
            drop(table);
            self.give_back_left(context.active.order, slice::from_ref(planned));
            return None;
        }
        if verdicts.is_none() && asks {
            for matched in planned.matched.iter().filter(|matched| matched.own_verdict().is_none()) {
                table.view(matched.counter).ask_store(context.now, context.bounds_of(matched.primary));
            }
            if may_lease {
                self.want_leases(context, &mut planned.matched, &mut table);
            }
        }
        if planned.matched.iter().any(|matched| matched.follows) {
            // The request contains no rule whose primary does not answer.
            for (matched, verdict) in planned.matched.iter_mut().zip(verdicts.iter().flatten()) {
                matched.is_unasked |= verdict.is_some_and(|rule| rule.source.is_degraded());
            }
            // As for a call whose answer is late.
            (planned.is_deferred, planned.error) = (true, Some(StoreError::TimedOut));
        }
        planned.set_verdicts(context.bounds, verdicts.unwrap_or_default());
        if !planned.combined.allowed {
            Self::show_known_denials(context, planned, &mut table);
        }
        planned.set_instant(planned.matched.first().map_or(context.bounds.latest, |matched| matched.at));
        Some(table)
    }

    /// Sets the access of a call to the primary of each of its counters.
    fn set_access(
        &self,
        now: Timestamp,
        deadline: Duration,
        matched: &mut [MatchedRule<'_>],
        table: &mut LockedTable<'_>,
    ) {
        for place in 0..matched.len() {
            let primary = matched[place].primary;
            let known =
                matched[..place].iter().find(|earlier| earlier.primary == primary).map(|earlier| earlier.access);
            matched[place].access = known.unwrap_or_else(|| self.access(now, primary, deadline, matched, table));
        }
    }

    /// Returns a call before its plan: its number and its request.
    fn unplanned<'a>(&self, context: &Context<'a>, call: &Call<'_>, scope: MatchScope<'_>) -> PlannedCall<'a> {
        let request = call.id().map(|id| self.settings.digest_key.request(id, call.cost(), call.descriptors()));
        PlannedCall { request, tells_all: scope.tells_all, ..PlannedCall::new(self.ids.next(), context.bounds) }
    }
}

pub(super) fn is_admitted(verdicts: &Verdicts) -> bool {
    verdicts.iter().flatten().all(|rule| rule.verdict.admitted)
}

/// Returns the rules that apply to none of the calls: those outside the scope, and those that a rule of any call replaces.
fn excluded(active: &ActiveRules, calls: &[Call<'_>], scope: MatchScope<'_>) -> Vec<Arc<str>> {
    let mut excluded = scope.excluded.to_vec();
    // A call alone excludes what it replaces when it is matched.
    let replacing = calls.len() > 1 && active.set.rules.iter().any(|rule| !rule.replaces.is_empty());
    for call in calls.iter().filter(|_| replacing) {
        let resolved = active.set.resolved_within(call, scope);
        let applicable = active
            .set
            .applicable_among(&resolved, active.index.candidates(&resolved, &mut Positions::new()).iter().copied());
        excluded.extend(applicable.iter().flat_map(|applicable| applicable.replaced(&resolved)).cloned());
    }
    excluded
}
