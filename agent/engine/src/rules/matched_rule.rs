//! A matched rule: one rule that applies to a call, and the charges and records that follow from it.
//!
//! `match_rules` makes them. The rest of an operation works on these alone and asks no rule set.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, HashSlotId, PrimaryIndex};
use tollgate_core::decision::{DegradedRemaining, LimitKind, LimitStatus, LocalAnswer, Source};
use tollgate_core::name::Name;
use tollgate_core::rules::{Charging, Consistency, Generation, LimitPolicy, Rule};

use crate::counters::{CHECKED_MS, ChargedCounter, Enforcement, RuleVerdict, StoreAccess, TakenUnits};
use crate::rules::active_rules::ActiveRules;

/// Maximum wait that a denied caller of a global rule is told while its region has less than the whole quota, in ms.
/// Units follow the calls. A caller that waited for its window would be away when they come, and they would leave
/// again.
const BUDGET_RETRY_MS_MAX: u64 = 1_000;

pub(crate) type MatchedRules<'a> = SmallVec<[MatchedRule<'a>; 2]>;

/// Charges of one request to the store, in the order of its answer.
pub(crate) type Charges = SmallVec<[Charge; 2]>;

/// One rule that applies to a call. It borrows from the rules in force, unless a request to the store keeps it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one rule and one call")]
pub(crate) struct MatchedRule<'a> {
    pub(crate) rule: Cow<'a, Arc<Rule>>,
    pub(crate) policy: Cow<'a, LimitPolicy>,
    pub(crate) index: usize,
    pub(crate) counter: CounterId,
    /// Verdict of the sketch, if the counter has no place in the table.
    pub(crate) sketched: Option<Box<RuleVerdict>>,
    /// Verdict of the signals, if no store decides: under `consistency: eventual`, or because the primary does not answer while
    /// others are asked. It is given once, with the first plan of the call.
    pub(crate) eventual: Option<Box<EventualVerdict>>,
    pub(crate) slot: HashSlotId,
    /// Primary that holds the counter.
    pub(crate) primary: PrimaryIndex,
    /// True if the slot of the counter is on its way to the primary that has answered: another call may find it at another one.
    pub(crate) is_passing: bool,
    /// Access of the call to that primary.
    pub(crate) access: StoreAccess,
    /// Instant of the plan in the time of that primary, at which an admission without its answer counts.
    pub(crate) at: Timestamp,
    pub(crate) cost: u64,
    pub(crate) enforcement: Enforcement,
    /// Units to lease with the charge.
    pub(crate) wanted: Option<NonZeroU32>,
    /// True if the units of the call are demand for leases.
    pub(crate) is_demand: bool,
    /// Payment of the call by a lease. The box keeps rules small that no lease pays, because they are moved often.
    pub(crate) paid: Option<Box<Payment>>,
    /// True if the request to the store does not contain the rule: a lease paid that has ended since, or its primary did not answer.
    pub(crate) is_unasked: bool,
    /// True if the call is decided without the store, which is charged afterwards because the rule counts such calls, too.
    pub(crate) follows: bool,
}

/// Payment of a call, or of a part of its cost, by units that the store has charged before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    pub(crate) units: u64,
    /// Verdict of the rule, if the units are the whole cost.
    pub(crate) rule: Option<RuleVerdict>,
    /// The units, until the call is decided.
    pub(crate) taken: Option<TakenUnits>,
}

/// Verdict of a rule that no store decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventualVerdict {
    pub(crate) rule: RuleVerdict,
    /// Instant at which the view counts the admission, as long as the call is not decided.
    pub(crate) at: Timestamp,
    /// True if the call is admitted only because the rule never denies.
    pub(crate) would_deny: bool,
    /// True if the store is told of the admission afterwards.
    pub(crate) is_unsynced: bool,
}

impl<'a> MatchedRule<'a> {
    /// Creates a rule that nothing has decided or paid yet. `counter` is its counter, the hash slot of it, and the primary that
    /// holds it.
    pub(crate) fn new(
        rule: Cow<'a, Arc<Rule>>,
        policy: Cow<'a, LimitPolicy>,
        index: usize,
        (counter, slot, primary): (CounterId, HashSlotId, PrimaryIndex),
        cost: u64,
        enforcement: Enforcement,
    ) -> Self {
        Self {
            rule,
            policy,
            index,
            counter,
            sketched: None,
            eventual: None,
            slot,
            primary,
            is_passing: false,
            access: StoreAccess::Open,
            at: Timestamp::default(),
            cost,
            enforcement,
            wanted: None,
            is_demand: false,
            paid: None,
            is_unasked: false,
            follows: false,
        }
    }
}

impl MatchedRule<'_> {
    pub(crate) fn into_owned(self) -> MatchedRule<'static> {
        let (rule, policy) = (Cow::Owned(self.rule.into_owned()), Cow::Owned(self.policy.into_owned()));
        MatchedRule { rule, policy, ..self }
    }

    /// Returns the verdict that no answer of the store gives: that of the sketch, of the signals, or of a lease that pays the
    /// whole cost.
    pub(crate) fn own_verdict(&self) -> Option<RuleVerdict> {
        let local = self.sketched.as_deref().copied().or(self.eventual.as_deref().map(|eventual| eventual.rule));
        local.or_else(|| self.paid.as_deref().and_then(|paid| paid.rule))
    }

    /// Returns the units for which the store is asked.
    pub(crate) fn unpaid(&self) -> u64 {
        self.cost - self.paid.as_deref().map_or(0, |paid| paid.units)
    }

    /// Returns true if a lease pays the whole cost.
    pub(crate) fn is_paid(&self) -> bool {
        self.paid.as_deref().is_some_and(|paid| paid.rule.is_some())
    }

    pub(crate) fn never_denies(&self) -> bool {
        self.enforcement == Enforcement::NeverDeny
    }

    /// Returns true if a call may pass although the rule denies it. The rule counts all calls then.
    pub(crate) fn in_quota_mode(&self) -> bool {
        self.rule.quota_mode && self.rule.charge == Charging::Each
    }

    /// Returns true if the rule is charged although another rule denies the call.
    pub(crate) fn is_counted_always(&self) -> bool {
        self.never_denies() || self.rule.charge == Charging::Each
    }

    /// Returns true if the charge of the rule may follow the decision on a call: it is made whatever the decision is, and the rule
    /// does not deny the call, or another one does. A slot is held only by a call that is admitted.
    pub(crate) fn may_follow(&self, is_denied: bool) -> bool {
        let is_certain = if is_denied { self.is_counted_always() } else { self.never_denies() };
        is_certain && !self.is_slot() && self.own_verdict().is_none()
    }

    /// Returns true if each call holds a slot.
    pub(crate) fn is_slot(&self) -> bool {
        is_of_slots(&self.policy)
    }

    /// Returns true if units of the counter leave it by the passage of time only, because no agent with these rules
    /// ever gives any back. Calls of a rule with costs of its own cannot be settled. Callers of one counter may have
    /// different tiers, whose windows drop different units. A late charge of a denied call becomes a lease, whose units
    /// are never given back. A region may be granted units. In sub-windows of at most [`CHECKED_MS`], a late charge may
    /// be refunded, and denials are checked so often anyway.
    pub(crate) fn keeps_units(&self) -> bool {
        let (policy, rule) = (&self.policy, &self.rule);
        !rule.goes_by_call_cost()
            && rule.by_tier.is_empty()
            && rule.quota_from.is_none()
            && policy.may_lease()
            && policy.global_quota.is_none()
            && policy.window.sub_window_ms() > CHECKED_MS
    }

    pub(crate) fn charge(&self, generation: Generation, cost: u64, mode: ChargeMode) -> Charge {
        let (counter, slot, limit) = (self.counter, self.slot, self.policy.limit());
        let budget = self.policy.global_quota.map(|_| self.rule.name.clone());
        Charge { counter, slot, request: None, limit, generation, cost, mode, budget }
    }

    /// Returns true if this is the charge of the rule, which calls of one request share.
    pub(crate) fn shares(&self, charge: &Charge) -> bool {
        let is_counted_always = matches!(charge.mode, ChargeMode::CountOnly { .. });
        self.counter == charge.counter && self.is_counted_always() == is_counted_always
    }

    pub(crate) fn charged_counter(&self) -> ChargedCounter {
        ChargedCounter::new(self.counter, self.index, &self.policy)
    }

    /// Returns the status of the rule after a verdict; waits count from `from`.
    pub(crate) fn status(&self, rules: &ActiveRules, cost: u64, rule: RuleVerdict, from: Timestamp) -> LimitStatus {
        let is_eventual = self.policy.consistency == Consistency::Eventual;
        let is_degraded = rule.source.is_degraded() && !(is_eventual && rule.source == Source::Signal);
        let mut status = status(&self.policy, rules.names[self.index].clone(), cost, rule, from);
        (status.shadow, status.is_eventual) = (self.rule.shadow, is_eventual);
        status.own_answer.clone_from(&self.rule.own_answer);
        let is_unknown = is_degraded && rules.set.degraded_remaining == DegradedRemaining::Unknown;
        status.hides_remaining |= is_unknown || rule.by == Some(LocalAnswer::Late);
        status
    }
}

/// Returns the status of a rule of this name after a verdict under a policy; waits count from `from`.
#[inline]
pub(crate) fn status(policy: &LimitPolicy, name: Name, cost: u64, rule: RuleVerdict, from: Timestamp) -> LimitStatus {
    let RuleVerdict { verdict, limit, at_once, .. } = rule;
    let kind = if is_of_slots(policy) { LimitKind::Slots } else { LimitKind::Window };
    let mut status = LimitStatus::new(name, kind, cost);
    status.limit = limit;
    status.window_ms = policy.window.width_ms();
    status.at_once = at_once;
    // Without the store, another limit than the rule's may have decided.
    status.remaining = verdict.remaining.min(at_once);
    status.reset_ms = verdict.reset_at.ms_since(from);
    let wait_ms = verdict.retry_at.ms_since(from).max(1);
    let may_rise = policy.global_quota.is_some_and(|quota| limit < quota.get());
    let wait_ms = if may_rise { wait_ms.min(BUDGET_RETRY_MS_MAX) } else { wait_ms };
    status.retry_after_ms = if verdict.admitted { 0 } else { wait_ms };
    // A rule that was not evaluated denies by the cost alone.
    status.hides_remaining = rule.is_final;
    if !verdict.admitted {
        status.cost_max = NonZeroU64::new(policy.cost_max()).filter(|most| cost > most.get());
    }
    status
}

pub(crate) fn is_of_slots(policy: &LimitPolicy) -> bool {
    policy.algorithm == Algorithm::Concurrency
}
