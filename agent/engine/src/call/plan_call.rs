//! Plan of a call: the verdicts of its rules as far as no answer of the store is needed. The plan of a single rule is in
//! `enforce`.

use smallvec::smallvec;
use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::PrimaryIndex;
use tollgate_core::decision::{LocalAnswer, Source};
use tollgate_core::rules::{LimitPolicy, OnFailure};

use crate::call::planned_call::{PlannedCall, Verdicts};
use crate::counters::{
    Authority, ChargeFacts, Enforcement, Facts, LeasedCall, LockedTable, Plan, RuleVerdict, StoreAccess, cached_denial,
    plan, plan_late, plan_recovering, update,
};
use crate::engine::{Context, Engine};
use crate::rules::{EventualVerdict, MatchedRule};

/// Instant at which an admission without an answer counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlanInstant {
    /// The latest that the time of the counter's primary may be.
    Now,
    /// The earliest at which the primary may have charged a request that was sent at this instant of the agent's own time.
    SentAt(Timestamp),
}

impl PlanInstant {
    fn of(self, context: &Context<'_>, primary: PrimaryIndex) -> Timestamp {
        let bounds = context.bounds_of(primary);
        match self {
            Self::Now => bounds.latest,
            Self::SentAt(sent_at) => bounds.earliest.minus_ms(context.now.ms_since(sent_at)),
        }
    }
}

impl Engine {
    /// Plans a call, whose admission counts at `at`: the verdicts of its rules; none if the store must be asked. After the first
    /// denial, only rules that count denied calls, too, have a verdict. A rule that cannot deny is charged afterwards if the call
    /// needs no store otherwise. A verdict of `known` stands as it is.
    pub(crate) fn plan(
        &self,
        context: &Context<'_>,
        matched: &mut [MatchedRule<'_>],
        table: &mut LockedTable<'_>,
        at: PlanInstant,
        payments: &[Option<LeasedCall>],
        known: &[Option<RuleVerdict>],
    ) -> Option<Verdicts> {
        let mut verdicts: Verdicts = smallvec![None; matched.len()];
        let (mut is_denied, mut asks) = (false, false);
        for matched in matched.iter_mut() {
            matched.at = at.of(context, matched.primary);
        }
        // The rules that may deny come first, whatever their places.
        for never_denies in [false, true] {
            for (place, matched) in matched.iter_mut().enumerate() {
                if matched.never_denies() != never_denies || is_denied && !matched.is_counted_always() {
                    continue;
                }
                let payment = payments.get(place).copied().flatten();
                let known = known.get(place).copied().flatten();
                let verdict = known.or_else(|| match payment.filter(|payment| payment.units == matched.cost) {
                    Some(payment) => {
                        let (view, policy) = (table.view(matched.counter), &matched.policy);
                        Some(RuleVerdict::local(policy, payment.verdict, view.quota(policy), LocalAnswer::Lease))
                    }
                    None => self.plan_rule(context, matched, table, (payment, is_denied)),
                });
                // A call that only rules in quota mode deny may pass, so it is decided by the others, too.
                is_denied |= verdict.is_some_and(|rule| !rule.verdict.admitted) && !matched.in_quota_mode();
                asks |= verdict.is_none() && !matched.may_follow(false);
                verdicts[place] = verdict;
            }
        }
        if is_denied || !asks {
            for (matched, verdict) in matched.iter_mut().zip(&mut verdicts).filter(|(_, verdict)| verdict.is_none()) {
                matched.follows = matched.may_follow(is_denied);
                if matched.follows && !is_denied {
                    *verdict = Some(Self::followed(context, matched, table));
                }
            }
            // A table of its own charges at once.
            if self.settings.owns_table && matched.iter().any(|matched| matched.follows) {
                for matched in matched.iter_mut() {
                    matched.follows = false;
                }
                return None;
            }
        }
        if is_denied || !asks {
            return Some(verdicts);
        }
        for (matched, verdict) in matched.iter_mut().zip(verdicts) {
            // The other primaries decide whether the call passes.
            if let Some(rule) = verdict.filter(|rule| rule.source.is_degraded() && matched.own_verdict().is_none()) {
                let at = matched.at;
                matched.eventual = Some(Box::new(EventualVerdict { rule, at, would_deny: false, is_unsynced: true }));
                matched.is_unasked = true;
            }
        }
        None
    }

    /// Plans one rule of a call, of which a lease may pay a part; none if the store must be asked. If the call is denied
    /// already, the rule only counts it.
    fn plan_rule(
        &self,
        context: &Context<'_>,
        matched: &mut MatchedRule<'_>,
        table: &mut LockedTable<'_>,
        (payment, is_denied): (Option<LeasedCall>, bool),
    ) -> Option<RuleVerdict> {
        if let Some(own) = matched.own_verdict() {
            return Some(own);
        }
        let cost = matched.unpaid() - payment.map_or(0, |payment| payment.units);
        let enforcement = if is_denied { Enforcement::NeverDeny } else { matched.enforcement };
        let (now, at) = (context.bounds_of(matched.primary), matched.at);
        let MatchedRule { counter, policy, eventual, access, .. } = matched;
        let is_eventual = self.is_eventual(policy);
        let store = if is_eventual { StoreAccess::Closed } else { access.under(policy) };
        let without_store =
            || self.bus.signals().authority(counter.partition(self.settings.partitions), context.now, now);
        let authority = match store {
            StoreAccess::Open => Authority::Store,
            StoreAccess::Late => without_store().alone(),
            StoreAccess::Recovering | StoreAccess::Closed => without_store(),
        };
        let rank = if store == StoreAccess::Open { None } else { self.rank_of(policy, *counter) };
        let part = self.fleet.part();
        let facts = Facts { now, at, own_now: context.now, authority, part, rank };
        let generation = context.active.order;
        let view = table.view(*counter);
        let plan = match store {
            StoreAccess::Open | StoreAccess::Closed => plan,
            StoreAccess::Recovering => plan_recovering,
            StoreAccess::Late => plan_late,
        };
        let charge = ChargeFacts { policy, generation, view, cost, enforcement };
        match plan(&charge, &facts) {
            Plan::NeedsStore => None,
            Plan::Denied(verdict) => {
                Some(RuleVerdict::local(policy, verdict, view.quota(policy), LocalAnswer::CachedDenial))
            }
            Plan::Decided(verdict, source, admission) => {
                if let Some(admission) = admission {
                    update(policy, view, admission);
                }
                let mut rule = RuleVerdict::new(policy, verdict, policy.quota.units(), source);
                if store == StoreAccess::Late && source == Source::Fallback {
                    rule.by = late_reason(policy, verdict.admitted).filter(|_| enforcement != Enforcement::NeverDeny);
                }
                if is_eventual {
                    let would_deny = verdict.retry_at > facts.now.earliest;
                    *eventual = Some(Box::new(EventualVerdict { rule, at, would_deny, is_unsynced: false }));
                }
                Some(rule)
            }
        }
    }

    /// Shows the longest denial by the store that holds, also of a rule that was not evaluated. Without the store, the rule that denies is
    /// shown.
    pub(crate) fn show_known_denials(
        context: &Context<'_>,
        planned: &mut PlannedCall<'_>,
        table: &mut LockedTable<'_>,
    ) {
        let repeats = |rule: &RuleVerdict| rule.verdict.admitted || rule.by == Some(LocalAnswer::CachedDenial);
        if !planned.verdicts.iter().flatten().all(repeats) {
            return;
        }
        for position in 0..planned.matched.len() {
            let matched = &planned.matched[position];
            if !planned.is_unevaluated(position) || matched.own_verdict().is_some() || matched.rule.shadow {
                continue;
            }
            let (view, policy) = (table.view(matched.counter), &*matched.policy);
            let (generation, cost, enforcement) = (context.active.order, matched.unpaid(), matched.enforcement);
            let charge = ChargeFacts { policy, generation, view, cost, enforcement };
            if let Some(denial) = cached_denial(&charge, context.now, context.bounds_of(matched.primary)) {
                let denial = RuleVerdict::local(policy, denial, view.quota(policy), LocalAnswer::CachedDenial);
                planned.show_longer(position, denial);
            }
        }
    }

    /// Returns the verdict of a rule that cannot deny, before the store has charged it: by the units of its last answer.
    fn followed(context: &Context<'_>, matched: &MatchedRule<'_>, table: &mut LockedTable<'_>) -> RuleVerdict {
        let MatchedRule { counter, policy, cost, .. } = matched;
        let now = context.bounds_of(matched.primary).latest;
        let view = table.view(*counter);
        let at_once = if policy.burst > 0 { policy.burst } else { view.quota(policy) };
        let known = view.store_count(policy, now);
        let used = known.map_or(0, |known| known.units.saturating_add(known.since)).saturating_add(*cost);
        let reset_at = known.map_or(now.plus_ms(policy.window.width_ms()), |known| known.until());
        let remaining = at_once.saturating_sub(used);
        let verdict = Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 };
        RuleVerdict::new(policy, verdict, view.quota(policy), Source::Local)
    }
}

/// Returns the reason that is shown for a decision while the answer of the store is late.
fn late_reason(policy: &LimitPolicy, admitted: bool) -> Option<LocalAnswer> {
    match (admitted, policy.on_failure) {
        (false, _) => Some(LocalAnswer::Late),
        (true, OnFailure::Open) => None,
        (true, _) => Some(LocalAnswer::Part),
    }
}
