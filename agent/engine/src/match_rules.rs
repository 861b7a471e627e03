//! Matching of a call: the rules that apply, the policy of each for the caller, and the counter that each charges.
//!
//! The rules themselves are matched in `tollgate_core::rules`. Here each match gets its counter (or the overflow counter of
//! the rule when the table is full), its slot in the store, and the way in which it is enforced.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, DigestKey, RequestId, SlotId};
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::rules::{Charging, Generation, LimitPolicy, ListMatch, MatchScope, ResolvedCall, Rule, RuleSet};

use crate::enforce::Enforcement;
use crate::engine::{ActiveRules, Engine};
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

/// Denial of a call without a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// By the deny list.
    Listed,
    /// By the rule at this position, which denies every call that it matches.
    Rule(usize),
}

impl Engine {
    /// Matches a call that is to be decided.
    pub(crate) fn match_call(
        &self,
        active: &ActiveRules,
        bounds: TimeBounds,
        call: &Call<'_>,
        scope: MatchScope<'_>,
    ) -> Result<MatchedRules, Rejection> {
        let resolved = active.set.resolved_within(call, scope);
        match active.set.list_match(&resolved) {
            ListMatch::Denied(_) => Err(Rejection::Listed),
            list_match => {
                self.match_rules(active, bounds, call, &resolved, matches!(list_match, ListMatch::Allowed(_)))
            }
        }
    }

    /// Returns the rules that apply, in their order. A caller that is exempt is counted and never denied.
    pub(crate) fn match_rules(
        &self,
        active: &ActiveRules,
        bounds: TimeBounds,
        call: &Call<'_>,
        resolved: &ResolvedCall<'_>,
        exempt: bool,
    ) -> Result<MatchedRules, Rejection> {
        let set = &active.set;
        let key = &self.settings.digest_key;
        let slot = set.slot_by.as_ref().and_then(|name| Some((name, key.slot(resolved.get(name)?))));
        let mut matched = MatchedRules::new();
        for applicable in set.applicable_among(resolved, active.index.candidates(resolved)) {
            let rule = applicable.rule;
            if rule.deny && rule.shadow {
                active.counts[applicable.index].shadow_denials.add(1);
            } else if rule.deny && !exempt {
                return Err(Rejection::Rule(applicable.index));
            }
            let Some(policy) = applicable.policy else { continue };
            let own = key.counter(&rule.name, rule.values(resolved));
            let counter = self.table.place(own, &rule.name, bounds.earliest, || key.overflow(&rule.name));
            let overflow = counter != own;
            if overflow {
                self.metrics.overflow_charges.add(1);
            }
            let shared = slot.as_ref().filter(|(name, _)| !overflow && rule.per.contains(name));
            let cost = rule.cost_of(resolved, call.cost());
            matched.push(MatchedRule {
                rule: rule.clone(),
                policy,
                index: applicable.index,
                position: matched.len(),
                counter,
                slot: shared.map_or_else(|| SlotId::of(counter), |(_, slot)| *slot),
                overflow,
                cost,
                evaluated_cost: cost,
                enforcement: enforcement(rule, exempt, call.id().is_some()),
            });
        }
        // Alone, a counter that is full until its edge gains nothing from being counted on.
        if let [only] = &mut matched[..]
            && only.enforcement == Enforcement::AskStore
            && call.id().is_none()
        {
            only.enforcement = Enforcement::Normal;
        }
        Ok(matched)
    }
}

/// Returns the enforcement of a rule. A caller that is never denied is counted all the same; a request with an id may have
/// been admitted before, which only the store knows.
fn enforcement(rule: &Rule, exempt: bool, has_id: bool) -> Enforcement {
    if exempt || rule.shadow {
        Enforcement::NeverDeny
    } else if has_id || rule.charge == Charging::Each {
        Enforcement::AskStore
    } else {
        Enforcement::Normal
    }
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
