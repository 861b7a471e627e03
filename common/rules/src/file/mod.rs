//! The rules file: YAML to [`RuleSet`], validated.
//!
//! Everything that a file asks for and that does not work yet is refused as such: a limit that is quietly not enforced is
//! the worst a limiter can do.

mod settings;
mod resolve;
mod descriptors;
mod patterns;
mod tiers;
mod lists;
mod costs;
mod denying;
mod quota;
mod rule;
mod policies;
mod replaces;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use crate::FILE_LEN_MAX;
use crate::hint;
use crate::yaml::{Known, Node, Reader, line_of};
use tollgate_core::rules::problem::Problems;
use tollgate_core::rules::{DescriptorSpec, Generation, RULES_LEN_MAX, Rule, RuleSet};

use descriptors::read_descriptors;
use lists::read_lists;
use replaces::check_replaces;
use rule::{Context, read_rule};
use settings::{Settings, read_allowed, read_settings};
use tiers::{check_tiers, read_tiers};

const TOP: Known = Known {
    what: "the rules file",
    fields: &["version", "descriptors", "slot_by", "defaults", "tiers", "rules", "lists"],
    not_yet: &[],
};
const DEFAULTS: Known = Known {
    what: "`defaults`",
    fields: &[
        "quota",
        "algorithm",
        "burst",
        "burst_multiplier",
        "sub_windows",
        "estimate",
        "consistency",
        "on_failure",
        "deadline",
        "scope",
    ],
    not_yet: &["max_excess", "leases"],
};

/// Reads a rules file. `file` is its name for error messages; `loaded` is the generation of a file without `version:`.
///
/// # Errors
/// When anything in it is unknown, not yet supported or meaningless: all such places, each with reason and remedy.
pub fn from_yaml(file: &str, text: &str, loaded: Generation) -> Result<RuleSet, Problems> {
    let mut reader = Reader::new(file);
    if text.len() > FILE_LEN_MAX {
        reader.refuse(1, format!("the file has {} bytes; at most {FILE_LEN_MAX} are read", text.len()));
        return Err(Problems { problems: reader.problems });
    }
    let document = reader.document(text);
    let set = document.as_ref().map(|document| read_set(&mut reader, document, loaded));
    // Some things are only known when everything has been read.
    reader.problems.sort_by_key(|problem| line_in(&problem.place));
    reader.warnings.sort_by_key(|problem| line_in(&problem.place));
    match set {
        Some(mut set) if reader.problems.is_empty() => {
            set.warnings = reader.warnings;
            set.origin = file.into();
            Ok(set)
        }
        _ => Err(Problems { problems: reader.problems }),
    }
}

fn read_set(reader: &mut Reader<'_>, document: &Node<'_>, loaded: Generation) -> RuleSet {
    let top = reader.fields(document, &TOP);
    let generation = top.get("version").and_then(|node| reader.parse(node, "`version`", "a whole number"));
    let descriptors =
        top.get("descriptors").map_or_else(DescriptorSpec::defaults, |node| read_descriptors(reader, node));
    let slot_by = top.get("slot_by").and_then(|node| {
        let name = reader.text(node, "`slot_by`")?;
        warn_unknown(reader, line_of(node), name, &descriptors);
        Some(name.into())
    });
    let defaults = top.get("defaults").map_or_else(Settings::default, |node| {
        let fields = reader.fields(node, &DEFAULTS);
        read_scope(reader, fields.get("scope"));
        let quota = fields.get("quota").and_then(|node| read_allowed(reader, node));
        Settings { quota, ..read_settings(reader, &fields) }
    });
    let tiers = read_tiers(reader, top.get("tiers"), &descriptors);
    if let Some(node) = top.get("tiers") {
        check_tiers(reader, line_of(node), &tiers, &descriptors);
    }
    let context = Context { descriptors: &descriptors, defaults, tiers: &tiers };
    let rules = match top.get("rules") {
        None => {
            reader.refuse(1, "there is no `rules:`; write at least one rule under it");
            Vec::new()
        }
        Some(node) => read_rules(reader, node, &context),
    };
    let lists = top.get("lists").map(|node| read_lists(reader, node, &descriptors)).unwrap_or_default();
    let generation = generation.unwrap_or(loaded);
    RuleSet { descriptors, slot_by, lists, rules, ..RuleSet::new(generation, []) }
}

fn read_rules(reader: &mut Reader<'_>, node: &Node<'_>, context: &Context<'_>) -> Vec<Arc<Rule>> {
    let items = reader.items(node, "`rules`");
    if items.len() > RULES_LEN_MAX {
        reader.refuse(line_of(node), format!("{} rules; at most {RULES_LEN_MAX} are enforced", items.len()));
    }
    if items.is_empty() {
        reader.warn(line_of(node), "there is no rule, so nothing is limited");
    }
    let mut names = HashSet::new();
    let mut rules = Vec::new();
    for item in &items {
        let Some(rule) = read_rule(reader, item, context) else {
            continue;
        };
        if !names.insert(rule.name.clone()) {
            reader.refuse(line_of(item), format!("a rule named `{}` stands above; rename one", rule.name));
        }
        rules.push((Arc::new(rule), line_of(item)));
    }
    // A rule that cannot be read is not known by name.
    if rules.len() == items.len() {
        check_replaces(reader, &rules);
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

/// Quotas over several regions are planned; a region of its own is what there is.
fn read_scope(reader: &mut Reader<'_>, node: Option<&Node<'_>>) {
    let Some(node) = node else { return };
    match reader.text(node, "`scope`") {
        Some("global") => reader.refuse(line_of(node), "`scope: global` is not yet supported; remove it"),
        Some(other) if other != "region" => {
            settings::refuse_word::<()>(reader, node, "scope", other, &["region"]);
        }
        _ => {}
    }
}

fn warn_unknown(reader: &mut Reader<'_>, line: usize, name: &str, known: &[DescriptorSpec]) {
    if known.iter().all(|spec| *spec.name != *name) {
        let hint = hint(name, known.iter().map(|spec| &*spec.name));
        let text =
            format!("`{name}` is not under `descriptors`, so only a call that names it itself is counted by it{hint}");
        reader.warn(line, text);
    }
}

fn line_in(place: &str) -> Option<usize> {
    place.rsplit_once(':')?.1.parse().ok()
}
