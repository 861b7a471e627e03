//! The facts that several invariants share: all rule sets, and the charges that a call means under one of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tollgate::{Call, RuleSet, Source};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::rules::{ApplicableRule, Charging, Consistency, Generation, LimitPolicy, ListMatch, Rule};
use tollgate_sim::{AnsweredCall, CorrectedCall};

/// All rule sets that agents may be given.
pub(crate) struct Facts {
    rules: BTreeMap<Generation, RuleSet>,
    key: DigestKey,
    counters_max: usize,
}

/// A rule that applies to a call, and its counter.
pub(crate) struct Applied {
    pub(crate) rule: Arc<Rule>,
    pub(crate) policy: LimitPolicy,
    pub(crate) counter: CounterId,
    pub(crate) cost: u64,
}

/// Units of the settlements without a decision that one agent was asked for, by counter.
#[derive(Default)]
pub(crate) struct UnnamedUnits(HashMap<CounterId, i64>);

impl Facts {
    pub(crate) fn new(rules: Vec<RuleSet>, counters_max: usize) -> Self {
        let rules = rules.into_iter().map(|rules| (rules.generation, rules)).collect();
        Self { rules, key: DigestKey::default(), counters_max }
    }

    pub(crate) fn counters_max(&self) -> usize {
        self.counters_max
    }

    /// Returns true if the sketch may count callers, which have no counters of their own then.
    pub(crate) fn overflows(&self) -> bool {
        self.counters_max < 1_000
    }

    pub(crate) fn rules(&self, generation: Generation) -> &RuleSet {
        &self.rules[&generation]
    }

    /// Returns the limits that apply to a call under the rules of a generation.
    pub(crate) fn applied(&self, generation: Generation, call: &Call<'_>) -> Vec<Applied> {
        let rules = self.rules(generation);
        let resolved = rules.resolved(call);
        let applied = |applicable: ApplicableRule<'_>| {
            let (rule, policy) = (applicable.rule.clone(), applicable.policy?.into_owned());
            let counter = self.key.counter(&rule.name, rule.values(&resolved));
            let cost = rule.cost_of(&resolved, call.cost());
            Some(Applied { rule, policy, counter, cost })
        };
        rules.applicable(&resolved).into_iter().filter_map(applied).collect()
    }

    /// Returns the policies of a rule for a call under all rule sets.
    pub(crate) fn policies(&self, rule: &str, call: &Call<'_>) -> Vec<LimitPolicy> {
        let of = |generation: &Generation| {
            self.applied(*generation, call).into_iter().find(|applied| &*applied.rule.name == rule)
        };
        self.rules.keys().filter_map(of).map(|applied| applied.policy).collect()
    }

    /// Returns the limits that a settlement or a release concerns, and the units that each of them gets or gives back.
    pub(crate) fn corrected(&self, corrected: &CorrectedCall<'_>) -> Vec<(Applied, i64)> {
        let concerned = |applied: Applied| {
            let is_slot = applied.policy.algorithm == Algorithm::Concurrency;
            match corrected.units {
                Some(units) => (!is_slot && applied.rule.goes_by_call_cost()).then_some((applied, units)),
                None => is_slot.then(|| {
                    let slots = i64::try_from(applied.cost).unwrap_or(i64::MAX);
                    (applied, -slots)
                }),
            }
        };
        self.applied(corrected.generation, &corrected.call).into_iter().filter_map(concerned).collect()
    }

    pub(crate) fn list_match(&self, generation: Generation, call: &Call<'_>) -> ListMatch {
        let rules = self.rules(generation);
        rules.list_match(&rules.resolved(call))
    }
}

/// Returns true if a correction is a settlement without a decision.
pub(crate) fn is_unnamed(corrected: &CorrectedCall<'_>) -> bool {
    corrected.units.is_some() && corrected.decided.is_none()
}

/// Returns true if the store decided the rules of a call that it decides at all. The rule that the answer shows tells
/// nothing about the others if it is eventual.
pub(crate) fn is_by_store(answered: &AnsweredCall<'_>) -> bool {
    let is_eventual = answered.decision.status.as_ref().is_some_and(|status| status.is_eventual);
    if is_eventual {
        answered.ticket.is_some() && answered.error.is_none()
    } else {
        answered.decision.source == Source::Store
    }
}

impl UnnamedUnits {
    /// Enters the units of a correction. Returns true if the agent may drop some: without a decision, it charges at most one quota
    /// in a window.
    pub(crate) fn may_drop(&mut self, corrected: &CorrectedCall<'_>, applied: &Applied, units: i64) -> bool {
        if !is_unnamed(corrected) {
            return false;
        }
        let asked = self.0.entry(applied.counter).or_default();
        *asked = asked.saturating_add(units.max(0));
        u64::try_from(*asked).is_ok_and(|units| units > applied.policy.quota.units())
    }
}

impl Applied {
    /// Returns true if no store decides or counts under the rule.
    pub(crate) fn is_eventual(&self) -> bool {
        self.policy.consistency == Consistency::Eventual
    }

    /// Returns true if the store charges it even if the call is denied.
    pub(crate) fn counts_denials(&self) -> bool {
        self.rule.shadow || self.rule.charge == Charging::Each
    }
}
