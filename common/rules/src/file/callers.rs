//! Callers of the exceptions of a rule: keys and tiers that no call has, and those that rest on unverified text.
//!
//! A file and an override beside it go through the same checks.

use super::exceptions::Exception;
use super::overrides::{OverrideEffect, RuleOverride};
use super::patterns::entry_pattern;
use super::tiers::NO_TIER;
use super::unverified::{find, warn_unverified};
use crate::request_values::{unmet_texts, unmet_values, warn_unmet_text};
use crate::yaml::{Fields, YamlReader, line_of};
use tollgate_core::rules::{DescriptorSpec, Rule, RuleSet, TIER};

const PATTERN_AS_KEY: &str =
    "a key is one whole value, not a pattern; make those callers a tier, or write a rule with `match` for them";

/// Checks the keys of a rule.
pub(super) fn check_keys(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    keys: &[Exception],
    rule: &Rule,
    known: &[DescriptorSpec],
) {
    if let Some(node) = fields.get("keys").filter(|_| fields.get("per").is_some() && rule.per.is_empty()) {
        let text = "`keys` are values of the first descriptor of `per`, and there is none; write `per`";
        reader.refuse(line_of(node), text);
    }
    for Exception { line, .. } in keys.iter().filter(|key| is_pattern(&key.name)) {
        reader.refuse(*line, PATTERN_AS_KEY);
    }
    for Exception { name: key, line, .. } in keys {
        if let Some(name) = rule.per.first() {
            warn_unmet_text(reader, *line, name, key, known);
        }
    }
}

/// Warns of an override that holds only for verified values, and whose values a client can write itself.
pub(super) fn warn_unverified_override(
    reader: &mut YamlReader<'_>,
    RuleOverride { is_tier, exception, .. }: &RuleOverride,
    rule: &Rule,
    known: &[DescriptorSpec],
) {
    let is_unlimited = exception.layer.quota.is_some_and(|quota| quota.value.is_none());
    match rule.per.first() {
        _ if *is_tier => warn_unverified(reader, exception.line, "`tier` rests on", TIER, known),
        Some(name) if is_unlimited => {
            warn_unverified(reader, exception.line, &format!("`unlimited` rests on `{name}` from"), name, known);
        }
        _ => {}
    }
}

/// Returns the reason why no call has the callers of an override, and the remedy; none if some call may have them.
#[must_use]
pub fn override_fault(set: &RuleSet, effect: &OverrideEffect) -> Option<String> {
    let known = &set.descriptors;
    match effect {
        OverrideEffect::Quota { is_tier: true, .. } => find(known, TIER).is_none().then(|| NO_TIER.to_owned()),
        OverrideEffect::Quota { of, .. } if is_pattern(of) => Some(PATTERN_AS_KEY.to_owned()),
        OverrideEffect::Quota { rule, of, .. } => {
            let rule = set.rules.iter().find(|known| *known.name == **rule)?;
            unmet_texts(rule.per.first()?, of, known).into_iter().next()
        }
        OverrideEffect::Listed { values, .. } => {
            let unmet =
                |(name, value): &(String, String)| unmet_values(name, &entry_pattern(value), known).into_iter().next();
            values.iter().find_map(unmet)
        }
    }
}

fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?'])
}
