//! Matching of a call: the rules that apply, the policy of each for the caller, and the counter that each charges.
//!
//! The rules themselves are matched in `tollgate_core::rules`. Here each match gets its counter (or the overflow counter of
//! the rule when the table is full), its slot in the store, and the way in which it is enforced.

use tollgate_core::call::Call;
use tollgate_core::counter::SlotId;
use tollgate_core::rules::{Charging, ListMatch, MatchScope, ResolvedCall, Rule};

use crate::enforce::Enforcement;
use crate::engine::{ActiveRules, Engine};
use crate::matched_rule::{MatchedRule, MatchedRules};
use crate::time_bounds::TimeBounds;

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
            let overflow = !self.table.place(own, &rule.name, bounds.earliest);
            let counter = if overflow { key.overflow(&rule.name) } else { own };
            self.metrics.overflow_charges.add(overflow.into());
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
