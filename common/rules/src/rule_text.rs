//! A rule in words, for people who may not see secrets.

use std::sync::Arc;

use tollgate_core::one_line::one_line;
use tollgate_core::rules::{Pattern, Rule, RuleSet};

use crate::bound::bound;
use crate::display::counted_per;
use crate::settings::Shown;

/// A rule in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    /// Calls to which it applies, and the descriptors by which it counts. Values of secret descriptors are left out.
    pub calls: String,
    /// Quota, algorithm and other settings, and the quota of each tier with the settings in which it differs.
    pub limit: String,
    /// Most that a counter admits while Redis answers; none without a limit.
    pub bound: Option<String>,
}

impl RuleText {
    /// Returns the text of a rule of a set.
    #[must_use]
    pub fn of(set: &RuleSet, rule: &Rule) -> Self {
        let pattern = |(name, pattern): &(Arc<str>, Pattern)| {
            if set.is_secret(name) { format!("{name}=…") } else { format!("{name}={pattern}") }
        };
        let mut calls: Vec<String> = rule.matches.iter().map(pattern).collect();
        if calls.is_empty() {
            calls.push("every call".to_owned());
        }
        if !rule.deny {
            calls.push(counted_per(rule));
        }
        let of_rule = Shown::of_policy(rule, rule.policy.as_ref());
        let own = Shown::lines(std::slice::from_ref(&of_rule));
        let mut limit = Shown::lines(&[of_rule, Shown::of_rule(rule)]);
        for (tier, policy) in &rule.by_tier {
            let of_tier = Shown::lines(&[Shown::of_policy(rule, policy.as_ref())]);
            // The first line is the quota.
            let differing = of_tier.iter().enumerate().filter(|(at, line)| *at == 0 || !own.contains(line));
            let of_tier: Vec<&str> = differing.map(|(_, line)| &**line).collect();
            limit.push(format!("tier {tier}: {}", of_tier.join("; ")));
        }
        Self {
            calls: one_line(&calls.join(" ")).into_owned(),
            limit: limit.join("; "),
            bound: rule.policy.as_ref().map(|policy| bound(policy, rule.scope)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_calls_limit_tiers_and_bound_but_no_secret() {
        let yaml = "
rules:
  - name: per-key
    match: { api_key: k9, endpoint: /search, tier: gold }
    per: [api_key, method]
    quota: 100/min
    tiers: { gold: { quota: 1000/min }, free: { quota: 5/min, consistency: strict } }
  - { name: closed, match: { tenant: old }, deny: true }
";
        let set = crate::from_yaml("rules.yaml", yaml, 1).unwrap_or_else(|error| panic!("{error}"));
        let [limited, closed] = [0, 1].map(|rule: usize| RuleText::of(&set, &set.rules[rule]));
        assert_eq!(limited.calls, "api_key=… endpoint=/search tier=gold per api_key, method");
        assert!(
            limited.limit.starts_with("100/min; ")
                && limited
                    .limit
                    .contains("; tier gold: 1000/min; tier free: 5/min; sliding_window, 12 x 5 s, conservative;"),
            "{limited:?}"
        );
        assert!(limited.bound.is_some_and(|bound| bound.starts_with("A counter admits at most 100")));
        assert_eq!((&*closed.calls, &*closed.limit, closed.bound), ("tenant=…", "denied", None));
    }
}
