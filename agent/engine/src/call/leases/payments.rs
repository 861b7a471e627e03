//! Payments: which leases pay for a call, and what becomes of the units that it takes.
//!
//! Each counter of a call that holds leased units pays for the call, or for a part of its cost. If all pay, the call
//! is decided at once. Otherwise the store is asked about the rest, in a step that expires before the leases end: the step runs
//! within their sub-windows and terms, or not at all. So all units of the call lie at one instant, although the step does not
//! know the leases. A lease that ends sooner does not pay.
//!
//! A call that the store denies is paid as well if leases have come while it was in flight.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::decision::LocalAnswer;

use crate::call::planned_call::{PlannedCall, Verdicts, combine_enforced};
use crate::counters::{Enforcement, LeasedCall, LockedTable, RuleVerdict, ViewEvent, take_leased, update};
use crate::engine::{Context, Engine};
use crate::rules::{MatchedRule, Payment};

/// Part of each charge of a call that a lease pays.
pub(crate) type Payments = SmallVec<[Option<LeasedCall>; 2]>;

/// Returns the time in ms by which a step may expire later by the clock of another primary than by that of a lease: the clock of
/// the step may show as much less than the latest that it may show.
fn spread_ms(context: &Context<'_>, matched: &[MatchedRule<'_>]) -> u64 {
    if !context.store.has_several_primaries() {
        return 0;
    }
    matched.iter().map(|matched| context.bounds_of(matched.primary).width_ms()).max().unwrap_or_default()
}

impl Engine {
    /// Returns the leases that pay for a call, of each of its rules. If they do not pay for all of it, `deadline` is that of the
    /// step about the rest; there is none if no step follows. Then a lease pays the whole cost or nothing.
    pub(crate) fn payments(
        &self,
        context: &Context<'_>,
        matched: &[MatchedRule<'_>],
        table: &mut LockedTable<'_>,
        deadline: Option<Duration>,
    ) -> Payments {
        let mut payments: Payments = matched
            .iter()
            .map(|matched| {
                let is_open = matched.own_verdict().is_none() && matched.paid.is_none();
                let may_pay = is_open && matched.enforcement == Enforcement::Normal;
                let facts = self.lease_facts(context, matched.primary, &matched.policy);
                may_pay.then(|| table.view(matched.counter).leased(&facts, matched.cost)).flatten()
            })
            .collect();
        let is_whole = |matched: &MatchedRule<'_>, payment: &Option<LeasedCall>| {
            payment.is_some_and(|payment| payment.units == matched.cost)
        };
        let is_open = |matched: &MatchedRule<'_>, payment| {
            matched.own_verdict().is_none() && !matched.may_follow(false) && !is_whole(matched, payment)
        };
        match deadline {
            Some(deadline) if matched.iter().zip(&payments).any(|(matched, payment)| is_open(matched, payment)) => {
                let spread_ms = spread_ms(context, matched);
                for (matched, payment) in matched.iter().zip(&mut payments) {
                    let step_until = context.expiry_of(matched.primary, deadline).plus_ms(spread_ms);
                    *payment = payment.filter(|payment| payment.span.lasts_until(step_until));
                }
            }
            Some(_) => {}
            None => {
                let parts = matched.iter().zip(&mut payments);
                parts.filter(|(matched, payment)| !is_whole(matched, payment)).for_each(|(_, payment)| *payment = None);
            }
        }
        payments
    }

    /// Takes the units of payments out of their leases, until the call is decided.
    pub(crate) fn take_payments(
        matched: &mut [MatchedRule<'_>],
        payments: &[Option<LeasedCall>],
        table: &mut LockedTable<'_>,
    ) {
        for (matched, payment) in matched.iter_mut().zip(payments) {
            let Some(LeasedCall { verdict, units, .. }) = *payment else { continue };
            let view = table.view(matched.counter);
            let limit = view.quota(&matched.policy);
            let rule = RuleVerdict::local(&matched.policy, verdict, limit, LocalAnswer::Lease);
            let taken = take_leased(view, units);
            matched.paid = Some(Box::new(Payment { units, rule: (units == matched.cost).then_some(rule), taken }));
        }
    }

    /// Admits a call that the store has denied if leases pay for it by now: calls that were sent at the same time have brought
    /// them. Charges that are made whoever denies the call stay.
    pub(crate) fn pay_denied(&self, context: &Context<'_>, planned: &mut PlannedCall<'_>, verdicts: &mut Verdicts) {
        if combine_enforced(&planned.matched, verdicts).allowed {
            return;
        }
        let matched = &mut planned.matched;
        let mut table = self.counters.lock(matched.iter().map(|matched| matched.counter));
        let payments = self.payments(context, matched, &mut table, None);
        let mut stands = |matched: &MatchedRule<'_>, verdict: &Option<RuleVerdict>| {
            let facts = self.lease_facts(context, matched.primary, &matched.policy);
            let is_charged = match matched.paid.as_deref() {
                Some(Payment { rule: Some(_), taken: Some(taken), .. }) => {
                    table.view(matched.counter).holds_lease_of(taken, &facts)
                }
                _ => matched.own_verdict().is_some() || matched.is_counted_always(),
            };
            is_charged && verdict.is_some_and(|rule| rule.verdict.admitted)
        };
        let mut parts = matched.iter().zip(&payments).zip(&*verdicts);
        if parts.all(|((matched, payment), verdict)| payment.is_some() || stands(matched, verdict)) {
            Self::take_payments(matched, &payments, &mut table);
            let paid = matched.iter().zip(verdicts).filter(|(matched, _)| matched.is_paid());
            paid.for_each(|(matched, verdict)| *verdict = matched.own_verdict());
        }
    }

    /// Notes that a call which has taken units is decided: they are spent if its charges stand, and returned otherwise.
    pub(crate) fn resolve_payment(&self, context: &Context<'_>, matched: &MatchedRule<'_>, stands: bool) {
        let Some(taken) = matched.paid.as_deref().and_then(|paid| paid.taken) else { return };
        let facts = self.lease_facts(context, matched.primary, &matched.policy);
        let counts = &context.active.counts[matched.index];
        let event = if stands { ViewEvent::TakenSpent(taken) } else { ViewEvent::TakenReturned(taken, facts, counts) };
        let is_denied = self.counters.with(matched.counter, |view| {
            update(&matched.policy, view, event);
            view.denial().is_some()
        });
        if is_denied && !stands {
            self.counters.end_denials(matched.counter);
        }
    }

    /// Ends the payments of a call whose leases have ended since, so that the store may not have charged their units any more.
    pub(crate) fn end_payments(&self, context: &Context<'_>, planned: &mut PlannedCall<'_>) {
        for matched in &mut planned.matched {
            let Some(&Payment { rule, taken: Some(taken), .. }) = matched.paid.as_deref() else { continue };
            let facts = self.lease_facts(context, matched.primary, &matched.policy);
            if !self.counters.with(matched.counter, |view| view.holds_lease_of(&taken, &facts)) {
                self.resolve_payment(context, matched, false);
                (matched.paid, matched.is_unasked) = (None, rule.is_some());
            }
        }
    }
}
