//! Parsers and displays of the settings that a rule itself holds; `cost` and `costs` have their own file.

use tollgate_core::rules::{Charging, DescriptorSpec};

use super::{RuleEdit, read_word, word_of};
use crate::yaml::{Node, Reader, line_of};

const CHARGES: [(&str, Charging); 2] = [("all_or_none", Charging::AllOrNone), ("each", Charging::Each)];

pub(super) fn read_group(reader: &mut Reader<'_>, node: &Node<'_>, _: &[DescriptorSpec]) -> Option<RuleEdit> {
    let group = reader.text(node, "`group`")?.into();
    Some(Box::new(|rule| rule.group = Some(group)))
}

pub(super) fn read_charge(reader: &mut Reader<'_>, node: &Node<'_>, _: &[DescriptorSpec]) -> Option<RuleEdit> {
    let charge = read_word(reader, node, "charge", &CHARGES, &[])?;
    Some(Box::new(move |rule| rule.charge = charge))
}

pub(super) fn charge_text(charge: Charging) -> &'static str {
    word_of(&CHARGES, &charge)
}

pub(super) fn read_shadow(reader: &mut Reader<'_>, node: &Node<'_>, _: &[DescriptorSpec]) -> Option<RuleEdit> {
    let shadow = reader.parse(node, "`shadow`", "true or false")?;
    Some(Box::new(move |rule| rule.shadow = shadow))
}

pub(super) fn read_replaces(reader: &mut Reader<'_>, node: &Node<'_>, _: &[DescriptorSpec]) -> Option<RuleEdit> {
    let items = reader.items(node, "`replaces`");
    let names = items.into_iter().filter_map(|item| reader.text(item, "an item of `replaces`"));
    let names = names.map(Into::into).collect();
    Some(Box::new(|rule| rule.replaces = names))
}

/// Checks the scope. Quotas over several regions are planned; a quota for each region is supported.
pub(super) fn read_scope(reader: &mut Reader<'_>, node: &Node<'_>) {
    match reader.text(node, "`scope`") {
        Some("global") => reader.refuse(line_of(node), "`scope: global` is not yet supported; remove it"),
        Some(_) => {
            read_word(reader, node, "scope", &[("region", ())], &[]);
        }
        None => {}
    }
}

/// Writes a number with a noun.
pub(super) fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
