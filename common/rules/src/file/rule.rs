//! One rule of the file: whom it means, and its policy for everyone, for tiers and for single keys.

use std::sync::Arc;

use super::costs::{check_costs, read_cost, read_costs};
use super::denying::check_denying;
use super::patterns::read_matches;
use super::policies::{Layers, read_terms};
use super::quota::{Asked, read_quota};
use super::settings::{Settings, read_settings, refuse_word};
use super::tiers::Tiers;
use super::{read_scope, warn_unknown};
use crate::yaml::{Fields, Known, Node, Reader, line_of};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::rules::DescriptorSpec;
use tollgate_core::rules::{Charging, Consistency, Rule};

const RULE: Known = Known {
    what: "a rule",
    fields: &[
        "name",
        "group",
        "match",
        "per",
        "quota",
        "tiers",
        "keys",
        "algorithm",
        "burst",
        "burst_multiplier",
        "sub_windows",
        "estimate",
        "consistency",
        "on_failure",
        "deadline",
        "cost",
        "costs",
        "charge",
        "deny",
        "shadow",
        "replaces",
        "scope",
    ],
    not_yet: &["max_excess", "leases"],
};
/// Names that decisions by something else than a rule are shown under.
const RESERVED: [&str; 2] = ["lists.deny", "lists.allow"];

/// What stands around a rule.
pub(super) struct Context<'a> {
    pub(super) descriptors: &'a [DescriptorSpec],
    pub(super) defaults: Settings,
    pub(super) tiers: &'a Tiers,
}

pub(super) fn read_rule(reader: &mut Reader<'_>, node: &Node<'_>, context: &Context<'_>) -> Option<Rule> {
    let fields = reader.fields(node, &RULE);
    let known = context.descriptors;
    let name = read_name(reader, &fields);
    let denies = fields.get("deny").and_then(|node| reader.parse(node, "`deny`", "true or false")).unwrap_or(false);
    let per = if denies { Some(Vec::new()) } else { read_per(reader, &fields, known) };
    let matches = fields.get("match").map_or_else(Vec::new, |node| read_matches(reader, node, "`match`", known));
    read_scope(reader, fields.get("scope"));
    let word = |reader: &mut Reader<'_>, field: &str| {
        let node = fields.get(field)?;
        Some((reader.text(node, &format!("`{field}`"))?, node))
    };
    let group = word(reader, "group").map(|(name, _)| name.into());
    let charge = word(reader, "charge").and_then(|(word, node)| match word {
        "all_or_none" => Some(Charging::AllOrNone),
        "each" => Some(Charging::Each),
        other => refuse_word(reader, node, "charge", other, &["all_or_none", "each"]),
    });
    let shadow = fields.get("shadow").and_then(|node| reader.parse(node, "`shadow`", "true or false"));
    let replaces = fields.get("replaces").map_or_else(Vec::new, |node| {
        let items = reader.items(node, "`replaces`");
        items.into_iter().filter_map(|item| reader.text(item, "an item of `replaces`")).map(Into::into).collect()
    });
    if denies {
        check_denying(reader, &fields, &matches);
        return Some(Rule { group, shadow: shadow.unwrap_or(false), replaces, ..Rule::denying(&name?, matches) });
    }
    let cost = fields.get("cost").and_then(|node| read_cost(reader, node, "`cost`"));
    let costs = fields.get("costs").and_then(|node| read_costs(reader, node, known));
    let before = reader.problems.len();
    let (asked, own) = (read_quota(reader, &fields, known), read_settings(reader, &fields));
    let readable = reader.problems.len() == before;
    let layers = Layers { quota: asked, own, context };
    let (policy, by_tier, by_key) = read_terms(reader, &fields, &layers, per.as_deref(), readable)?;
    let quota_from = match layers.quota {
        Asked::From(name, _) => Some(name),
        _ => None,
    };
    let rule = Rule {
        name: name?,
        group,
        matches,
        per: per?,
        policy,
        by_tier,
        by_key,
        quota_from,
        cost,
        costs,
        charge: charge.unwrap_or_default(),
        deny: false,
        shadow: shadow.unwrap_or(false),
        replaces,
    };
    check_costs(reader, &fields, &rule, known);
    check_each(reader, &fields, &rule);
    warn_bounded(reader, &fields, &rule);
    Some(rule)
}

/// A call that a counter denies and counts all the same puts off the instant at which it would pass; only the edge of a
/// fixed window stays where it is.
fn check_each(reader: &mut Reader<'_>, fields: &Fields<'_>, rule: &Rule) {
    let shifts = rule.all_policies().any(|policy| policy.algorithm != Algorithm::FixedWindow);
    if let Some(node) = fields.get("charge").filter(|_| rule.charge == Charging::Each && shifts) {
        let text = "`charge: each` counts denied calls, too, so under this algorithm who comes back in time is denied for good; use `algorithm: fixed_window`, or leave it out";
        reader.refuse(line_of(node), text);
    }
}

fn warn_bounded(reader: &mut Reader<'_>, fields: &Fields<'_>, rule: &Rule) {
    if rule.all_policies().any(|policy| policy.consistency == Consistency::Bounded) {
        let text = format!(
            "rule `{}`: `consistency: bounded` decides as `strict` for now; nothing above the quota is handed out",
            rule.name
        );
        reader.warn(fields.line(), text);
    }
}

fn read_name(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Arc<str>> {
    let Some(node) = fields.get("name") else {
        reader.refuse(fields.line(), "the rule has no `name`; metrics, headers and logs need one");
        return None;
    };
    let name = reader.text(node, "`name`")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/ ".contains(c);
    if name.len() > NAME_LEN_MAX || !name.chars().all(plain) {
        let text =
            format!("rule name `{name}`: write at most {NAME_LEN_MAX} letters, digits, spaces or any of - _ . : /");
        reader.refuse(line_of(node), text);
    }
    if RESERVED.contains(&name) {
        reader.refuse(line_of(node), format!("`{name}` is what decisions by `lists` are shown under; rename the rule"));
    }
    Some(name.into())
}

fn read_per(reader: &mut Reader<'_>, fields: &Fields<'_>, known: &[DescriptorSpec]) -> Option<Vec<Arc<str>>> {
    let Some(node) = fields.get("per") else {
        let text =
            "the rule has no `per`; write the descriptors to count by, or `per: []` for one counter for all calls";
        reader.refuse(fields.line(), text);
        return None;
    };
    let mut per: Vec<Arc<str>> = Vec::new();
    for item in reader.items(node, "`per`") {
        let Some(name) = reader.text(item, "an item of `per`") else {
            continue;
        };
        if per.iter().any(|known| **known == *name) {
            reader.refuse(line_of(item), format!("`per` names `{name}` twice; once is enough"));
        }
        warn_unknown(reader, line_of(item), name, known);
        per.push(name.into());
    }
    Some(per)
}
