//! Rules whose overrides a command changes.

use std::sync::Arc;

use anyhow::bail;
use tollgate_command::exit::Usage;
use tollgate_core::rules::{Rule, RuleSet, TIER};
use tollgate_rules::{Override, OverrideEffect};

/// Returns the named rules, or the only rule to which the caller may be an exception.
pub(super) fn rules_for(set: &RuleSet, name: &str, named: &[String]) -> anyhow::Result<Vec<String>> {
    let fits = |rule: &&Arc<Rule>| !rule.deny && has_callers(rule, name);
    let all: Vec<String> = set.rules.iter().filter(fits).map(|rule| rule.name.to_string()).collect();
    for rule in named {
        if !all.contains(rule) {
            let text = format!("no rule `{rule}` counts by `{name}` first; these do: {}", shown(&all));
            bail!(Usage(text));
        }
    }
    match &all[..] {
        _ if !named.is_empty() => {
            let mut named = named.to_vec();
            named.sort();
            named.dedup();
            Ok(named)
        }
        [only] => Ok(vec![only.clone()]),
        [] => {
            let first = set.rules.iter().filter_map(|rule| rule.per.first()).map(ToString::to_string);
            let mut known: Vec<String> = first.collect();
            known.dedup();
            bail!(Usage(format!("no rule counts by `{name}` first; the rules count by: {}", shown(&known))))
        }
        several => bail!(Usage(format!("several rules count by `{name}`: {}; name one with --rule", shown(several)))),
    }
}

fn shown(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns the known overrides of a caller: those of rules that count by the descriptor, and of rules that are gone; with names,
/// only those of the named rules.
pub(super) fn effects_of(
    set: &RuleSet,
    known: Vec<Override>,
    (name, value): &(String, String),
    named: &[String],
) -> Vec<OverrideEffect> {
    let is_meant = |rule: &String| {
        let known = set.rules.iter().find(|known| *known.name == **rule);
        known.is_none_or(|rule| has_callers(rule, name)) && (named.is_empty() || named.contains(rule))
    };
    let is_of_caller = |effect: &OverrideEffect| match effect {
        OverrideEffect::Quota { rule, is_tier, of, .. } => of == value && *is_tier == (name == TIER) && is_meant(rule),
        OverrideEffect::Listed { .. } => false,
    };
    known.into_iter().map(|known| known.effect).filter(is_of_caller).collect()
}

/// Returns true if the values of a descriptor, or tiers, may be exceptions of a rule.
fn has_callers(rule: &Rule, name: &str) -> bool {
    name == TIER || rule.per.first().is_some_and(|first| **first == *name)
}
