//! Overrides in words: the rule or list, the callers, and the command that ends one.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tollgate_core::rules::TIER;
use tollgate_rules::{Override, OverrideEffect};

use super::published::{PublishedRules, utc};
use crate::sample::quoted;

/// Names of the descriptors that the callers of overrides are values of, by rule. An override has the value alone.
pub(super) struct CallerNames(HashMap<String, String>);

impl CallerNames {
    /// Reads the names from the newest publications that have the rules of these overrides.
    pub(super) fn of<'a>(place: &PublishedRules, effects: impl Iterator<Item = &'a OverrideEffect>) -> Self {
        let mut missing: HashSet<&str> = effects
            .filter_map(|effect| match effect {
                OverrideEffect::Quota { rule, is_tier: false, .. } => Some(&**rule),
                _ => None,
            })
            .collect();
        let mut names = HashMap::new();
        for kept in place.kept().iter().rev() {
            if missing.is_empty() {
                break;
            }
            let rules = kept.rules().map(|set| set.rules).unwrap_or_default();
            for rule in rules.iter().filter(|rule| missing.remove(&*rule.name)) {
                names.extend(rule.per.first().map(|first| (rule.name.to_string(), first.to_string())));
            }
        }
        Self(names)
    }

    /// Returns the command that ends an override.
    pub(super) fn removal(&self, effect: &OverrideEffect) -> String {
        match effect {
            OverrideEffect::Quota { rule, is_tier: true, of, .. } => removal_of(TIER, of, rule),
            OverrideEffect::Quota { rule, of, .. } => removal_of(self.0.get(rule).map_or("key", |name| name), of, rule),
            OverrideEffect::Listed { denies, values } => {
                let list = if *denies { "deny" } else { "allow" };
                let values: Vec<_> = values.iter().map(|(name, value)| word(&format!("{name}={value}"))).collect();
                format!("tollgate rules {list} {} --remove", values.join(" "))
            }
        }
    }
}

/// Returns the rule or list, the callers and the quota of an override.
pub(super) fn words(effect: &OverrideEffect) -> (String, String, String) {
    match effect {
        OverrideEffect::Quota { rule, is_tier, of, quota } => {
            (rule.clone(), if *is_tier { format!("tier={of}") } else { of.clone() }, quota.clone())
        }
        OverrideEffect::Listed { denies, values } => {
            let values: Vec<_> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let list = if *denies { "lists.deny" } else { "lists.allow" };
            (list.to_owned(), values.join(" "), String::new())
        }
    }
}

pub(super) fn override_json(Override { effect, end }: &Override) -> Value {
    let (rule, callers, quota) = words(effect);
    json!({ "rule": rule, "callers": callers, "quota": quota, "until_ms": end.until.as_ms(), "reason": *end.reason })
}

/// Returns the name of an override in messages, with its end.
pub(super) fn label(Override { effect, end }: &Override) -> String {
    let (rule, callers, _) = words(effect);
    let until = utc(end.until);
    match effect {
        OverrideEffect::Quota { .. } => format!("override of {callers} under rule {rule} until {until}"),
        OverrideEffect::Listed { .. } => format!("{rule} {callers} until {until}"),
    }
}

/// Returns the command that ends an override of a quota.
pub(super) fn removal_of(name: &str, value: &str, rule: &str) -> String {
    format!("tollgate rules override {} --rule {} --remove", word(&format!("{name}={value}")), word(rule))
}

/// Returns a word of a command, in quotes if a shell needs them.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "=_-./:,@%+".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}
