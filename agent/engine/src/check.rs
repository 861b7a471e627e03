//! Check: the decisions of the calls of one request, charged all or none in one step of the store.
//!
//! Most requests are one call. Requests of several descriptors (`/json`, Envoy's protocol) are several: each call has a
//! decision of its own; if one of them is denied, the enforced charges of the others do not count, and their decisions show
//! the counters without them. A counter that several calls share is charged once, with the sum of their costs.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults};
use tollgate_core::decision::Decision;
use tollgate_core::rules::{Consistency, MatchScope, Positions};

use crate::active_rules::ActiveRules;
use crate::decide::verdicts_of;
use crate::enforce::StoreAccess;
use crate::engine::{Context, Engine};
use crate::joint_charge::{join, part_of};
use crate::leases::Sending;
use crate::matched_rule::{Charges, MatchedRule};
use crate::planned_call::PlannedCall;
use crate::table::LockedTable;
use tollgate_core::counter::StoreError;

/// Calls of one request. A single call needs no allocation.
pub(crate) type PlannedCalls<'a> = SmallVec<[PlannedCall<'a>; 1]>;

/// Decisions of the calls of one request, in their order.
pub type Decisions = SmallVec<[Decision; 1]>;

/// Decision on the only call of a request, as far as it needs no store.
pub(crate) enum CheckedAlone<'a> {
    Decided(Decision),
    /// The call is decided, and is charged afterwards.
    Deferred(Decision, PlannedCall<'a>),
    AsksStore(PlannedCall<'a>),
}

impl Engine {
    /// Decides the only call of a request, unless the store must be asked. With counts in the own table, the call is
    /// charged in the same step, so that each of its counters is locked once.
    pub(crate) fn check_alone<'a>(
        &self,
        context: &Context<'a>,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        may_ask: bool,
    ) -> CheckedAlone<'a> {
        let mut planned = self.unplanned(context, call);
        // A request that may have been charged asks the store.
        let may_lease = planned.request.is_none() && !self.settings.owns_table;
        let mut table = self.plan_call(context, call, scope, &mut planned, may_lease, may_ask);
        if planned.asks_store() {
            if !self.settings.owns_table {
                return CheckedAlone::AsksStore(planned);
            }
            let mut charges = Charges::new();
            self.add_charges(context, &planned, false, Self::expiry(context, &planned).1, &mut charges);
            let results = table.charge(&charges, context.now).unwrap_or_default();
            let whole = |(charge, result): (&Charge, &ChargeResult)| part_of(result, charge, 0, charge.cost);
            let mut applied = charges.iter().zip(&results).map(whole);
            let result = |matched: &MatchedRule<'_>| matched.own_result(context.now).or_else(|| applied.next());
            planned.results = planned.matched.iter().filter_map(result).collect();
            planned.set_verdicts(context.bounds, verdicts_of(&planned.matched, &planned.results));
        }
        drop(table);
        let decision = self.answer(context, call, &planned, false);
        if planned.is_deferred { CheckedAlone::Deferred(decision, planned) } else { CheckedAlone::Decided(decision) }
    }

    pub(crate) fn plan_calls<'a>(
        &self,
        context: &Context<'a>,
        calls: &[Call<'_>],
        scope: MatchScope<'_>,
    ) -> PlannedCalls<'a> {
        let excluded = excluded(context.active, calls, scope);
        let scope = MatchScope { excluded: &excluded, ..scope };
        let plan = |call| {
            let mut planned = self.unplanned(context, call);
            // Another call of the request may hold back this one, so it spends no lease.
            drop(self.plan_call(context, call, scope, &mut planned, false, true));
            planned
        };
        calls.iter().map(plan).collect()
    }

    /// Begins the charges of planned calls. Returns them and the shortest deadline of the rules that are charged. If another
    /// call is denied already, the enforced charges are only evaluated.
    pub(crate) fn begin_check(&self, context: &Context<'_>, planned: &[PlannedCall<'_>]) -> (Charges, Duration) {
        let asking = || planned.iter().filter(|planned| planned.has_charges());
        let expiries = asking().map(|planned| Self::expiry(context, planned));
        let (deadline, expires_at) = expiries.min().unwrap_or_default();
        let is_denied = planned.iter().any(|planned| !planned.combined.allowed);
        let mut charges = Charges::new();
        for planned in asking() {
            self.add_charges(context, planned, is_denied, expires_at, &mut charges);
        }
        (charges, deadline)
    }

    /// Returns the shortest deadline of the rules of a call for which the store is asked, and the instant at which it
    /// ends. The instant is counted from the latest that the store's clock may show. No caller waits past it.
    fn expiry(context: &Context<'_>, planned: &PlannedCall<'_>) -> (Duration, Timestamp) {
        let asking = planned.matched.iter().filter(|matched| matched.policy.consistency != Consistency::Eventual);
        let deadline = asking.map(|matched| matched.policy.deadline).min().unwrap_or_default();
        (deadline, context.bounds.latest.plus_ms(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)))
    }

    fn add_charges(
        &self,
        context: &Context<'_>,
        planned: &PlannedCall<'_>,
        is_denied: bool,
        expires_at: Timestamp,
        charges: &mut Charges,
    ) {
        for matched in planned.matched.iter().filter(|matched| matched.own_verdict().is_none()) {
            let mode = match (matched.is_counted_always(), is_denied, matched.wanted) {
                (true, ..) => ChargeMode::CountOnly { expires_at },
                (false, true, _) => ChargeMode::Evaluate { expires_at },
                (false, false, None) => ChargeMode::Enforce { expires_at },
                (false, false, Some(units_max)) => {
                    let (units_max, agents) = (units_max.get(), self.fleet.size().get());
                    ChargeMode::Lease { expires_at, units_max, agents }
                }
            };
            let charge = Charge {
                request: planned.request,
                ..matched.charge(context.active.set.generation, matched.cost, mode)
            };
            match charges.iter_mut().find(|known| matched.shares(known)) {
                Some(known) => join(known, &charge, &self.settings.digest_key),
                None => charges.push(charge),
            }
            charges.extend(matched.line_charges(context.active.set.generation, expires_at));
        }
    }

    /// Decides the calls of a request as if one had come after the other.
    pub(crate) fn finish_check(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        planned: &mut [PlannedCall<'_>],
        charges: &[Charge],
        sent: Sending,
        answer: &Result<ChargeResults, StoreError>,
    ) -> Decisions {
        let (sent_at, may_lease) = (sent.at, calls.len() == 1 && planned[0].request.is_none());
        if let Ok(results) = answer {
            self.take_leases(context.now, context.active, planned, charges, results, sent);
        }
        // Cost of the earlier calls in each charge.
        let mut before: SmallVec<[u64; 8]> = smallvec![0; charges.len()];
        for planned in planned.iter_mut().filter(|planned| planned.asks_store()) {
            let mut at = context.bounds.latest;
            let verdicts = match answer {
                Ok(results) => {
                    let at = results.first().map_or(at, |result| result.at);
                    let part = |matched: &MatchedRule<'_>| {
                        if let Some(result) = matched.own_result(at) {
                            return Some(result);
                        }
                        let mut evaluated = charges.iter().zip(results).zip(&mut before);
                        let ((charge, result), before) = evaluated.find(|((charge, _), _)| matched.shares(charge))?;
                        let result = part_of(result, charge, *before, matched.cost);
                        *before = before.saturating_add(matched.cost);
                        Some(result)
                    };
                    planned.results = planned.matched.iter().filter_map(part).collect();
                    verdicts_of(&planned.matched, &planned.results)
                }
                Err(error) => {
                    planned.error = Some(*error);
                    // The store may have charged the call from its sending on: decided later, it would leave the
                    // store's window before it leaves that of the decision.
                    if error.may_have_charged() {
                        at = context.bounds.earliest.minus_ms(context.now.ms_since(sent_at));
                    }
                    let deadline = Self::expiry(context, planned).0;
                    let is_late = error.may_pass() && !self.breaker.is_open_for(deadline);
                    let store = if is_late { StoreAccess::Late } else { StoreAccess::Closed };
                    let mut table = self.table.lock(planned.matched.iter().map(|matched| matched.counter));
                    let may_spend = is_late && may_lease;
                    let leased = may_spend.then(|| self.spend_leases(context, &planned.matched, &mut table, at));
                    if let Some((verdicts, leased_at)) = leased.flatten() {
                        at = leased_at;
                        verdicts
                    } else if let Some(verdicts) =
                        may_spend.then(|| self.draw_lines(context, &mut planned.matched, &mut table, true)).flatten()
                    {
                        verdicts
                    } else {
                        self.plan(context, &mut planned.matched, &mut table, store, at).unwrap_or_default()
                    }
                }
            };
            planned.set_verdicts(context.bounds, verdicts);
            planned.at = at;
        }
        let held_back = planned.iter().any(|planned| !planned.combined.allowed);
        let decide = |(call, planned)| self.answer(context, call, planned, held_back);
        let decisions = calls.iter().zip(&*planned).map(decide).collect();
        // Their admissions are entered, or given back: a late answer does not concern them.
        planned.iter_mut().flat_map(|planned| &mut planned.matched).for_each(|matched| matched.eventual = None);
        decisions
    }

    /// Plans one call, and returns the locked shards of its counters. The store may not be asked while the breaker is
    /// open, nor about a counter that lacks more units than the call can carry to it. If the request may not be sent,
    /// the views do not note that the store is asked.
    fn plan_call<'a>(
        &self,
        context: &Context<'a>,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        planned: &mut PlannedCall<'a>,
        may_lease: bool,
        may_ask: bool,
    ) -> LockedTable<'_> {
        let PlannedCall { matched, shadowed, .. } = planned;
        if let Err(rejection) = self.match_call(context, call, scope, false, matched, shadowed) {
            planned.matched.clear();
            planned.rejection = Some(rejection);
        }
        let mut table = self.place(context, &mut planned.matched);
        let is_open = || self.breaker.is_open_for(Self::expiry(context, planned).0);
        let store = if self.is_degraded() && is_open() || !self.can_carry(&planned.matched, &mut table) {
            StoreAccess::Closed
        } else if self.breaker.is_recovering(context.now) && !self.fleet.is_guessed() {
            StoreAccess::Recovering
        } else {
            StoreAccess::Open
        };
        let (latest, may_lease) = (context.bounds.latest, may_lease && store == StoreAccess::Open);
        if may_lease && let Some((verdicts, at)) = self.spend_leases(context, &planned.matched, &mut table, latest) {
            planned.set_verdicts(context.bounds, verdicts);
            planned.at = at;
            return table;
        }
        if may_lease && let Some(verdicts) = self.draw_lines(context, &mut planned.matched, &mut table, false) {
            planned.set_verdicts(context.bounds, verdicts);
            // As for a call whose answer is late.
            (planned.is_deferred, planned.error) = (true, Some(StoreError::TimedOut));
            self.want_leases(context, &mut planned.matched, &mut table);
            return table;
        }
        let verdicts = self.plan(context, &mut planned.matched, &mut table, store, latest);
        if verdicts.is_none() && !self.settings.owns_table && may_ask {
            for matched in &planned.matched {
                table.view(matched.counter).ask_store(&matched.policy, context.now, context.bounds);
            }
            if may_lease {
                self.want_leases(context, &mut planned.matched, &mut table);
            }
        }
        planned.set_verdicts(context.bounds, verdicts.unwrap_or_default());
        table
    }

    /// Returns a call before its plan: its number and its request.
    fn unplanned<'a>(&self, context: &Context<'a>, call: &Call<'_>) -> PlannedCall<'a> {
        let request = call.id().map(|id| self.settings.digest_key.request(id, call.cost()));
        PlannedCall { request, ..PlannedCall::new(self.next_call(), context.bounds) }
    }

    #[inline]
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.next()
    }
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
        let verified = applicable.iter().filter(|applicable| resolved.satisfies(&applicable.rule.matches, true));
        excluded.extend(verified.flat_map(|applicable| &applicable.rule.replaces).cloned());
    }
    excluded
}
