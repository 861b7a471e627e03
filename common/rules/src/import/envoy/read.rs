//! Reader of one file: fields, units and numbers to a tree.

use saphyr::{ScalarStyle, YamlData};

use super::pattern::NodeValue;
use super::tree::{DomainTree, NodeLimit, TreeNode};
use crate::yaml::{Fields, Node, YamlReader, line_of, scalar};
use tollgate_core::call::DESCRIPTORS_LEN_MAX;

/// Maximum depth of a tree: a call carries that many descriptors beside `domain`.
const DEPTH_MAX: usize = DESCRIPTORS_LEN_MAX - 1;

/// Fields of a descriptor that change limits.
const FIELDS: [&str; 7] = ["key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "share_threshold"];
/// Fields of a descriptor that change metrics.
const METRICS: [&str; 2] = ["detailed_metric", "value_to_metric"];

/// Units of envoyproxy/ratelimit, and their durations there.
const UNITS: [(&str, &str); 7] = [
    ("second", "s"),
    ("minute", "min"),
    ("hour", "h"),
    ("day", "d"),
    ("week", "7d"),
    ("month", "30d"),
    ("year", "365d"),
];

pub(super) fn read_file(reader: &mut YamlReader<'_>, text: &str) -> Option<DomainTree> {
    let document = reader.document(text)?;
    let file = read_fields(reader, &document, "the file", &["domain", "descriptors"]);
    let Some(domain) = file.get("domain") else {
        reader.refuse(file.line(), "there is no `domain`; write the one that Envoy sends");
        return None;
    };
    let name = reader.text(domain, "`domain`")?.to_owned();
    let entries = file.get("descriptors").map_or_else(Vec::new, |node| read_level(reader, node, 1));
    let place = format!("{}:{}", reader.file(), line_of(domain));
    Some(DomainTree { name, file: reader.file().to_owned(), place, entries })
}

/// Reads the fields of a mapping that have values: text, or a word other than null.
fn read_fields<'y>(reader: &mut YamlReader<'_>, node: &'y Node<'y>, what: &str, known: &[&str]) -> Fields<'y> {
    let mut fields = reader.fields(node, what, known);
    fields.retain(|node| {
        let is_null = matches!(&node.data, YamlData::Representation(text, ScalarStyle::Plain, _)
            if ["~", "null", "Null", "NULL"].contains(&text.as_ref()));
        !is_null && scalar(node) != Some("")
    });
    fields
}

fn read_level(reader: &mut YamlReader<'_>, node: &Node<'_>, depth: usize) -> Vec<TreeNode> {
    if depth > DEPTH_MAX {
        let text = format!("descriptors are nested {depth} deep; a call carries {DEPTH_MAX} at most");
        reader.refuse(line_of(node), text);
        return Vec::new();
    }
    let YamlData::Sequence(items) = &node.data else {
        reader.refuse(line_of(node), "`descriptors` must be a list (`- key: ...` items)");
        return Vec::new();
    };
    items.iter().filter_map(|item| read_entry(reader, item, depth)).collect()
}

fn read_entry(reader: &mut YamlReader<'_>, node: &Node<'_>, depth: usize) -> Option<TreeNode> {
    let fields = read_fields(reader, node, "a descriptor", &[&FIELDS[..], &METRICS, &["metadata"]].concat());
    let line = fields.line();
    let key = reader.text_of(&fields, "key");
    if fields.get("key").is_none() && matches!(node.data, YamlData::Mapping(_)) {
        reader.refuse(line, "the descriptor has no `key`; write the name of the entry that Envoy sends");
    }
    let value = NodeValue::of(reader.text_of(&fields, "value"));
    if key.is_some_and(|key| key.contains('*')) {
        reader.refuse(line, "a `*` in a key is not supported; write the key, and the `*` in its `value`");
    }
    let share = flag(reader, &fields, "share_threshold");
    if share && !matches!(value, NodeValue::Wildcard(_)) {
        reader.refuse(line, "`share_threshold` needs a `value` with a `*`; write one or remove it");
    }
    let shadow = flag(reader, &fields, "shadow_mode");
    let quota_mode = flag(reader, &fields, "quota_mode");
    let limit = fields.get("rate_limit");
    if limit.is_none() && (shadow || quota_mode) {
        reader.warn(line, "`shadow_mode` and `quota_mode` do nothing without a `rate_limit` beside them");
    }
    for metric in METRICS {
        if flag(reader, &fields, metric) {
            reader.warn(line, format!("`{metric}` is dropped: it changes metrics and no limit"));
        }
    }
    if let Some(node) = fields.get("metadata") {
        reader.warn(line_of(node), "`metadata` is dropped: it changes what Envoy is told and no limit");
    }
    let limit = limit.and_then(|node| read_limit(reader, node, (shadow, quota_mode)));
    let entries = fields.get("descriptors").map_or_else(Vec::new, |node| read_level(reader, node, depth + 1));
    let place = format!("{}:{line}", reader.file());
    Some(TreeNode { key: key?.to_owned(), value, place, limit, share, entries })
}

fn read_limit(reader: &mut YamlReader<'_>, node: &Node<'_>, (shadow, quota_mode): (bool, bool)) -> Option<NodeLimit> {
    let known = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
    let fields = read_fields(reader, node, "`rate_limit`", &known);
    let name = reader.text_of(&fields, "name");
    let replaces = fields.get("replaces").map_or_else(Vec::new, |node| read_replaces(reader, node, name));
    let (requests, unit) = (fields.get("requests_per_unit"), fields.get("unit"));
    let quota = if flag(reader, &fields, "unlimited") {
        if let Some(unit) = unit {
            reader.refuse(line_of(unit), "an `unlimited` limit has no `unit`; remove one of them");
        }
        if let Some(requests) = requests {
            reader.warn(line_of(requests), "`requests_per_unit` does nothing beside `unlimited`");
        }
        None
    } else {
        if requests.is_none() {
            let text = "there is no `requests_per_unit`; write it (0 denies every call), or `unlimited: true`";
            reader.refuse(fields.line(), text);
        }
        if unit.is_none() {
            reader.refuse(fields.line(), "there is no `unit`; write second, minute, hour, day, week, month or year");
        }
        let requests = requests.and_then(|node| read_requests(reader, node));
        let unit = unit.and_then(|node| read_unit(reader, node));
        Some((requests?, unit?))
    };
    Some(NodeLimit { name: name.map(str::to_owned), replaces, quota, shadow, quota_mode })
}

fn read_requests(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<u32> {
    reader.parse_by(node, "`requests_per_unit`", &format!("a number from 0 to {}", u32::MAX), |text| {
        // A number with a leading zero is octal there.
        let plain = text == "0" || text.starts_with(|c: char| ('1'..='9').contains(&c));
        text.replace('_', "").parse().ok().filter(|_| plain)
    })
}

fn read_unit(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<&'static str> {
    let text = reader.text(node, "`unit`")?;
    let known = UNITS.iter().find(|(unit, _)| text.eq_ignore_ascii_case(unit));
    if known.is_none() {
        let hint = crate::hint(&text.to_ascii_lowercase(), UNITS.iter().map(|(unit, _)| *unit));
        reader.refuse(line_of(node), format!("unknown unit `{text}`{hint}"));
    }
    known.map(|(_, width)| *width)
}

fn read_replaces(reader: &mut YamlReader<'_>, node: &Node<'_>, own: Option<&str>) -> Vec<String> {
    let mut names = Vec::new();
    for item in reader.items(node, "`replaces`") {
        let before = reader.problems.len();
        let fields = read_fields(reader, item, "an item of `replaces`", &["name"]);
        match reader.text_of(&fields, "name") {
            Some(name) if Some(name) == own => {
                reader.refuse(line_of(item), format!("a limit cannot replace itself; remove `{name}` here"));
            }
            Some(name) => names.push(name.to_owned()),
            None if reader.problems.len() == before => {
                reader.refuse(line_of(item), "an item of `replaces` has no `name`; write the `name` of another limit");
            }
            None => {}
        }
    }
    names
}

/// Reads a switch, in any word of YAML 1.1, which envoyproxy/ratelimit reads.
fn flag(reader: &mut YamlReader<'_>, fields: &Fields<'_>, name: &str) -> bool {
    let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    };
    let flag = fields.get(name).and_then(|node| reader.parse_by(node, &format!("`{name}`"), "true or false", parse));
    flag.unwrap_or_default()
}
