//! Parser of the rules files: YAML to a validated [`RuleSet`].
//!
//! Several files are one rule set. `defaults` and `owner` are for the rules of their own file; descriptors, tiers, lists and
//! rules are merged; every other key stands in one file only.
//!
//! A planned feature is refused and never ignored, because a limit that is silently not enforced is the worst defect of a
//! limiter. This folder reads the structure (descriptors, tiers, rules, lists); the settings of a rule are read by the table
//! in `settings`.

mod top_level;
mod descriptors;
mod unverified;
mod quota_factor;
mod exceptions;
mod coverage;
mod patterns;
mod overrides;
mod tiers;
mod lists;
mod quota;
mod regions;
mod callers;
mod policies;
mod rule;
mod replaces;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::parts::{NamedText, split};
use crate::schema::{Key, map_of, names, object, reference, text, whole, with_required};
use crate::settings::{Layer, Level, read_rule_values, warn_undeclared};
use crate::yaml::{FILE_LEN_MAX, Node, YamlReader, line_of};
use tollgate_core::decision::{DegradedRemaining, DenyStatus};
use tollgate_core::own_answer::OwnAnswer;
use tollgate_core::rules::problem::{Problem, Problems};
use tollgate_core::rules::{DescriptorSpec, Generation, Lists, Numbering, RULES_LEN_MAX, Rule, RuleSet};

pub use callers::override_fault;
use descriptors::read_descriptors;
use exceptions::{Exception, read_named};
use lists::read_lists;
use overrides::overrides_of_file;
pub use overrides::{OVERRIDES_LEN_MAX, Override, OverrideEffect, override_at, overrides_text, read_overrides};
use regions::read_regions;
use replaces::check_replaces;
use rule::read_rule;
use tiers::FileContext;
use top_level::{TopLevel, owner_schema};

/// Fields of the file.
const TOP: [Key; 11] = [
    Key::new("version", "Version number of the rules; raise it with each change.", || whole(0, u64::MAX)),
    Key::new("owner", "Who is responsible for the rules of this file, such as a team.", owner_schema),
    Key::new("descriptors", "Values to take from a request, by their names.", descriptors::schema),
    Key::new("slot_by", "Descriptor whose counters share a hash slot of a Redis Cluster.", text),
    Key::new("regions", "Regions that share the quotas of rules with `scope: global`.", regions::schema),
    Key::new("defaults", "Settings of the rules of this file.", || Level::Defaults.schema()),
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
    // Without `rules`, which another file may hold.
    let mut file = with_required(object(TOP), &[]);
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

/// Reads several files that together hold the rules. `origin` is their name for display; `loaded` is the generation of
/// files without `version:`.
///
/// # Errors
/// As [`from_yaml`], and keys or names that stand in two files.
pub fn from_parts(origin: &str, parts: &[NamedText], loaded: Generation) -> Result<RuleSet, Problems> {
    let files: Vec<_> = parts.iter().flat_map(|part| split(&part.name, &part.text)).collect();
    from_files(origin, &files, "", loaded)
}

/// Reads rules of one or several files with the overrides beside them.
pub(crate) fn from_yaml_with(file: &str, text: &str, overrides: &str, loaded: Generation) -> Result<RuleSet, Problems> {
    from_files(file, &split(file, text), overrides, loaded)
}

fn from_files(origin: &str, files: &[(&str, &str)], overrides: &str, loaded: Generation) -> Result<RuleSet, Problems> {
    let mut reader = YamlReader::new(files.first().map_or(origin, |(name, _)| name));
    let len: usize = files.iter().map(|(_, text)| text.len()).sum();
    if files.len() > 1 && len > FILE_LEN_MAX {
        reader.refuse(1, format!("the files have {len} bytes together; at most {FILE_LEN_MAX} are read"));
        return Err(Problems { problems: reader.problems });
    }
    let mut documents = Vec::new();
    for (index, (name, text)) in files.iter().enumerate() {
        if index > 0 {
            reader.begin_file(name);
        }
        documents.extend(reader.document(text));
    }
    // The rest of the files means something else without one of them.
    let is_whole = documents.len() == files.len();
    let set = is_whole.then(|| read_set(&mut reader, &documents, overrides, loaded));
    reader.sort();
    match set {
        Some(mut set) if reader.problems.is_empty() => {
            set.warnings = reader.warnings;
            set.origin = origin.into();
            Ok(set)
        }
        _ => Err(Problems { problems: reader.problems }),
    }
}

fn read_set(reader: &mut YamlReader<'_>, documents: &[Node<'_>], overrides: &str, loaded: Generation) -> RuleSet {
    let top = TopLevel::read(reader, documents, &names(&TOP));
    let generation = top.only(reader, "version").and_then(|node| reader.parse(node, "`version`", "a whole number"));
    let declared = top.merged(reader, "descriptors");
    let descriptors = read_descriptors(reader, &declared);
    let slot_by = top.only(reader, "slot_by").and_then(|node| {
        let name = reader.text(node, "`slot_by`")?;
        warn_undeclared(reader, line_of(node), name, &descriptors);
        Some(name.into())
    });
    let entries = top.merged(reader, "tiers");
    let tiers = read_named(reader, &entries);
    let regions = top.only(reader, "regions").map(|node| read_regions(reader, node));
    refuse_ends(reader, &tiers);
    let mut overrides = overrides_of_file(overrides, &descriptors);
    reader.problems.append(&mut overrides.problems);
    reader.warnings.append(&mut overrides.warnings);
    let mut context = FileContext { descriptors, tiers, regions, overrides, ..FileContext::default() };
    if let Some(node) = top.all("tiers").next() {
        context.check_tiers(reader, line_of(node));
    }
    let (rules, own_answer) = read_rules(reader, &top, &mut context);
    warn_lost_overrides(reader, &context, &rules);
    let FileContext { descriptors, regions, overrides, .. } = context;
    let mut lists = Lists { timed: overrides.entries, ..Lists::default() };
    top.all("lists").for_each(|node| read_lists(reader, node, &descriptors, &mut lists));
    let status_of = |text: &str| DENY_STATUSES.into_iter().find(|status| status.code().to_string() == text);
    let deny_status = top.only(reader, "deny_status");
    let deny_status = deny_status.and_then(|node| reader.parse_by(node, "`deny_status`", "429 or 403", status_of));
    let deny_status = deny_status.unwrap_or_default();
    let values = [DegradedRemaining::Estimate, DegradedRemaining::Unknown];
    let value_of = |text: &str| values.into_iter().find(|value| value.as_str() == text);
    let degraded_remaining = top.only(reader, "degraded_remaining");
    let degraded_remaining = degraded_remaining
        .and_then(|node| reader.parse_by(node, "`degraded_remaining`", "estimate or -1", value_of))
        .unwrap_or_default();
    let mut set = RuleSet::new(generation.unwrap_or(loaded), []);
    set.numbering = if generation.is_some() { Numbering::Version } else { Numbering::LoadTime };
    (set.descriptors, set.rules, set.slot_by, set.lists) = (descriptors, rules, slot_by, lists);
    (set.deny_status, set.degraded_remaining) = (deny_status, degraded_remaining);
    set.own_answer = own_answer;
    set.regions = regions.unwrap_or_default();
    top.name_owners(reader);
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
        let text = format!("an override of the rule `{rule}` has no effect, because the file has no such rule");
        reader.warnings.push(Problem { place: lost.place(), text });
    }
}

/// Reads the settings that apply to every rule: those of its policy, and those of the rule itself.
fn read_defaults(reader: &mut YamlReader<'_>, node: &Node<'_>, known: &[DescriptorSpec]) -> (Layer, Rule) {
    let fields = Level::Defaults.read(reader, node);
    let mut rule = Rule::default();
    read_rule_values(reader, &fields, Level::Defaults, known, &mut rule);
    (Layer::read_level(reader, &fields), rule)
}

/// Reads the rules of all files, each file under its own `defaults`. Returns them, and the first own answer of any `defaults`,
/// which is that of decisions without a rule.
fn read_rules(
    reader: &mut YamlReader<'_>,
    top: &TopLevel<'_>,
    context: &mut FileContext,
) -> (Vec<Arc<Rule>>, Option<Arc<OwnAnswer>>) {
    let (mut rules, mut written, mut own_answer) = (Vec::new(), 0, None);
    for (fields, owner) in top.files() {
        let defaults = fields.get("defaults").map(|node| read_defaults(reader, node, &context.descriptors));
        (context.defaults, context.rule_defaults) = defaults.unwrap_or_default();
        context.rule_defaults.owner.clone_from(owner);
        own_answer = own_answer.or_else(|| context.rule_defaults.own_answer.clone());
        let items = fields.get("rules").map(|node| reader.items(node, "`rules`")).unwrap_or_default();
        written += items.len();
        for item in items {
            rules.extend(read_rule(reader, item, context).map(|rule| (Arc::new(rule), line_of(item))));
        }
    }
    match top.all("rules").next() {
        None => reader.refuse(1, "there is no `rules:`; write at least one rule under it"),
        Some(node) if written > RULES_LEN_MAX => {
            reader.refuse(line_of(node), format!("{written} rules; at most {RULES_LEN_MAX} are enforced"));
        }
        Some(node) if written == 0 => reader.warn(line_of(node), "there is no rule, so nothing is limited"),
        Some(_) => {}
    }
    let mut lines = HashMap::new();
    for (rule, line) in &rules {
        if let Some(first) = lines.insert(rule.name.clone(), *line) {
            let place = reader.place_seen_from(first, *line);
            reader.refuse(*line, format!("a rule named `{}` stands in {place}, too; rename one", rule.name));
        }
    }
    // The name of a rule that cannot be read is unknown.
    if rules.len() == written {
        check_replaces(reader, &rules, &context.descriptors);
    }
    (rules.into_iter().map(|(rule, _)| rule).collect(), own_answer)
}
