//! Which rules apply to a call, and on which policy.
//!
//! All that match apply; of a group only the most specific does, and a rule may put others aside. The policy are the rule's
//! own, unless the caller's tier or key has others; only what was verified selects a tier.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{DescriptorSource, LimitPolicy, Quota, ResolvedCall, Rule, RuleSet};
use crate::call::Call;

/// The descriptor that says which tier a caller is in.
pub const TIER: &str = "tier";

/// A rule that applies to a call.
#[derive(Clone, Copy, Debug)]
pub struct ApplicableRule<'a> {
    /// Its place in the set.
    pub index: usize,
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// On which policy; none when it does not limit this caller.
    pub policy: Option<LimitPolicy>,
    /// Where the policy come from.
    pub origin: Origin<'a>,
}

/// Where policy come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The rule itself, with what it inherits.
    Rule,
    /// The caller's tier.
    Tier(&'a str),
    /// The caller's own exception.
    Key,
    /// A descriptor of the call that holds a quota.
    Descriptor(&'a str),
}

/// Whether a caller is limited at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMatch {
    /// As everyone.
    Unlisted,
    /// By this entry of `lists.allow` never denied.
    Allowed(usize),
    /// By this entry of `lists.deny` always denied.
    Denied(usize),
}

impl RuleSet {
    /// A call with what follows from it.
    #[must_use]
    pub fn resolved<'a>(&'a self, call: &'a Call<'_>) -> ResolvedCall<'a> {
        ResolvedCall::new(call, &self.descriptors)
    }

    /// Whether the caller is on a list; to be denied wins.
    #[must_use]
    pub fn list_match(&self, call: &ResolvedCall<'_>) -> ListMatch {
        let find = |entries: &[super::Matches], verified: bool| {
            entries.iter().position(|entry| {
                call.admits("", entry)
                    && entry.iter().all(|(name, pattern)| {
                        let value = if verified { call.verified(name) } else { call.get(name) };
                        value.is_some_and(|value| pattern.matches(value))
                    })
            })
        };
        if let Some(entry) = find(&self.lists.deny, false) {
            return ListMatch::Denied(entry);
        }
        find(&self.lists.allow, true).map_or(ListMatch::Unlisted, ListMatch::Allowed)
    }

    /// The rules that apply, in their order.
    #[must_use]
    pub fn applicable<'a>(&'a self, call: &ResolvedCall<'a>) -> SmallVec<[ApplicableRule<'a>; 4]> {
        self.applicable_among(call, 0..self.rules.len())
    }

    /// The same, of the rules at these places, which ascend: all that an [`Index`](super::Index) finds, so that the others
    /// need not be looked at.
    #[must_use]
    pub fn applicable_among<'a>(
        &'a self,
        call: &ResolvedCall<'a>,
        candidates: impl IntoIterator<Item = usize>,
    ) -> SmallVec<[ApplicableRule<'a>; 4]> {
        let mut applicable: SmallVec<[ApplicableRule<'a>; 4]> = SmallVec::new();
        let candidates = candidates.into_iter().filter_map(|index| Some((index, self.rules.get(index)?)));
        for (index, rule) in candidates.filter(|(_, rule)| rule.applies_to(call)) {
            let (policy, origin) = rule.policy_for(call);
            let applies = ApplicableRule { index, rule, policy, origin };
            if applicable.iter().any(|other| other.puts_aside(&applies, call)) {
                continue;
            }
            applicable.retain(|other| !applies.puts_aside(other, call));
            applicable.push(applies);
        }
        let replacing =
            |applicable: &&ApplicableRule<'a>| !applicable.rule.replaces.is_empty() && applicable.rule.is_proven(call);
        if applicable.iter().any(|applicable| replacing(&applicable)) {
            let replaced: SmallVec<[Arc<str>; 4]> = applicable
                .iter()
                .filter(replacing)
                .flat_map(|applicable| applicable.rule.replaces.iter().cloned())
                .collect();
            applicable.retain(|applicable| !replaced.contains(&applicable.rule.name));
        }
        applicable
    }
}

impl ApplicableRule<'_> {
    /// Whether the other rule does not count beside this one: it is of the same group, less specific or further down. What
    /// rests on a client's word puts nothing aside, or he would choose the wider limit that he escapes.
    fn puts_aside(&self, other: &ApplicableRule<'_>, call: &ResolvedCall<'_>) -> bool {
        if self.rule.group.is_none() || self.rule.group != other.rule.group {
            return false;
        }
        let (own, others) = (self.rule.specificity(), other.rule.specificity());
        (own > others || own == others && self.index < other.index) && self.rule.is_proven(call)
    }
}

impl Rule {
    /// Whether it would speak of the call by what is verified alone.
    #[must_use]
    pub fn is_proven(&self, call: &ResolvedCall<'_>) -> bool {
        self.matches.iter().all(|(name, pattern)| call.verified(name).is_some_and(|value| pattern.matches(value)))
    }

    /// Whether the rule speaks of a call: it has every descriptor of `per`, and everything in `match` matches.
    #[must_use]
    pub fn applies_to(&self, call: &ResolvedCall<'_>) -> bool {
        call.admits(&self.name, &self.matches)
            && self.matches.iter().all(|(name, pattern)| call.get(name).is_some_and(|value| pattern.matches(value)))
            && self.per.iter().all(|name| call.get(name).is_some())
    }

    /// The values of `per` in a call to which the rule applies.
    #[must_use]
    pub fn values<'a>(&self, call: &ResolvedCall<'a>) -> SmallVec<[&'a str; 4]> {
        self.per.iter().filter_map(|name| call.get(name)).collect()
    }

    /// How narrow its `match` is: by how many descriptors, then by what they ask of each.
    #[must_use]
    pub fn specificity(&self) -> (usize, u32, usize) {
        let (mut kinds, mut told) = (0, 0);
        for (kind, len) in self.matches.iter().map(|(_, pattern)| pattern.specificity()) {
            kinds += u32::from(kind);
            told += len;
        }
        (self.matches.len(), kinds, told)
    }

    /// On which policy the rule holds for a caller; none when it is unlimited.
    #[must_use]
    pub fn policy_for<'a>(&'a self, call: &ResolvedCall<'a>) -> (Option<LimitPolicy>, Origin<'a>) {
        if !self.by_key.is_empty()
            && let Some(name) = self.per.first()
            && let Some(key) = call.get(name)
            && let Some(policy) = self.by_key.get(key)
            // To be unlimited is a place on the allow list, which nobody takes by his word alone.
            && (policy.is_some() || call.verified(name).is_some())
        {
            return (*policy, Origin::Key);
        }
        if let Some(name) = &self.quota_from
            && let Some(said) = call.verified(name)
            && let Some(policy) = self.policy
            && let Some(policy) = quota_from(said, policy.quota).map(|quota| policy.with_quota(quota))
            && policy.check().is_ok()
        {
            return (Some(policy), Origin::Descriptor(name));
        }
        if !self.by_tier.is_empty()
            && let Some(tier) = call.verified(TIER)
            && let Some((name, policy)) = self.by_tier.iter().find(|(name, _)| **name == *tier)
        {
            return (*policy, Origin::Tier(name));
        }
        (self.policy, Origin::Rule)
    }

    /// How many units a call takes under this rule, when it asked for so many.
    #[must_use]
    pub fn cost_of(&self, call: &ResolvedCall<'_>, asked: u64) -> u64 {
        let by_table = self.costs.as_ref().and_then(|(name, table)| {
            let value = call.get(name)?;
            table.iter().find(|(pattern, _)| pattern.matches(value)).map(|(_, cost)| *cost)
        });
        by_table.or(self.cost).unwrap_or(asked)
    }

    /// Whether it charges what the call says it costs, which may turn out otherwise.
    #[must_use]
    pub fn goes_by_call_cost(&self) -> bool {
        self.cost.is_none() && self.costs.is_none()
    }

    /// All policy that it may hold on.
    pub fn all_policies(&self) -> impl Iterator<Item = &LimitPolicy> {
        let others = self.by_tier.iter().map(|(_, policy)| policy).chain(self.by_key.values());
        std::iter::once(&self.policy).chain(others).flatten()
    }
}

impl DescriptorSource {
    /// Whether the value is taken out of the request.
    #[must_use]
    pub const fn is_of_request(&self) -> bool {
        !matches!(self, Self::Constant(_) | Self::Map { .. })
    }
}

/// `500/min`, or a bare number in the window of the default.
fn quota_from(said: &str, default: Quota) -> Option<Quota> {
    match said.parse::<u64>() {
        Ok(units) => default.with_units(units),
        Err(_) => said.parse().ok(),
    }
}
