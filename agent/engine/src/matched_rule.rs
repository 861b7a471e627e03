//! A matched rule: one rule that applies to a call, and the charges and records that follow from it.
//!
//! [`match_rules`](crate::match_rules) makes them. The rest of an operation works on these alone and asks no rule set.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, DigestKey, RequestId, SlotId};
use tollgate_core::decision::LimitStatus;
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::rules::{Charging, Generation, LimitPolicy, ResolvedCall, Rule, RuleSet};

use crate::enforce::Enforcement;
use crate::time_bounds::TimeBounds;

/// Label of a rule's overflow counter.
const OVERFLOW_LABEL: &str = "(all callers past counters_max)";

pub(crate) type MatchedRules = SmallVec<[MatchedRule; 2]>;

/// One rule that applies to a call.
#[derive(Clone, Debug)]
pub(crate) struct MatchedRule {
    pub(crate) rule: Arc<Rule>,
    /// Policy for this caller.
    pub(crate) policy: LimitPolicy,
    /// Position of the rule in the set.
    pub(crate) index: usize,
    /// Position of this match in the call.
    pub(crate) position: usize,
    pub(crate) counter: CounterId,
    pub(crate) slot: SlotId,
    /// True if the counter is the overflow counter of the rule.
    pub(crate) overflow: bool,
    /// Cost of the call under this rule, in units.
    pub(crate) cost: u64,
    /// Cost that the store evaluates; larger if several calls of a request share the counter.
    pub(crate) evaluated_cost: u64,
    pub(crate) enforcement: Enforcement,
}

impl MatchedRule {
    /// Returns true if the rule denies nothing.
    pub(crate) fn never_denies(&self) -> bool {
        self.enforcement == Enforcement::NeverDeny
    }

    /// Returns true if the rule is charged although another rule denies the call.
    pub(crate) fn is_counted_always(&self) -> bool {
        self.never_denies() || self.rule.charge == Charging::Each
    }

    /// Returns the charge that decides a call.
    pub(crate) fn check(&self, generation: Generation, request: Option<RequestId>, bounds: TimeBounds) -> Charge {
        // Past this instant, by the latest that the store's clock may show, no caller waits any more.
        let deadline_ms = u64::try_from(self.policy.deadline.as_millis()).unwrap_or(u64::MAX);
        let expires_at = bounds.latest.plus_ms(deadline_ms);
        let mode = if self.is_counted_always() {
            ChargeMode::CountOnly { expires_at }
        } else {
            ChargeMode::Enforce { expires_at }
        };
        Charge { request, ..self.charge(generation, self.cost, mode) }
    }

    /// Returns a charge of this cost and mode.
    pub(crate) fn charge(&self, generation: Generation, cost: u64, mode: ChargeMode) -> Charge {
        let (counter, slot, limit) = (self.counter, self.slot, self.policy.limit());
        Charge { counter, slot, request: None, limit, generation, cost, mode }
    }

    /// Returns the status of the rule after a verdict; waits count from `from`.
    pub(crate) fn status(&self, cost: u64, limit: u64, verdict: &Verdict, from: Timestamp) -> LimitStatus {
        LimitStatus {
            rule: self.rule.name.clone(),
            limit,
            window_ms: self.policy.window.width_ms(),
            at_once: if self.policy.burst > 0 { self.policy.burst } else { limit },
            cost,
            remaining: verdict.remaining,
            reset_ms: verdict.reset_at.ms_since(from),
            retry_after_ms: 0,
        }
    }

    /// Returns the sub-window in which a batch counts a charge of this instant.
    pub(crate) fn sub_window(&self, at: Timestamp) -> u64 {
        self.policy.window.sub_window(at)
    }

    /// Returns the description of the counter for a batch.
    pub(crate) fn entry(&self, set: &RuleSet, call: &ResolvedCall<'_>, key: &DigestKey) -> CounterEntry {
        let label = match (self.overflow, self.rule.per.is_empty()) {
            (true, _) => OVERFLOW_LABEL.to_owned(),
            (false, true) => "(all calls)".to_owned(),
            (false, false) => {
                let mut label = String::new();
                for name in &self.rule.per {
                    let space = if label.is_empty() { "" } else { " " };
                    let value = key.shown(call.get(name).unwrap_or_default(), set.is_secret(name));
                    label.extend([space, name, "=", &value]);
                }
                label
            }
        };
        CounterEntry {
            id: self.counter,
            rule: self.rule.name.clone(),
            label,
            generation: set.generation,
            quota: self.policy.quota.units(),
            window: self.policy.window,
        }
    }
}
