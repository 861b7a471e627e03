//! Parsers and displays of the settings that a rule itself holds; `cost` and `costs` have their own file.

use std::sync::Arc;

use serde_json::Value;
use tollgate_core::rules::{Charging, DescriptorSpec, LimitPolicy, Rule};

use super::show::policy_json;
use super::{read_word, word_of};
use crate::yaml::{Fields, Node, YamlReader, line_of};

const CHARGES: [(&str, Charging); 2] = [("all_or_none", Charging::AllOrNone), ("each", Charging::Each)];

pub(super) fn read_group(reader: &mut YamlReader<'_>, node: &Node<'_>, _: &[DescriptorSpec], rule: &mut Rule) {
    rule.group = reader.text(node, "`group`").map(Into::into);
}

pub(super) fn read_charge(reader: &mut YamlReader<'_>, node: &Node<'_>, _: &[DescriptorSpec], rule: &mut Rule) {
    rule.charge = read_word(reader, node, "charge", &CHARGES, &[]).unwrap_or_default();
}

pub(super) fn charge_text(rule: &Rule) -> &'static str {
    word_of(&CHARGES, &rule.charge)
}

pub(super) fn read_shadow(reader: &mut YamlReader<'_>, node: &Node<'_>, _: &[DescriptorSpec], rule: &mut Rule) {
    rule.shadow = reader.parse(node, "`shadow`", "true or false").unwrap_or_default();
}

pub(super) fn read_replaces(reader: &mut YamlReader<'_>, node: &Node<'_>, _: &[DescriptorSpec], rule: &mut Rule) {
    let items = reader.items(node, "`replaces`");
    let names = items.into_iter().filter_map(|item| reader.text(item, "an item of `replaces`"));
    rule.replaces = names.map(Into::into).collect();
}

/// Checks the scope. Quotas over several regions are planned; a quota for each region is supported.
pub(crate) fn check_scope(reader: &mut YamlReader<'_>, fields: &Fields<'_>) {
    let Some(node) = fields.get("scope") else { return };
    match reader.text(node, "`scope`") {
        Some("global") => reader.refuse(line_of(node), "`scope: global` is not yet supported; remove it"),
        Some(_) => {
            read_word(reader, node, "scope", &[("region", ())], &[]);
        }
        None => {}
    }
}

pub(super) fn replaces_text(rule: &Rule) -> Option<String> {
    (!rule.replaces.is_empty()).then(|| rule.replaces.join(", "))
}

/// Returns the number of keys with a policy of their own, if there are any.
pub(super) fn keys_text(rule: &Rule) -> Option<String> {
    match rule.by_key.len() {
        0 => None,
        1 => Some("1 key".to_owned()),
        many => Some(format!("{many} keys")),
    }
}

pub(super) fn tiers_json(rule: &Rule) -> Value {
    let tier =
        |(tier, policy): &(Arc<str>, Option<LimitPolicy>)| (tier.to_string(), policy_json(policy.as_ref()).into());
    Value::Object(rule.by_tier.iter().map(tier).collect())
}

pub(super) fn names_json(names: &[Arc<str>]) -> Value {
    names.iter().map(|name| &**name).collect()
}
