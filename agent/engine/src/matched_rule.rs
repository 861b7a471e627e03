//! A matched rule: one rule that applies to a call, and the charges and records that follow from it.
//!
//! [`match_rules`](crate::match_rules) makes them. The rest of an operation works on these alone and asks no rule set.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, DigestKey, SlotId};
use tollgate_core::decision::LimitStatus;
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::rules::{Charging, Generation, LimitPolicy, ResolvedCall, Rule, RuleSet};

use crate::active_rules::ActiveRules;
use crate::enforce::{Enforcement, RuleVerdict};

/// Label of a rule's overflow counter.
const OVERFLOW_LABEL: &str = "(all callers past counters_max)";

pub(crate) type MatchedRules<'a> = SmallVec<[MatchedRule<'a>; 2]>;

/// Charges of one request to the store, in the order of its answer.
pub(crate) type Charges = SmallVec<[Charge; 2]>;

/// One rule that applies to a call. It borrows from the rules in force, unless a request to the store keeps it.
#[derive(Clone, Debug)]
pub(crate) struct MatchedRule<'a> {
    pub(crate) rule: Cow<'a, Arc<Rule>>,
    /// Policy for this caller.
    pub(crate) policy: Cow<'a, LimitPolicy>,
    /// Position of the rule in the set.
    pub(crate) index: usize,
    /// Counter of the caller, or the overflow counter of the rule.
    pub(crate) counter: CounterId,
    /// True for an overflow counter.
    pub(crate) is_overflow: bool,
    pub(crate) slot: SlotId,
    /// Cost of the call under this rule, in units.
    pub(crate) cost: u64,
    pub(crate) enforcement: Enforcement,
}

impl MatchedRule<'_> {
    /// Returns the same without a borrow.
    pub(crate) fn into_owned(self) -> MatchedRule<'static> {
        let (rule, policy) = (Cow::Owned(self.rule.into_owned()), Cow::Owned(self.policy.into_owned()));
        MatchedRule { rule, policy, ..self }
    }

    /// Charges the overflow counter of the rule instead of the caller's own.
    pub(crate) fn overflow(&mut self, key: &DigestKey) {
        self.counter = key.overflow(&self.rule.name);
        (self.slot, self.is_overflow) = (SlotId::of(self.counter), true);
    }

    /// Returns true if the rule denies nothing.
    pub(crate) fn never_denies(&self) -> bool {
        self.enforcement == Enforcement::NeverDeny
    }

    /// Returns true if the rule is charged although another rule denies the call.
    pub(crate) fn is_counted_always(&self) -> bool {
        self.never_denies() || self.rule.charge == Charging::Each
    }

    /// Returns true if each call holds a slot.
    pub(crate) fn is_slot(&self) -> bool {
        self.policy.algorithm == Algorithm::Concurrency
    }

    /// Returns a charge of this cost and mode.
    pub(crate) fn charge(&self, generation: Generation, cost: u64, mode: ChargeMode) -> Charge {
        let (counter, slot, limit) = (self.counter, self.slot, self.policy.limit());
        Charge { counter, slot, request: None, limit, generation, cost, mode }
    }

    /// Returns true if this is the charge of the rule, which calls of one request share.
    pub(crate) fn shares(&self, charge: &Charge) -> bool {
        let is_counted_always = matches!(charge.mode, ChargeMode::CountOnly { .. });
        self.counter == charge.counter && self.is_counted_always() == is_counted_always
    }

    /// Returns the status of the rule after a verdict; waits count from `from`.
    pub(crate) fn status(&self, rules: &ActiveRules, cost: u64, rule: RuleVerdict, from: Timestamp) -> LimitStatus {
        let RuleVerdict { verdict, limit, .. } = rule;
        LimitStatus {
            rule: rules.names[self.index].clone(),
            limit,
            window_ms: self.policy.window.width_ms(),
            at_once: if self.policy.burst > 0 { self.policy.burst } else { limit },
            cost,
            remaining: verdict.remaining,
            reset_ms: verdict.reset_at.ms_since(from),
            retry_after_ms: if verdict.admitted { 0 } else { verdict.retry_at.ms_since(from).max(1) },
        }
    }

    /// Returns the description of the counter for a batch.
    pub(crate) fn entry(&self, set: &RuleSet, call: &ResolvedCall<'_>, key: &DigestKey) -> CounterEntry {
        let rule = &self.rule;
        let value = |name: &str| key.shown(call.get(name).unwrap_or_default(), set.is_secret(name));
        let label = if self.is_overflow {
            OVERFLOW_LABEL.to_owned()
        } else if rule.per.is_empty() {
            "(all calls)".to_owned()
        } else {
            rule.per.iter().map(|name| format!("{name}={}", value(name))).collect::<Vec<_>>().join(" ")
        };
        CounterEntry {
            id: self.counter,
            rule: rule.name.clone(),
            label,
            generation: set.generation,
            quota: self.policy.quota.units(),
            window: self.policy.window,
        }
    }
}
