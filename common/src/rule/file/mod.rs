//! The rules file: YAML to [`RuleSet`], validated.
//!
//! Everything that a file asks for and that does not work yet is refused as such: a limit that is quietly not enforced is
//! the worst a limiter can do.

mod descriptors;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::descriptor::DescriptorSpec;
use super::{
    Consistency, DEADLINE_MS_DEFAULT, FILE_LEN_MAX, Generation, OnFailure, Pattern, Quota, RULES_LEN_MAX, Rule,
    RuleSet, Terms,
};
use crate::algorithm::{Algorithm, SLIDING_LOG_QUOTA_MAX};
use crate::call::NAME_LEN_MAX;
use crate::problem::{Problems, hint};
use crate::window::{Estimate, Window};
use crate::yaml::{Fields, Known, Node, Reader, line_of};

use descriptors::read_descriptors;
use settings::{Inherited, Kind, read_inherited};

const TOP: Known = Known {
    what: "the rules file",
    fields: &["version", "descriptors", "defaults", "rules"],
    not_yet: &["slot_by", "tiers", "lists"],
};
const DEFAULTS: Known = Known {
    what: "`defaults`",
    fields: &["algorithm", "sub_windows", "estimate", "consistency", "on_failure", "deadline"],
    not_yet: &["max_excess", "leases", "scope"],
};
const RULE: Known = Known {
    what: "a rule",
    fields: &[
        "name",
        "match",
        "per",
        "quota",
        "algorithm",
        "sub_windows",
        "estimate",
        "consistency",
        "on_failure",
        "deadline",
    ],
    not_yet: &[
        "group",
        "scope",
        "keys",
        "burst",
        "burst_multiplier",
        "cost",
        "costs",
        "max_excess",
        "leases",
        "shadow",
        "tiers",
    ],
};

impl RuleSet {
    /// Reads a rules file. `file` is its name for error messages; `loaded` is the generation of a file without `version:`.
    ///
    /// # Errors
    /// When anything in it is unknown, not yet supported or meaningless: all such places, each with reason and remedy.
    pub fn from_yaml(file: &str, text: &str, loaded: Generation) -> Result<Self, Problems> {
        let mut reader = Reader::new(file);
        if text.len() > FILE_LEN_MAX {
            reader.refuse(1, format!("the file has {} bytes; at most {FILE_LEN_MAX} are read", text.len()));
            return Err(Problems { problems: reader.problems });
        }
        let document = reader.document(text);
        let set = document.as_ref().map(|document| read_set(&mut reader, document, loaded));
        match set {
            Some(mut set) if reader.problems.is_empty() => {
                set.warnings = reader.warnings;
                set.origin = file.into();
                Ok(set)
            }
            _ => Err(Problems { problems: reader.problems }),
        }
    }
}

fn read_set(reader: &mut Reader<'_>, document: &Node<'_>, loaded: Generation) -> RuleSet {
    let top = reader.fields(document, &TOP);
    let generation = top.get("version").and_then(|node| reader.parse(node, "`version`", "a whole number"));
    let descriptors =
        top.get("descriptors").map_or_else(DescriptorSpec::defaults, |node| read_descriptors(reader, node));
    let defaults = top.get("defaults").map(|node| {
        let fields = reader.fields(node, &DEFAULTS);
        read_inherited(reader, &fields)
    });
    let mut rules: Vec<Arc<Rule>> = Vec::new();
    match top.get("rules") {
        None => reader.refuse(1, "there is no `rules:`; write at least one rule under it"),
        Some(node) => {
            let items = reader.items(node, "`rules`");
            if items.len() > RULES_LEN_MAX {
                reader.refuse(line_of(node), format!("{} rules; at most {RULES_LEN_MAX} are enforced", items.len()));
            }
            if items.is_empty() {
                reader.warn(line_of(node), "there is no rule, so nothing is limited");
            }
            let mut names = HashSet::new();
            for item in items {
                let Some(rule) = read_rule(reader, item, defaults.unwrap_or_default(), &descriptors) else {
                    continue;
                };
                if !names.insert(rule.name.clone()) {
                    reader.refuse(line_of(item), format!("a rule named `{}` stands above; rename one", rule.name));
                }
                rules.push(Arc::new(rule));
            }
        }
    }
    let generation = generation.unwrap_or(loaded);
    RuleSet { descriptors, rules, ..RuleSet::new(generation, []) }
}

fn read_rule(reader: &mut Reader<'_>, node: &Node<'_>, defaults: Inherited, known: &[DescriptorSpec]) -> Option<Rule> {
    let fields = reader.fields(node, &RULE);
    let line = fields.line();
    let name = read_name(reader, &fields);
    let per = read_per(reader, &fields, known);
    let matches = fields.get("match").map_or_else(Vec::new, |node| read_matches(reader, node, known));
    let own = read_inherited(reader, &fields);
    let quota = if let Some(node) = fields.get("quota") {
        read_quota(reader, node)
    } else {
        reader.refuse(line, "the rule has no `quota`; write one, such as `quota: 100/min`");
        None
    };
    let kind = own.algorithm.or(defaults.algorithm).unwrap_or(Kind::SlidingWindow);
    let consistency = own.consistency.or(defaults.consistency).unwrap_or(Consistency::Bounded);
    let algorithm = match kind {
        Kind::SlidingLog => {
            if own.estimate.is_some() {
                reader.refuse(line, "a `sliding_log` is exact and takes no `estimate`; remove it");
            }
            Algorithm::SlidingLog
        }
        Kind::SlidingWindow => {
            Algorithm::SlidingWindow(own.estimate.or(defaults.estimate).unwrap_or(match consistency {
                Consistency::Strict => Estimate::Conservative,
                Consistency::Bounded => Estimate::Interpolated,
            }))
        }
    };
    let (name, quota) = (name?, quota?);
    if consistency == Consistency::Bounded {
        let text = format!(
            "rule `{name}`: `consistency: bounded` decides as `strict` for now; nothing above the quota is handed out"
        );
        reader.warn(line, text);
    }
    if kind == Kind::SlidingLog && quota.units() > SLIDING_LOG_QUOTA_MAX {
        let text = format!(
            "a `sliding_log` keeps every call, {SLIDING_LOG_QUOTA_MAX} at most; use `sliding_window` for {quota}"
        );
        reader.refuse(line, text);
    }
    let window = match own.sub_windows.or(defaults.sub_windows) {
        Some(parts) => Window::new(quota.width_ms(), parts),
        None => Window::with_default_parts(quota.width_ms()),
    };
    let window = match window {
        Ok(window) => window,
        Err(error) => {
            let at = fields.get("sub_windows").map_or(line, line_of);
            reader.refuse(at, format!("{error}; leave `sub_windows` out to have it chosen"));
            return None;
        }
    };
    let terms = Terms {
        quota,
        window,
        algorithm,
        burst: 0,
        consistency,
        on_failure: own.on_failure.or(defaults.on_failure).unwrap_or(OnFailure::Share),
        deadline: Duration::from_millis(own.deadline_ms.or(defaults.deadline_ms).unwrap_or(DEADLINE_MS_DEFAULT)),
    };
    Some(Rule { matches, per: per?, terms: Some(terms), ..Rule::per(&name, &[], quota) })
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

fn read_matches(reader: &mut Reader<'_>, node: &Node<'_>, known: &[DescriptorSpec]) -> Vec<(Arc<str>, Pattern)> {
    let mut matches = Vec::new();
    for (name, node) in reader.mapping(node, "`match`").iter() {
        let Some(text) = reader.text(node, &format!("`match` of `{name}`")) else {
            continue;
        };
        warn_unknown(reader, line_of(node), name, known);
        matches.push((name.into(), Pattern::parse(text)));
    }
    matches
}

fn warn_unknown(reader: &mut Reader<'_>, line: usize, name: &str, known: &[DescriptorSpec]) {
    if known.iter().all(|spec| *spec.name != *name) {
        let hint = hint(name, known.iter().map(|spec| &*spec.name));
        let text =
            format!("`{name}` is not under `descriptors`, so only a call that names it itself is counted by it{hint}");
        reader.warn(line, text);
    }
}

fn read_quota(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Quota> {
    let text = reader.text(node, "`quota`")?;
    if text == "tier" {
        reader.refuse(line_of(node), "`quota: tier` is not yet supported; write a quota, such as 100/min");
        return None;
    }
    text.parse().map_err(|error| reader.refuse(line_of(node), format!("{error}"))).ok()
}
