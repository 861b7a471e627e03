//! One rule of the file: its structure (`name`, `match`, `per`, `deny`) and the checks between its settings.
//!
//! The settings themselves are read by the table in `settings`; `policies` combines them for tiers and keys.

use std::sync::Arc;

use serde_json::{Value, json};

use super::patterns::read_matches;
use super::policies::read_policies;
use super::quota::{self, read_quota};
use super::regions::check_global;
use super::tiers::FileContext;
use crate::rule_name::check_name;
use crate::schema::with_required;
use crate::settings::{
    Layer, Level, check_costs, read_rule_values, refuse_beside_deny, schema_beside_deny, warn_undeclared,
};
use crate::yaml::{Fields, Node, YamlReader, line_of};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{
    Charging, Consistency, DescriptorSource, DescriptorSpec, LimitPolicy, Matches, Rule, Scope,
};

/// Descriptor that holds the domain of a request of `POST /json`.
const ENVOY_DOMAIN: &str = "domain";

/// Names that decisions by lists are shown under.
const RESERVED: [&str; 2] = ["lists.deny", "lists.allow"];

/// Returns the schema of a rule.
pub(super) fn schema() -> Value {
    let mut rule = with_required(Level::Rule.schema(), &["name"]);
    rule["properties"]["quota"]["anyOf"] = quota::schema()["anyOf"].take();
    rule["if"] = json!({ "properties": { "deny": { "const": true } }, "required": ["deny"] });
    (rule["then"], rule["else"]) = (schema_beside_deny(), json!({ "required": ["per"] }));
    rule
}

/// Reads a rule; none without a name or with problems of its policies.
pub(super) fn read_rule(reader: &mut YamlReader<'_>, node: &Node<'_>, context: &FileContext) -> Option<Rule> {
    let fields = Level::Rule.read(reader, node);
    let known = &context.descriptors;
    let name = read_name(reader, &fields);
    let deny = reader.flag(&fields, "deny");
    let matches = fields.get("match").map_or_else(Vec::new, |node| read_matches(reader, node, "`match`", known));
    let mut rule = if deny { Rule::default() } else { context.rule_defaults.clone() };
    (rule.matches, rule.deny, rule.shadow) = (matches, deny, context.rule_defaults.shadow);
    rule.own_answer.clone_from(&context.rule_defaults.own_answer);
    rule.owner.clone_from(&context.rule_defaults.owner);
    let level = if deny { Level::DenyingRule } else { Level::Rule };
    read_rule_values(reader, &fields, level, known, &mut rule);
    if deny {
        check_denying(reader, &fields, &rule.matches);
    } else {
        rule.per = read_per(reader, &fields, known);
        let before = reader.problems.len();
        let quota = read_quota(reader, &fields, known, &mut rule);
        let own = Layer::read(reader, &fields, quota);
        rule.name = name.clone().unwrap_or_default();
        read_policies(reader, &fields, context, own, before, &mut rule);
        if reader.problems.len() > before {
            return None;
        }
        check_global(reader, &fields, context.regions.as_deref(), &rule);
    }
    rule.name = name?;
    check_costs(reader, &fields, &rule, known);
    check_each(reader, &fields, &rule);
    check_quota_mode(reader, &fields, &rule);
    check_refunds(reader, &fields, &rule);
    warn_exact_match(reader, &fields, &rule, known);
    warn_unreleased(reader, &fields, &rule);
    Some(rule)
}

/// Refuses a rule with `deny: true` that would deny every call, or that has settings without effect.
fn check_denying(reader: &mut YamlReader<'_>, fields: &Fields<'_>, matches: &Matches) {
    if matches.iter().all(|(_, pattern)| pattern.is_everything()) {
        reader.refuse(fields.line(), "the rule would deny every call; name the calls in `match`");
    }
    refuse_beside_deny(reader, fields);
}

/// Refuses `charge: each` where denied calls would postpone the next admission. Only the edge of a fixed window stays fixed.
fn check_each(reader: &mut YamlReader<'_>, fields: &Fields<'_>, rule: &Rule) {
    let shifts = rule.all_policies().any(|policy| policy.algorithm != Algorithm::FixedWindow);
    let is_eventual = rule.all_policies().any(|policy| policy.consistency == Consistency::Eventual);
    let each = fields.get("charge").filter(|_| rule.charge == Charging::Each && rule.scope == Scope::Regional);
    if let Some(node) = each.filter(|_| is_eventual) {
        let text = "`charge: each` counts calls that are denied, and under `consistency: eventual` only admissions are counted; remove it, or write `consistency: bounded`";
        reader.refuse(line_of(node), text);
    }
    if let Some(node) = each.filter(|_| shifts) {
        let text = "`charge: each` counts denied calls, too, so under this algorithm each retry would postpone the next admission; use `algorithm: fixed_window`, or leave it out";
        reader.refuse(line_of(node), text);
    }
}

/// Refuses `quota_mode` in a rule that the store does not count whatever other rules say: a request that passes over its limit counts.
fn check_quota_mode(reader: &mut YamlReader<'_>, fields: &Fields<'_>, rule: &Rule) {
    if rule.quota_mode && rule.charge != Charging::Each && rule.all_policies().next().is_some() {
        let line = fields.get("quota_mode").map_or(fields.line(), line_of);
        let text = "`quota_mode` lets a call pass over the limit, so the rule must count all calls; add `charge: each` and `algorithm: fixed_window`, or remove it";
        reader.refuse(line, text);
    }
}

/// Refuses `refunds` where the store gives back only the units of a known call.
fn check_refunds(reader: &mut YamlReader<'_>, fields: &Fields<'_>, rule: &Rule) {
    let needs_call = |policy: &LimitPolicy| matches!(policy.algorithm, Algorithm::SlidingLog | Algorithm::Concurrency);
    let line = fields.get("refunds").map_or(fields.line(), line_of);
    if rule.refunds && rule.all_policies().any(needs_call) {
        let text = "`refunds` gives back units of any call, and this algorithm knows each call; refund with the `id` of the call (`POST /settle`), or use another algorithm";
        reader.refuse(line, text);
    } else if rule.refunds && !rule.goes_by_call_cost() {
        let text = "`refunds` does nothing in a rule with a `cost` of its own, because calls do not bring the units; remove one of the two";
        reader.warn(line, text);
    }
}

/// Warns of `exact_match` in a rule that therefore applies to no HTTP request, because each one has more descriptors. A rule with an
/// undeclared descriptor is for calls that name their descriptors, such as an imported one.
fn warn_exact_match(reader: &mut YamlReader<'_>, fields: &Fields<'_>, rule: &Rule, known: &[DescriptorSpec]) {
    let Some(node) = fields.get("exact_match").filter(|_| rule.exact_match) else { return };
    let names: Vec<&str> =
        rule.matches.iter().map(|(name, _)| &**name).chain(rule.per.iter().map(|name| &**name)).collect();
    let is_declared = |name: &&str| known.iter().any(|spec| *spec.name == **name);
    let is_of_every_request = |source: &DescriptorSource| {
        matches!(source, DescriptorSource::ClientIp { .. } | DescriptorSource::Method | DescriptorSource::Path { .. })
    };
    let of_requests = known.iter().filter(|spec| is_of_every_request(&spec.source)).map(|spec| &*spec.name);
    let missing: Vec<&str> = of_requests.filter(|name| !names.contains(name)).collect();
    if missing.is_empty() || !names.iter().all(is_declared) {
        return;
    }
    let listed = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
    let remedy = missing.iter().map(|name| format!("{name}: \"*\"")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "`exact_match` keeps this rule from every HTTP request, because each one also has {listed}, which the rule does not name; add `{remedy}` to its `match`, or remove `exact_match`"
    );
    reader.warn(line_of(node), text);
}

/// Warns of slots that nobody can release: a rule whose conditions are `domain` and the entries of a descriptor applies to
/// requests of `POST /json`.
fn warn_unreleased(reader: &mut YamlReader<'_>, fields: &Fields<'_>, rule: &Rule) {
    let mut slots = rule.all_policies().filter(|policy| policy.algorithm == Algorithm::Concurrency);
    if rule.matches.len() > 1 && &*rule.matches[0].0 == ENVOY_DOMAIN && slots.next().is_some() {
        let text = format!(
            "rule `{}`: `POST /json` has no release, so its requests keep their slots until the window of the quota ends; limit calls that end earlier through `POST /check` and `POST /release`",
            rule.name
        );
        reader.warn(fields.line(), text);
    }
}

fn read_name(reader: &mut YamlReader<'_>, fields: &Fields<'_>) -> Option<Arc<str>> {
    let Some(node) = fields.get("name") else {
        reader.refuse(fields.line(), "the rule has no `name`; metrics, headers and logs need one");
        return None;
    };
    let name = reader.text(node, "`name`")?;
    check_name(reader, line_of(node), name, &format!("rule name `{name}`"));
    if RESERVED.contains(&name) {
        reader.refuse(line_of(node), format!("`{name}` is the name of decisions by `lists`; rename the rule"));
    }
    Some(name.into())
}

fn read_per(reader: &mut YamlReader<'_>, fields: &Fields<'_>, known: &[DescriptorSpec]) -> Vec<Arc<str>> {
    let mut per: Vec<Arc<str>> = Vec::new();
    let Some(node) = fields.get("per") else {
        let text =
            "the rule has no `per`; write the descriptors to count by, or `per: []` for one counter for all calls";
        reader.refuse(fields.line(), text);
        return per;
    };
    for item in reader.items(node, "`per`") {
        let Some(name) = reader.text(item, "an item of `per`") else { continue };
        if per.iter().any(|known| **known == *name) {
            reader.refuse(line_of(item), format!("`per` names `{name}` twice; once is enough"));
        }
        warn_undeclared(reader, line_of(item), name, known);
        per.push(name.into());
    }
    per
}
