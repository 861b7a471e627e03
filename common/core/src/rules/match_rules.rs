//! Matching of rules with a call, and the policy of each rule for the caller.
//!
//! All rules that match apply, except those that another rule overrides: of a group only the narrowest rule applies, and a
//! rule may name others under `replaces`. The policy is the rule's own unless the caller's key, a verified quota or the
//! caller's tier has another one. Unverified values never override a rule and never select a tier. `index` finds the
//! candidates; `explain` gives the reason for rules that do not apply.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{LimitPolicy, Matches, Narrowness, Quota, ResolvedCall, Rule, RuleSet, TIER};

/// A rule that applies to a call.
#[derive(Clone, Debug)]
pub struct ApplicableRule<'a> {
    /// Position in the rule set.
    pub index: usize,
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// Policy for this caller; none when the rule does not limit it. Only a policy with the caller's own quota is not
    /// borrowed.
    pub policy: Option<Cow<'a, LimitPolicy>>,
    /// Origin of the policy.
    pub origin: Origin<'a>,
}

/// Origin of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The rule itself, with the settings that it inherits.
    Rule,
    /// The caller's tier.
    Tier(&'a str),
    /// The exception of the caller's key.
    Key,
    /// A descriptor of the call that holds a quota.
    Descriptor(&'a str),
}

/// Result of looking a call up in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMatch {
    /// On no list.
    Unlisted,
    /// Never denied, by this entry of `lists.allow`.
    Allowed(usize),
    /// Always denied, by this entry of `lists.deny`.
    Denied(usize),
}

#[doc(hidden)]
impl RuleSet {
    /// Looks the call up in the lists. The deny list wins; the allow list takes verified values only.
    #[must_use]
    pub fn list_match(&self, call: &ResolvedCall<'_>) -> ListMatch {
        if self.lists.allow.is_empty() && self.lists.deny.is_empty() {
            return ListMatch::Unlisted;
        }
        let find = |entries: &[Matches], only_verified: bool| {
            entries.iter().position(|entry| call.satisfies(entry, only_verified))
        };
        if let Some(entry) = find(&self.lists.deny, false) {
            return ListMatch::Denied(entry);
        }
        find(&self.lists.allow, true).map_or(ListMatch::Unlisted, ListMatch::Allowed)
    }

    /// Returns the rules that apply, in their order.
    #[must_use]
    pub fn applicable<'a>(&'a self, call: &ResolvedCall<'_>) -> SmallVec<[ApplicableRule<'a>; 4]> {
        self.applicable_among(call, 0..self.rules.len())
    }

    /// Returns the rules that apply among the candidates of an [`Index`](super::Index): positions in ascending order.
    #[must_use]
    pub fn applicable_among<'a>(
        &'a self,
        call: &ResolvedCall<'_>,
        candidates: impl IntoIterator<Item = usize>,
    ) -> SmallVec<[ApplicableRule<'a>; 4]> {
        let mut applicable = self.narrowest_among(call, candidates);
        let replaced: SmallVec<[Arc<str>; 4]> =
            applicable.iter().flat_map(|applicable| applicable.replaced(call)).cloned().collect();
        if !replaced.is_empty() {
            applicable.retain(|applicable| !replaced.contains(&applicable.rule.name));
        }
        applicable
    }

    /// Returns the rules that match, of each group only the narrowest. Some of them may be replaced.
    pub(super) fn narrowest_among<'a>(
        &'a self,
        call: &ResolvedCall<'_>,
        candidates: impl IntoIterator<Item = usize>,
    ) -> SmallVec<[ApplicableRule<'a>; 4]> {
        let mut applicable: SmallVec<[ApplicableRule<'a>; 4]> = SmallVec::new();
        let candidates = candidates.into_iter().filter_map(|index| Some((index, self.rules.get(index)?)));
        for (index, rule) in candidates.filter(|(_, rule)| rule.applies_to(call)) {
            let (policy, origin) = rule.policy_for(call);
            let applies = ApplicableRule { index, rule, policy, origin };
            if applicable.iter().any(|other| other.overrides(&applies, call)) {
                continue;
            }
            applicable.retain(|other| !applies.overrides(other, call));
            applicable.push(applies);
        }
        applicable
    }
}

impl RuleSet {
    /// Returns the only rule that applies among the candidates, and its position; none if several apply, or one that
    /// replaces others.
    #[must_use]
    pub fn sole_applicable(&self, call: &ResolvedCall<'_>, candidates: &[usize]) -> Option<(usize, &Arc<Rule>)> {
        let candidates = candidates.iter().filter_map(|index| Some((*index, self.rules.get(*index)?)));
        let mut applicable = candidates.filter(|(_, rule)| rule.applies_to(call));
        let sole = applicable.next().filter(|(_, rule)| rule.replaces.is_empty());
        sole.filter(|_| applicable.next().is_none())
    }
}

impl<'a> ApplicableRule<'a> {
    /// Returns the names of the rules that this one replaces; none if it matches by an unverified value.
    #[doc(hidden)]
    #[must_use]
    pub fn replaced(&self, call: &ResolvedCall<'_>) -> &'a [Arc<str>] {
        let replaces = &self.rule.replaces;
        if !replaces.is_empty() && call.satisfies(&self.rule.matches, true) { replaces } else { &[] }
    }

    /// Returns true if the other rule is of the same group and wider, or equally narrow and further down. A rule that
    /// matches by an unverified value overrides nothing, or a client could choose the wider limit.
    pub(super) fn overrides(&self, other: &ApplicableRule<'_>, call: &ResolvedCall<'_>) -> bool {
        if self.rule.group.is_none() || self.rule.group != other.rule.group {
            return false;
        }
        let (own, others) = (self.rule.narrowness(), other.rule.narrowness());
        (own > others || own == others && self.index < other.index) && call.satisfies(&self.rule.matches, true)
    }
}

#[doc(hidden)]
impl Rule {
    /// Returns true if the call has every descriptor of `per` and everything in `match` matches.
    #[must_use]
    pub fn applies_to(&self, call: &ResolvedCall<'_>) -> bool {
        call.has_in_scope(self)
            && call.satisfies(&self.matches, false)
            && !(self.exact_match && call.unmatched_by(self).is_some())
            && self.per.iter().all(|name| call.get(name).is_some())
    }

    /// Returns the values of `per` in a call to which the rule applies.
    pub fn values<'a>(&self, call: &ResolvedCall<'a>) -> impl Iterator<Item = &'a str> + Clone {
        self.per.iter().filter_map(|name| call.get(name))
    }

    /// Returns the narrowness of `match`, the sum of its conditions.
    #[must_use]
    pub fn narrowness(&self) -> Narrowness {
        self.matches.iter().map(|(_, pattern)| pattern.narrowness()).sum()
    }

    /// Returns the policy of the rule for a caller, or none when the caller is unlimited.
    #[must_use]
    pub fn policy_for<'a>(&'a self, call: &ResolvedCall<'_>) -> (Option<Cow<'a, LimitPolicy>>, Origin<'a>) {
        if !self.by_key.is_empty()
            && let Some(name) = self.per.first()
            && let Some(key) = call.get(name)
            && let Some(policy) = self.by_key.get(key)
            // An unlimited key is like an entry of the allow list: an unverified value must not select it.
            && (policy.is_some() || call.verified(name).is_some())
        {
            let policy = self.of_key_and_tier(key, call).unwrap_or(policy);
            return (policy.as_ref().map(Cow::Borrowed), Origin::Key);
        }
        if let Some(name) = &self.quota_from
            && let Some(text) = call.verified(name)
            && let Some(policy) = self.policy
            && let Some(policy) = quota_from(text, policy.quota).map(|quota| policy.with_quota(quota))
            && policy.check().is_ok()
        {
            return (Some(Cow::Owned(policy)), Origin::Descriptor(name));
        }
        if !self.by_tier.is_empty()
            && let Some(tier) = call.verified(TIER)
            && let Some((name, policy)) = self.by_tier.iter().find(|(name, _)| **name == *tier)
        {
            return (policy.as_ref().map(Cow::Borrowed), Origin::Tier(name));
        }
        (self.policy.as_ref().map(Cow::Borrowed), Origin::Rule)
    }

    fn of_key_and_tier(&self, key: &str, call: &ResolvedCall<'_>) -> Option<&Option<LimitPolicy>> {
        if self.by_key_and_tier.is_empty() {
            return None;
        }
        let (by_tier, tier) = (self.by_key_and_tier.get(key)?, call.verified(TIER)?);
        by_tier.iter().find(|(name, _)| **name == *tier).map(|(_, policy)| policy)
    }

    /// Returns the cost of a call under this rule, in units. `own` is the cost that the call itself has.
    #[must_use]
    pub fn cost_of(&self, call: &ResolvedCall<'_>, own: u64) -> u64 {
        let by_table = self.costs.as_ref().and_then(|(name, table)| {
            let value = call.get(name)?;
            table.iter().find(|(pattern, _)| pattern.matches(value)).map(|(_, cost)| *cost)
        });
        by_table.or(self.cost).unwrap_or(own)
    }

    /// Returns true if the rule charges the cost of the call itself, which may be settled later.
    #[must_use]
    pub fn goes_by_call_cost(&self) -> bool {
        self.cost.is_none() && self.costs.is_none()
    }

    /// Returns all policies of the rule: its own, those of tiers and those of keys.
    pub fn all_policies(&self) -> impl Iterator<Item = &LimitPolicy> {
        let by_key_and_tier = self.by_key_and_tier.values().flatten();
        let timed = self.timed.iter().flat_map(|exception| exception.by_tier.iter());
        let by_tier = self.by_tier.iter().chain(by_key_and_tier).chain(timed).map(|(_, policy)| policy);
        let others = by_tier.chain(self.by_key.values()).chain(self.timed.iter().map(|exception| &exception.policy));
        std::iter::once(&self.policy).chain(others).flatten()
    }
}

/// Reads `500/min`, or a bare number in the window of the default.
fn quota_from(text: &str, default: Quota) -> Option<Quota> {
    match text.parse::<u64>() {
        Ok(units) => default.with_units(units),
        Err(_) => text.parse().ok(),
    }
}
