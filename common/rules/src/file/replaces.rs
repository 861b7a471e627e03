//! Checks of `replaces:` and `group:` between rules: a rule must not be overridden unnoticed.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::hint;
use crate::yaml::YamlReader;
use tollgate_core::rules::{DescriptorSpec, Narrowness, Rule};

use super::coverage::covers_rule;

type RulesWithLines = [(Arc<Rule>, usize)];
type RulesByName<'a> = HashMap<&'a str, &'a Rule>;

pub(super) fn check_replaces(reader: &mut YamlReader<'_>, rules: &RulesWithLines, known: &[DescriptorSpec]) {
    warn_never_applies(reader, rules, known);
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

/// Warns of a rule that never applies, because another rule overrides it wherever it matches.
fn warn_never_applies(reader: &mut YamlReader<'_>, rules: &RulesWithLines, known: &[DescriptorSpec]) {
    // The narrowest first.
    let mut groups: HashMap<&str, Vec<(Reverse<Narrowness>, usize)>> = HashMap::new();
    let mut replacing: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, (rule, _)) in rules.iter().enumerate() {
        match &rule.group {
            Some(group) => groups.entry(group).or_default().push((Reverse(rule.narrowness()), index)),
            // A rule of a group may itself be overridden, and then replaces nothing.
            None => rule.replaces.iter().for_each(|name| replacing.entry(name).or_default().push(index)),
        }
    }
    for group in groups.values_mut() {
        group.sort_unstable();
    }
    for (index, (rule, line)) in rules.iter().enumerate() {
        let covers = |other: &usize| *other != index && covers_rule(&rules[*other].0, rule, known);
        let own = Reverse(rule.narrowness());
        let group = rule.group.as_ref().and_then(|group| groups.get(&**group)).map_or(&[][..], Vec::as_slice);
        let mut narrower = group.iter().take_while(|other| **other < (own, index));
        let (other, reason) = if let Some((rank, other)) = narrower.find(|(_, other)| covers(other)) {
            let reason = if *rank == own {
                "is as narrow and stands above; put the rule with fewer calls first, or remove one of the two"
            } else {
                "is narrower; take one of the two out of the group, or remove it"
            };
            (other, reason)
        } else if let Some(other) = replacing.get(&*rule.name).and_then(|all| all.iter().find(|other| covers(other))) {
            (other, "replaces it; write a narrower `match` there, or remove one of the two")
        } else {
            continue;
        };
        let (name, (other, other_line)) = (&rule.name, &rules[*other]);
        let (other, place) = (&other.name, reader.place_seen_from(*other_line, *line));
        let text = format!(
            "`{name}` never applies: `{other}` in {place} matches every call that `{name}` matches, and {reason}"
        );
        reader.warn(*line, text);
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
