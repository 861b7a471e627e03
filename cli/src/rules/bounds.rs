//! The bound of each rule while Redis answers, in words, in the output of `tollgate rules validate`: of the rule itself, and of
//! its tiers and keys as far as their bounds differ.

use serde_json::{Value, json};
use tollgate_command::output::table;
use tollgate_core::rules::{LimitPolicy, Rule, RuleSet};
use tollgate_rules::bound;

use super::exceptions;

/// Returns the bounds of all rules as a table; nothing if no rule limits.
pub(super) fn text(set: &RuleSet) -> String {
    let mut rows = Vec::new();
    for rule in &set.rules {
        rows.extend(own(rule).map(|bound| [rule.name.to_string(), bound]));
        let row = |(name, bound)| [format!("  {name}"), bound];
        rows.extend(of_exceptions(rule, exceptions::tiers(rule)).map(row));
        let mut keys = of_exceptions(rule, exceptions::keys(rule)).map(row).collect();
        let hidden = exceptions::shorten(&mut keys);
        rows.extend(keys.into_iter().chain(hidden));
    }
    if rows.is_empty() {
        return String::new();
    }
    format!("\n\n{}", table(&["RULE", "BOUND WHILE REDIS ANSWERS"], rows))
}

/// Returns the bounds of a rule as JSON: that of the rule itself, which has no name, and those of tiers and keys that
/// differ from it.
pub(super) fn json(rule: &Rule) -> Vec<Value> {
    let of_exceptions = of_exceptions(rule, exceptions::tiers(rule).chain(exceptions::keys(rule)));
    let named = of_exceptions.map(|(name, bound)| (Some(name), bound));
    let all = own(rule).map(|bound| (None, bound)).into_iter().chain(named);
    all.map(|(name, bound)| json!({ "of": name, "text": bound })).collect()
}

fn own(rule: &Rule) -> Option<String> {
    rule.policy.as_ref().map(|policy| bound(policy, rule.scope))
}

/// Returns the bounds of tiers or keys that differ from that of the rule.
fn of_exceptions<'a>(
    rule: &Rule,
    exceptions: impl Iterator<Item = (String, &'a LimitPolicy)>,
) -> impl Iterator<Item = (String, String)> {
    let (own, scope) = (own(rule), rule.scope);
    let bounds = exceptions.map(move |(name, policy)| (name, bound(policy, scope)));
    bounds.filter(move |(_, bound)| own.as_ref() != Some(bound))
}
