//! Parser of the rules file: YAML to a validated [`RuleSet`].
//!
//! A planned feature is refused and never ignored, because a limit that is silently not enforced is the worst defect of a
//! limiter. This folder reads the structure (descriptors, tiers, rules, lists); the settings of a rule are read by the table
//! in `settings`.

mod descriptors;
mod quota_factor;
mod exceptions;
mod coverage;
mod patterns;
mod overrides;
mod tiers;
mod lists;
mod quota;
mod regions;
mod policies;
mod rule;
mod replaces;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::{Key, map_of, names, object, reference, text, whole, with_required};
use crate::settings::{Layer, Level, read_rule_values, warn_undeclared};
use crate::yaml::{Node, YamlReader, line_of};
use tollgate_core::decision::{DegradedRemaining, DenyStatus};
use tollgate_core::rules::problem::Problems;
use tollgate_core::rules::{DescriptorSpec, Generation, Numbering, RULES_LEN_MAX, Rule, RuleSet};

use descriptors::read_descriptors;
use exceptions::{Exception, read_exceptions};
use lists::read_lists;
use overrides::overrides_of_file;
pub use overrides::{OVERRIDES_LEN_MAX, Override, OverrideEffect, overrides_text, read_overrides};
use regions::read_regions;
use replaces::check_replaces;
use rule::read_rule;
use tiers::FileContext;

/// Fields of the file.
const TOP: [Key; 10] = [
    Key::new("version", "Version number of the rules; raise it with each change.", || whole(0, u64::MAX)),
    Key::new("descriptors", "Values to take from a request, by their names.", descriptors::schema),
    Key::new("slot_by", "Descriptor whose counters share a hash slot of a Redis Cluster.", text),
    Key::new("regions", "Regions that share the quotas of rules with `scope: global`.", regions::schema),
    Key::new("defaults", "Settings of all rules.", || Level::Defaults.schema()),
    Key::new("tiers", "Settings of all rules for callers in a tier.", || map_of(&reference("exception"))),
    Key::new(
        "rules",
        "The rules. All that match a call apply to it.",
        || json!({ "type": "array", "items": reference("rule"), "maxItems": RULES_LEN_MAX }),
    ),
    Key::new("lists", "Callers that are never denied, and callers that always are.", lists::schema),
    Key::new(
        "deny_status",
        "Status of calls that are always denied. Default: 429.",
        || json!({ "enum": DENY_STATUSES.map(DenyStatus::code) }),
    ),
    Key::new(
        "degraded_remaining",
        "Remaining units in answers without Redis. Default: estimate.",
        || json!({ "enum": ["estimate", -1] }),
    ),
];
const DENY_STATUSES: [DenyStatus; 2] = [DenyStatus::TooManyRequests, DenyStatus::Forbidden];

/// Returns the JSON Schema of the rules file.
#[must_use]
pub fn json_schema() -> Value {
    let mut file = with_required(object(TOP), &["rules"]);
    file["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    file["title"] = "Rules file of Tollgate".into();
    file["$defs"] = json!({
        "rule": rule::schema(),
        "exception": exceptions::schema(),
        "matches": patterns::matches_schema(),
        "pattern": patterns::schema(),
    });
    file
}

/// Reads a rules file. `file` is its name for messages; `loaded` is the generation of a file without `version:`.
///
/// # Errors
/// All parts of the file that are unknown, not yet supported or without effect, each with reason and remedy.
pub fn from_yaml(file: &str, text: &str, loaded: Generation) -> Result<RuleSet, Problems> {
    from_yaml_with(file, text, "", loaded)
}

/// Reads a rules file with the overrides beside it.
pub(crate) fn from_yaml_with(file: &str, text: &str, overrides: &str, loaded: Generation) -> Result<RuleSet, Problems> {
    let mut reader = YamlReader::new(file);
    let document = reader.document(text);
    let set = document.as_ref().map(|document| read_set(&mut reader, document, overrides, loaded));
    // Some problems are found only after the whole file has been read.
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

fn read_set(reader: &mut YamlReader<'_>, document: &Node<'_>, overrides: &str, loaded: Generation) -> RuleSet {
    let top = reader.fields(document, "the rules file", &names(&TOP));
    let generation = top.get("version").and_then(|node| reader.parse(node, "`version`", "a whole number"));
    let descriptors =
        top.get("descriptors").map_or_else(DescriptorSpec::defaults, |node| read_descriptors(reader, node));
    let slot_by = top.get("slot_by").and_then(|node| {
        let name = reader.text(node, "`slot_by`")?;
        warn_undeclared(reader, line_of(node), name, &descriptors);
        Some(name.into())
    });
    let (defaults, rule_defaults) =
        top.get("defaults").map(|node| read_defaults(reader, node, &descriptors)).unwrap_or_default();
    let tiers = read_exceptions(reader, top.get("tiers"), "`tiers`");
    let regions = top.get("regions").map(|node| read_regions(reader, node));
    refuse_ends(reader, &tiers);
    let mut overrides = overrides_of_file(overrides, &descriptors);
    reader.problems.append(&mut overrides.problems);
    let context = FileContext { descriptors, defaults, rule_defaults, tiers, regions, overrides };
    if let Some(node) = top.get("tiers") {
        context.check_tiers(reader, line_of(node));
    }
    if top.get("rules").is_none() {
        reader.refuse(1, "there is no `rules:`; write at least one rule under it");
    }
    let rules = top.get("rules").map(|node| read_rules(reader, node, &context)).unwrap_or_default();
    warn_lost_overrides(reader, &context, &rules);
    let FileContext { descriptors, rule_defaults, regions, overrides, .. } = context;
    let mut lists = top.get("lists").map(|node| read_lists(reader, node, &descriptors)).unwrap_or_default();
    lists.timed = overrides.entries;
    let status_of = |text: &str| DENY_STATUSES.into_iter().find(|status| status.code().to_string() == text);
    let deny_status = top.get("deny_status");
    let deny_status = deny_status.and_then(|node| reader.parse_by(node, "`deny_status`", "429 or 403", status_of));
    let deny_status = deny_status.unwrap_or_default();
    let values = [DegradedRemaining::Estimate, DegradedRemaining::Unknown];
    let value_of = |text: &str| values.into_iter().find(|value| value.as_str() == text);
    let degraded_remaining = top.get("degraded_remaining");
    let degraded_remaining = degraded_remaining
        .and_then(|node| reader.parse_by(node, "`degraded_remaining`", "estimate or -1", value_of))
        .unwrap_or_default();
    let mut set = RuleSet::new(generation.unwrap_or(loaded), []);
    set.numbering = if generation.is_some() { Numbering::Version } else { Numbering::LoadTime };
    (set.descriptors, set.rules, set.slot_by, set.lists) = (descriptors, rules, slot_by, lists);
    (set.deny_status, set.degraded_remaining) = (deny_status, degraded_remaining);
    set.own_answer = rule_defaults.own_answer;
    set.regions = regions.unwrap_or_default();
    set
}

/// Refuses tiers of the file that end by themselves, or whose quota is a factor: without a rule there is nothing to fall back to.
fn refuse_ends(reader: &mut YamlReader<'_>, tiers: &[Exception]) {
    for tier in tiers.iter().filter(|tier| tier.end.is_some() || tier.factor.is_some()) {
        let text = "`until` and factors such as x2 are for the `tiers` and `keys` of a rule; write them there";
        reader.refuse(tier.line, text);
    }
}

/// Warns of overrides of rules that the file no longer has.
fn warn_lost_overrides(reader: &mut YamlReader<'_>, context: &FileContext, rules: &[Arc<Rule>]) {
    let is_rule = |name: &str| rules.iter().any(|rule| *rule.name == *name);
    for lost in context.overrides.of_no_rule(is_rule) {
        let rule = &lost.rule;
        let text = format!(
            "an override of the rule `{rule}` has no effect, because the file has no such rule; remove it with `tollgate rules override --remove`"
        );
        reader.warn(1, text);
    }
}

/// Reads the settings that apply to every rule: those of its policy, and those of the rule itself.
fn read_defaults(reader: &mut YamlReader<'_>, node: &Node<'_>, known: &[DescriptorSpec]) -> (Layer, Rule) {
    let fields = Level::Defaults.read(reader, node);
    let mut rule = Rule::default();
    read_rule_values(reader, &fields, Level::Defaults, known, &mut rule);
    (Layer::read_level(reader, &fields), rule)
}

fn read_rules(reader: &mut YamlReader<'_>, node: &Node<'_>, context: &FileContext) -> Vec<Arc<Rule>> {
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
        let Some(rule) = read_rule(reader, item, context) else { continue };
        if !names.insert(rule.name.clone()) {
            reader.refuse(line_of(item), format!("a rule named `{}` stands above; rename one", rule.name));
        }
        rules.push((Arc::new(rule), line_of(item)));
    }
    // The name of a rule that cannot be read is unknown.
    if rules.len() == items.len() {
        check_replaces(reader, &rules, &context.descriptors);
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

fn line_in(place: &str) -> Option<usize> {
    place.rsplit_once(':')?.1.parse().ok()
}
