//! Quotas that are lowered at the next edge of their window (`lower: next-window`), and not at once.
//!
//! The quota before is kept as an exception that ends at the edge, which follows from the time of the store alone: all agents that know
//! the quota before end it at the same instant. An agent that starts meanwhile enforces the lower one at once.

use std::sync::Arc;

use super::{LimitPolicy, Rule, RuleSet, TimedCallers, TimedEnd, TimedException};
use crate::clock::Timestamp;

#[doc(hidden)]
impl RuleSet {
    /// Returns these rules with the quotas of those before until the next edge, where a rule asks for it and its quota is lower. The
    /// rules before are those that were written: an override ends at its own end, and a quota without it is no lower one.
    #[must_use]
    pub fn lowered_after(mut self, before: &Self, now: Timestamp) -> Self {
        for rule in self.rules.iter_mut().filter(|rule| rule.lowers_at_edge) {
            let is_same = |known: &&Arc<Rule>| known.name == rule.name && known.per == rule.per;
            if let Some(before) = before.rules.iter().find(is_same) {
                let kept = rule.kept_quotas(before, now);
                if !kept.is_empty() {
                    Arc::make_mut(rule).timed.splice(0..0, kept);
                }
            }
        }
        self
    }
}

impl Rule {
    /// Returns the policies of the rule before that are higher, each until the next edge of its window.
    fn kept_quotas(&self, before: &Self, now: Timestamp) -> Vec<TimedException> {
        let mut kept = Vec::new();
        let mut keep = |callers, before: Option<LimitPolicy>, after: Option<LimitPolicy>| {
            let policy = before.zip(after).filter(|(before, after)| is_lower(after, before)).map(|(before, _)| before);
            kept.extend(policy.map(|policy| {
                let width_ms = policy.quota.width_ms();
                let until = Timestamp::from_ms((now.as_ms() / width_ms + 1).saturating_mul(width_ms));
                let end = TimedEnd { until, reason: "lower: next-window".into() };
                TimedException { callers, policy: Some(policy), by_tier: Vec::new(), end }
            }));
        };
        let kept_before = before.timed.iter().find(|timed| timed.callers == TimedCallers::All && timed.end.until > now);
        keep(TimedCallers::All, kept_before.map_or(before.policy, |timed| timed.policy), self.policy);
        for (tier, after) in &self.by_tier {
            let known = before.by_tier.iter().find(|(known, _)| known == tier);
            keep(TimedCallers::Tier(tier.clone()), known.map_or(before.policy, |(_, policy)| *policy), *after);
        }
        for (key, after) in &self.by_key {
            keep(TimedCallers::Key(key.clone()), before.by_key.get(key).copied().flatten(), *after);
        }
        kept
    }
}

/// Returns true if a policy admits less in the same time.
fn is_lower(after: &LimitPolicy, before: &LimitPolicy) -> bool {
    let rate = |policy: &LimitPolicy, other: &LimitPolicy| {
        u128::from(policy.quota.units()) * u128::from(other.quota.width_ms())
    };
    rate(after, before) < rate(before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R2: the old quota until the edge of the window, then the new one; a higher one is in force at once.
    #[test]
    fn a_lower_quota_waits_for_the_edge_and_a_higher_one_does_not() {
        let at = Timestamp::from_ms;
        let set = |quota: &str, gold: &str, lowers_at_edge| {
            let mut rule = Rule::per("r", &["k"], quota.parse().expect("a quota"));
            rule.by_tier.push(("gold".into(), Some(LimitPolicy::of(gold.parse().expect("a quota")))));
            rule.lowers_at_edge = lowers_at_edge;
            RuleSet::new(1, [rule])
        };
        let quotas = |set: &RuleSet| {
            let rule = &set.rules[0];
            [rule.policy, rule.by_tier[0].1].map(|policy| policy.expect("a policy").quota.to_string())
        };
        let before = set("100/min", "200/min", true);
        let lowered = set("10/min", "300/min", true).lowered_after(&before, at(90_000));
        assert_eq!(quotas(&lowered.in_force_at(at(119_999))), ["100/min", "300/min"]);
        assert_eq!(quotas(&lowered.in_force_at(at(120_000))), ["10/min", "300/min"]);
        assert!(lowered.is_equivalent(&set("10/min", "300/min", true)), "it was written so");
        let again = set("5/min", "300/min", true).lowered_after(&lowered, at(100_000));
        assert_eq!(quotas(&again.in_force_at(at(119_999))), ["100/min", "300/min"], "the quota in force is kept");
        let at_once = set("10/min", "20/min", false).lowered_after(&before, at(90_000));
        assert_eq!(quotas(&at_once.in_force_at(at(90_000))), ["10/min", "20/min"]);
        let mut with_override = set("100/min", "200/min", true);
        let end = TimedEnd { until: at(100_000), reason: "sale".into() };
        let policy = Some(LimitPolicy::of("900/min".parse().expect("a quota")));
        let gold = TimedException { callers: TimedCallers::Tier("gold".into()), policy, by_tier: Vec::new(), end };
        Arc::make_mut(&mut with_override.rules[0]).timed.push(gold);
        let again = with_override.clone().lowered_after(&with_override, at(95_000));
        assert_eq!(quotas(&again.in_force_at(at(99_999))), ["100/min", "900/min"]);
        assert_eq!(quotas(&again.in_force_at(at(100_000))), ["100/min", "200/min"], "an override ends at its own end");
        let tier = set("100/min", "20/min", true).lowered_after(&before, at(90_000));
        assert_eq!(quotas(&tier.in_force_at(at(90_000))), ["100/min", "200/min"]);
    }
}
