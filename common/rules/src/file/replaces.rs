//! Checks of `replaces:` and `group:` between rules: a rule must not be overridden unnoticed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::hint;
use crate::yaml::YamlReader;
use tollgate_core::rules::Rule;

/// Rules, each with its line.
type RulesWithLines = [(Arc<Rule>, usize)];
/// Rules by their names.
type RulesByName<'a> = HashMap<&'a str, &'a Rule>;

pub(super) fn check_replaces(reader: &mut YamlReader<'_>, rules: &RulesWithLines) {
    let named: RulesByName<'_> = rules.iter().map(|(rule, _)| (&*rule.name, &**rule)).collect();
    for (rule, line) in rules {
        for other in &rule.replaces {
            if !named.contains_key(&**other) {
                let hint = hint(other, rules.iter().map(|(rule, _)| &*rule.name));
                reader.refuse(*line, format!("`replaces` names `{other}`, and no rule has that name{hint}"));
            }
        }
        if rule.replaces.contains(&rule.name) {
            reader.refuse(*line, format!("`{}` replaces itself, so it would never limit; remove it", rule.name));
        } else if replaces_itself(rule, &named) {
            let text = format!(
                "`{}` replaces a rule that replaces it in turn, so where both apply neither limits; remove one `replaces`",
                rule.name
            );
            reader.warn(*line, text);
        }
        if rule.shadow && (rule.group.is_some() || !rule.replaces.is_empty()) {
            let text = format!(
                "`{}` only counts (`shadow`), and where it applies, the rules that it puts aside do not limit; take it out of its `group` and remove `replaces` to try it beside them",
                rule.name
            );
            reader.warn(*line, text);
        }
    }
}

/// Returns true if a chain of `replaces` leads back to the rule.
fn replaces_itself(rule: &Rule, named: &RulesByName<'_>) -> bool {
    let mut seen = HashSet::new();
    let mut next: Vec<&str> = rule.replaces.iter().map(|name| &**name).collect();
    while let Some(name) = next.pop() {
        if name == &*rule.name {
            return true;
        }
        if seen.insert(name) {
            let other = named.get(name);
            next.extend(other.iter().flat_map(|rule| rule.replaces.iter().map(|name| &**name)));
        }
    }
    false
}
