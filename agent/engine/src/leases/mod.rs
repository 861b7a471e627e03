//! Leases of calls: which counters of a call ask for units, and what becomes of the units in an answer.
//!
//! Only a call that is alone in its request and has no request id asks for units or spends them: another call could
//! hold it back, or an earlier attempt may have been charged. A call spends leases of all its counters or of none, so a
//! call on which several rules count asks for no lease: where one of its counters had none, the leased units of the others
//! would stay charged and unspent. The lease itself is in [`view`](crate::view).

#[cfg(test)]
mod tests;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};
use tollgate_core::decision::LocalAnswer;
use tollgate_core::rules::LimitPolicy;

use crate::active_rules::ActiveRules;
use crate::enforce::{Enforcement, RuleVerdict};
use crate::engine::{Context, Engine};
use crate::engine_settings::ChargeableRules;
use crate::lease_epoch::LeaseEpoch;
use crate::matched_rule::MatchedRule;
use crate::planned_call::{PlannedCall, Verdicts};
use crate::table::LockedTable;
use crate::view::{LeaseFacts, LeaseGrant, LeaseSpan, ViewEvent, update};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    /// Agent's own time.
    pub(crate) at: Timestamp,
    /// Epoch of the leases that the request asks for.
    pub(crate) epoch: LeaseEpoch,
}

impl Engine {
    /// Decides a call by leases if each of its counters has one. A call that must ask the store about one counter asks
    /// about all, so that its charges lie at one instant. Returns the verdicts, and the instant at which the admission
    /// counts. This is `at`, or the nearest instant at which the store has charged all the units and all sub-windows
    /// last.
    pub(crate) fn spend_leases(
        &self,
        context: &Context<'_>,
        matched: &[MatchedRule<'_>],
        table: &mut LockedTable<'_>,
        at: Timestamp,
    ) -> Option<(Verdicts, Timestamp)> {
        let (mut verdicts, mut span) = (Verdicts::new(), None::<LeaseSpan>);
        for matched in matched {
            if matched.own_verdict().is_some() || matched.enforcement != Enforcement::Normal {
                return None;
            }
            let facts = self.lease_facts(context, &matched.policy);
            let view = table.view(matched.counter);
            let (leased, limit) = (view.leased(&facts, matched.cost)?, view.quota(&matched.policy));
            span = Some(span.map_or(leased.span, |span| span.common_with(leased.span)));
            verdicts.push(Some(RuleVerdict::local(&matched.policy, leased.verdict, limit, LocalAnswer::Lease)));
        }
        let at = span?.nearest(at);
        for MatchedRule { counter, policy, cost, .. } in matched {
            update(policy, table.view(*counter), ViewEvent::LeaseSpent(*cost));
        }
        Some((verdicts, at))
    }

    /// Decides a call by lines of credit, if each of its counters has one: the call is charged afterwards. Returns the
    /// verdicts.
    pub(crate) fn draw_lines(
        &self,
        context: &Context<'_>,
        matched: &mut [MatchedRule<'_>],
        table: &mut LockedTable<'_>,
        is_late: bool,
    ) -> Option<Verdicts> {
        let mut verdicts = Verdicts::new();
        for matched in &mut *matched {
            if matched.own_verdict().is_some()
                || matched.enforcement != Enforcement::Normal
                || matched.is_counted_always()
            {
                return None;
            }
            let facts = self.lease_facts(context, &matched.policy);
            let view = table.view(matched.counter);
            let ((verdict, line), limit) = (view.drawn(&facts, matched.cost, is_late)?, view.quota(&matched.policy));
            matched.drawn = Some(line);
            verdicts.push(Some(RuleVerdict::local(&matched.policy, verdict, limit, LocalAnswer::Allowance)));
        }
        for MatchedRule { counter, policy, cost, index, .. } in &*matched {
            update(policy, table.view(*counter), ViewEvent::LineDrawn(*cost));
            context.active.counts[*index].line_units_drawn.add(*cost);
        }
        (!verdicts.is_empty()).then_some(verdicts)
    }

    /// Notes the answer to a charge that followed an admission by a line of credit. A unit without room is burned.
    pub(crate) fn line_answered(
        &self,
        active: &ActiveRules,
        matched: &MatchedRule<'_>,
        is_charged: bool,
        sent_at: Timestamp,
    ) {
        if let Some(of) = matched.drawn.filter(|_| is_charged) {
            let event = ViewEvent::LineRestored { units: matched.cost, of, sent_at };
            self.table.with(matched.counter, |view| update(&matched.policy, view, event));
        } else {
            active.counts[matched.index].line_units_burned.add(matched.cost);
        }
    }

    #[inline]
    pub(crate) fn lease_facts<'a>(&self, context: &Context<'_>, policy: &'a LimitPolicy) -> LeaseFacts<'a> {
        LeaseFacts {
            policy,
            generation: context.active.set.generation,
            own_now: context.now,
            store_now: context.bounds,
            epoch: self.lease_epochs.current(),
        }
    }

    pub(crate) fn take_leases(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        planned: &[PlannedCall<'_>],
        charges: &[Charge],
        results: &[ChargeResult],
        sent: Sending,
    ) {
        let matched = || planned.iter().flat_map(|planned| &planned.matched);
        for (charge, result) in charges.iter().zip(results) {
            if matches!(charge.mode, ChargeMode::Lease { .. })
                && let Some(matched) = matched().find(|matched| matched.shares(charge))
            {
                let grant = grant(active, matched, charge, result, result.leased, sent);
                if !self.take_lease(now, matched, grant) {
                    grant.strand();
                }
            } else if let Some(matched) = matched().find(|matched| matched.counter.line() == charge.counter)
                && matches!(charge.mode, ChargeMode::Lease { .. })
                && result.charged
            {
                let grant = grant(active, matched, charge, result, result.leased, sent);
                if grant.is_live(now, self.lease_epochs.current()) {
                    let event = ViewEvent::LineGranted(grant, now);
                    self.table.with(matched.counter, |view| update(&matched.policy, view, event));
                }
            }
        }
    }

    /// Sets the units that a call asks for beside its own: a lease of its only counter, and a line of credit of each.
    pub(crate) fn want_leases(
        &self,
        context: &Context<'_>,
        matched: &mut [MatchedRule<'_>],
        table: &mut LockedTable<'_>,
    ) {
        // A step of its own would have to take back what another one has handed back.
        let has_one_slot = matched.iter().all(|other| other.slot == matched[0].slot);
        let is_sole = matched.len() == 1;
        for matched in matched {
            if matched.own_verdict().is_none() && matched.enforcement == Enforcement::Normal {
                let (policy, cost, now) = (&matched.policy, matched.cost, context.bounds);
                let view = table.view(matched.counter);
                if is_sole {
                    matched.wanted = view.ask_lease(policy, now, context.now, cost);
                }
                if has_one_slot && !matched.is_counted_always() {
                    let line = view.ask_line(&self.lease_facts(context, policy), self.fleet.size());
                    matched.wanted_line = line.map(Box::new);
                }
            }
        }
    }

    /// Takes leased units; returns false if they cannot be spent any more.
    fn take_lease(&self, now: Timestamp, matched: &MatchedRule<'_>, grant: LeaseGrant<'_>) -> bool {
        let is_live = grant.is_live(now, self.lease_epochs.current());
        if is_live {
            let event = ViewEvent::LeaseGranted(grant);
            let is_denied = self.table.with(matched.counter, |view| {
                update(&matched.policy, view, event);
                view.denial.is_some()
            });
            // The units are for calls whose cost the store has denied before, too.
            if is_denied {
                self.table.end_denials(matched.counter);
            }
        }
        is_live
    }

    /// Takes the units of a charge that was made for a call and stands for none. Returns true if they stay charged: as a lease, or
    /// unspent where no unit comes back. Returns false if they must be refunded.
    pub(crate) fn take_charge(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        matched: &MatchedRule<'_>,
        charge: &Charge,
        result: &ChargeResult,
        sent: Sending,
    ) -> bool {
        let grant = grant(active, matched, charge, result, charge.cost, sent);
        let is_taken = matched.policy.may_lease() && self.take_lease(now, matched, grant);
        if !is_taken && self.keeps_units(matched) {
            grant.strand();
            return true;
        }
        is_taken
    }

    /// Returns true if no agent gives units of the rule's counters back: see [`MatchedRule::keeps_units`].
    pub(crate) fn keeps_units(&self, matched: &MatchedRule<'_>) -> bool {
        // Other stores charge a call in several steps, and take some of them back.
        self.settings.charges == ChargeableRules::All && matched.keeps_units()
    }

    /// Ends all leases, because they may not be charged any more or the store's time is not known.
    pub(crate) fn end_leases(&self) {
        self.lease_epochs.end();
    }
}

fn grant<'a>(
    active: &'a ActiveRules,
    matched: &MatchedRule<'_>,
    charge: &'a Charge,
    result: &'a ChargeResult,
    units: u64,
    sent: Sending,
) -> LeaseGrant<'a> {
    LeaseGrant { charge, result, units, sent_at: sent.at, epoch: sent.epoch, counts: &active.counts[matched.index] }
}
