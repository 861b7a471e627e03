//! Explanation of a decision: the descriptors of a call, the list that it is on, and for each rule the policy on which it
//! applies, or the reason why it does not.
//!
//! Values are complete; whoever shows them cuts those that [`RuleSet::is_secret`] reports. Text and JSON are made elsewhere:
//! by the agent's `explain`.

use std::sync::Arc;

use super::{ApplicableRule, LimitPolicy, ListMatch, Origin, Pattern, ResolvedCall, Rule, RuleSet, TimedEnd};
use crate::call::Call;

/// Explanation of one call under one rule set.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// Descriptors of the call, then those that the rule set derives.
    pub descriptors: Vec<ExplainedDescriptor<'a>>,
    /// Entry of `lists` that the call is on.
    pub list_match: ListMatch,
    /// All rules, in their order.
    pub rules: Vec<ExplainedRule<'a>>,
}

/// One descriptor of an explained call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainedDescriptor<'a> {
    /// Name of the descriptor.
    pub name: &'a str,
    /// Its value.
    pub value: &'a str,
    /// True if a client could not have chosen the value.
    pub verified: bool,
    /// True if the value comes from the rule set and not from the call.
    pub derived: bool,
}

/// One rule of an explained call.
#[derive(Clone, Debug)]
pub struct ExplainedRule<'a> {
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// Its result for the call.
    pub result: MatchResult<'a>,
    /// End of the exception that the policy comes from, if it ends by itself.
    pub end: Option<&'a TimedEnd>,
}

/// Result of matching one rule with one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatchResult<'a> {
    /// The rule applies.
    Applies {
        /// Policy for this caller; none when the rule does not limit it.
        policy: Option<LimitPolicy>,
        /// Origin of the policy.
        origin: Origin<'a>,
        /// Cost of the call under this rule, in units.
        cost: u64,
    },
    /// The rule is outside the call's [`MatchScope`](super::MatchScope).
    OutOfScope,
    /// A condition of `match` fails.
    Mismatch {
        /// Name of the descriptor.
        descriptor: &'a str,
        /// Required pattern.
        pattern: &'a Pattern,
        /// Value in the call, if it has one.
        value: Option<&'a str>,
    },
    /// The call has a descriptor that the rule does not name, and the rule has an exact match.
    OtherDescriptor {
        /// Name of the descriptor.
        descriptor: &'a str,
    },
    /// The call lacks a descriptor of `per`.
    MissingDescriptor {
        /// Name of the descriptor.
        descriptor: &'a str,
    },
    /// Another rule of the group is narrower, or equally narrow and stands above.
    Wider {
        /// The other rule.
        than: &'a Rule,
    },
    /// A rule that applies names this one under `replaces`.
    Replaced {
        /// Name of the other rule.
        by: &'a str,
    },
}

#[doc(hidden)]
impl RuleSet {
    /// Explains a call under these rules. No counter is read or charged.
    #[must_use]
    pub fn explain<'a>(&'a self, call: &'a Call<'_>) -> Explanation<'a> {
        let resolved = self.resolved(call);
        let applicable = self.applicable(&resolved);
        let narrowest = self.narrowest_among(&resolved, 0..self.rules.len());
        let rules = self.rules.iter().enumerate().map(|(index, rule)| {
            let result = match applicable.iter().find(|found| found.index == index) {
                Some(found) => {
                    let cost = rule.cost_of(&resolved, call.cost());
                    MatchResult::Applies { policy: found.policy.as_deref().copied(), origin: found.origin, cost }
                }
                None => rule.mismatch(&resolved).unwrap_or_else(|| {
                    let own = ApplicableRule { index, rule, policy: None, origin: Origin::Rule };
                    overridden(&own, &narrowest, &resolved)
                }),
            };
            let end = match result {
                MatchResult::Applies { origin, .. } => rule.end_of(origin, &resolved),
                _ => None,
            };
            ExplainedRule { rule, result, end }
        });
        Explanation {
            descriptors: self.explained_descriptors(call, &resolved),
            list_match: self.list_match(&resolved),
            rules: rules.collect(),
        }
    }

    fn explained_descriptors<'a>(
        &'a self,
        call: &'a Call<'_>,
        resolved: &ResolvedCall<'a>,
    ) -> Vec<ExplainedDescriptor<'a>> {
        let explained = |name: &'a str, value: &'a str, derived: bool| ExplainedDescriptor {
            name,
            value,
            verified: resolved.verified(name) == Some(value),
            derived,
        };
        let given = call.descriptors().map(|(name, value)| explained(name, value, false));
        let others = self.descriptors.iter().map(|spec| &*spec.name).filter(|name| call.get(name).is_none());
        given.chain(others.filter_map(|name| Some(explained(name, resolved.get(name)?, true)))).collect()
    }
}

/// Finds the rule that overrides one which matches the call, too.
fn overridden<'a>(
    own: &ApplicableRule<'a>,
    narrowest: &[ApplicableRule<'a>],
    call: &ResolvedCall<'a>,
) -> MatchResult<'a> {
    if let Some(other) = narrowest.iter().find(|other| other.overrides(own, call)) {
        return MatchResult::Wider { than: other.rule };
    }
    let replaces = |other: &&ApplicableRule<'a>| {
        other.rule.replaces.contains(&own.rule.name) && call.satisfies(&other.rule.matches, true)
    };
    let by = narrowest.iter().find(replaces);
    by.map_or(MatchResult::OutOfScope, |other| MatchResult::Replaced { by: &other.rule.name })
}

#[doc(hidden)]
impl Rule {
    fn mismatch<'a>(&'a self, call: &ResolvedCall<'a>) -> Option<MatchResult<'a>> {
        if !call.has_in_scope(self) {
            return Some(MatchResult::OutOfScope);
        }
        let failed =
            self.matches.iter().find(|(name, pattern)| !call.get(name).is_some_and(|value| pattern.matches(value)));
        if let Some((name, pattern)) = failed {
            return Some(MatchResult::Mismatch { descriptor: name, pattern, value: call.get(name) });
        }
        if let Some(descriptor) = call.unmatched_by(self) {
            return Some(MatchResult::OtherDescriptor { descriptor });
        }
        let missing = self.per.iter().find(|name| call.get(name).is_none());
        missing.map(|name| MatchResult::MissingDescriptor { descriptor: name })
    }
}
