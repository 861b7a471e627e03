//! Import of configurations with `params`: `capacity` and `refill_rate`, or `limit` and `window`.
//!
//! ```yaml
//! rules:
//!   - id: rule_001
//!     version: 42
//!     tier: pro
//!     match: { api_key_pattern: "sk_prod_*", endpoint_regex: "^/v1/orders.*" }
//!     algorithm: token_bucket           # sliding_window_counter, sliding_window_log, fixed_window, leaky_bucket
//!     params: { capacity: 100, refill_rate: 1.67, window: 60 }
//!     override: { sk_prod_vip_001: { capacity: 1000, refill_rate: 16.67 } }
//! whitelist: ["sk_internal_*"]
//! blacklist: ["sk_revoked_*"]
//! ```
//!
//! The `tier` of a rule is only a remark (the pattern of keys selects the callers), so it becomes a comment. The file does not
//! tell if the gateway verifies keys, so the key is not declared verified; a `whitelist` causes a warning about this. Numbers
//! are converted in `numbers`.

mod numbers;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use super::write::{comment, quoted};
use super::{Findings, Foreign, Imported};
use crate::yaml::{Fields, KnownFields, Node, YamlReader, line_of};
use crate::{hint, is_name_char};
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::rules::problem::Problems;

use numbers::{ParamNumbers, read_numbers};

const FILE: KnownFields = KnownFields { what: "the file", fields: &["rules", "whitelist", "blacklist"], planned: &[] };
const RULE: KnownFields = KnownFields {
    what: "a rule",
    fields: &["id", "version", "tier", "match", "algorithm", "params", "override"],
    planned: &[],
};
const MATCH: KnownFields =
    KnownFields { what: "`match`", fields: &["api_key_pattern", "endpoint_regex"], planned: &[] };

/// Names of the algorithms there, and their names here.
const ALGORITHMS: [(&str, &str); 5] = [
    ("token_bucket", "token_bucket"),
    ("leaky_bucket", "leaky_bucket"),
    ("sliding_window_counter", "sliding_window"),
    ("sliding_window_log", "sliding_log"),
    ("fixed_window", "fixed_window"),
];

/// Content of a file.
struct ParamsFile<'y> {
    rules: Vec<ParamsRule<'y>>,
    allow: Vec<&'y str>,
    deny: Vec<&'y str>,
}

/// One rule of a file.
struct ParamsRule<'y> {
    id: &'y str,
    line: usize,
    version: Option<u64>,
    tier: Option<&'y str>,
    api_key: Option<&'y str>,
    endpoint: Option<&'y str>,
    algorithm: &'static str,
    numbers: ParamNumbers,
    keys: Vec<(&'y str, ParamNumbers)>,
}

/// Converts a file to a rules file.
///
/// # Errors
/// All parts that are unknown, missing or without effect.
pub fn from_params(file: Foreign<'_>) -> Result<Imported, Problems> {
    let mut findings = Findings::default();
    let text = findings.read(file, |reader, text| {
        let document = reader.document(text)?;
        let read = read(reader, &document);
        Some(write(file.name, &read))
    });
    findings.finish(|| text.unwrap_or_default())
}

fn read<'y>(reader: &mut YamlReader<'_>, document: &'y Node<'y>) -> ParamsFile<'y> {
    let file = reader.fields(document, &FILE);
    let mut rules: Vec<ParamsRule<'y>> = Vec::new();
    for node in file.get("rules").map_or_else(Vec::new, |node| reader.items(node, "`rules`")) {
        let Some(rule) = read_rule(reader, node) else { continue };
        if rules.iter().any(|other| other.id == rule.id) {
            reader.refuse(rule.line, format!("a rule with `id: {}` stands above; change one", rule.id));
        }
        rules.push(rule);
    }
    let mut patterns = |name: &str| -> Vec<&'y str> {
        let Some(node) = file.get(name) else { return Vec::new() };
        let items = reader.items(node, &format!("`{name}`"));
        items.into_iter().filter_map(|item| reader.text(item, &format!("an item of `{name}`"))).collect()
    };
    let (allow, deny) = (patterns("whitelist"), patterns("blacklist"));
    if let Some(node) = file.get("whitelist").filter(|_| !allow.is_empty()) {
        let text = "the `whitelist` lets pass only keys that are verified; write `verified: true` beside `header: \
                    x-api-key` if your gateway checks keys before it asks";
        reader.warn(line_of(node), text);
    }
    if rules.is_empty() && reader.problems.is_empty() {
        reader.warn(file.line(), "there is no rule, so nothing is limited");
    }
    ParamsFile { rules, allow, deny }
}

fn read_rule<'y>(reader: &mut YamlReader<'_>, node: &'y Node<'y>) -> Option<ParamsRule<'y>> {
    let fields = reader.fields(node, &RULE);
    let line = fields.line();
    let id = fields.get("id").and_then(|node| reader.text(node, "`id`"));
    match id {
        None => reader.refuse(line, "the rule has no `id`; write one, it becomes the rule's name"),
        Some(id) if id.len() > NAME_LEN_MAX || !id.chars().all(is_name_char) => {
            let text = format!("`id: {id}`: write at most {NAME_LEN_MAX} letters, digits, spaces or any of - _ . : /");
            reader.refuse(line, text);
        }
        Some(_) => {}
    }
    let version = fields.get("version").and_then(|node| reader.parse(node, "`version`", "a whole number"));
    let tier = fields.get("tier").and_then(|node| reader.text(node, "`tier`"));
    let conditions = fields.get("match").map(|node| reader.fields(node, &MATCH));
    let mut condition = |name: &str| {
        let node = conditions.as_ref()?.get(name)?;
        reader.text(node, &format!("`{name}`"))
    };
    let (api_key, endpoint) = (condition("api_key_pattern"), condition("endpoint_regex"));
    let algorithm = read_algorithm(reader, &fields);
    let Some(params) = fields.get("params") else {
        reader.refuse(line, "the rule has no `params`; write its limit under it");
        return None;
    };
    let (theirs, algorithm) = algorithm?;
    let numbers = read_numbers(reader, params, theirs, None)?;
    let mut keys = Vec::new();
    if let Some(node) = fields.get("override") {
        for (key, node) in reader.mapping(node, "`override`").iter() {
            if key.contains('*') {
                reader.refuse(
                    line_of(node),
                    format!("`{key}` is a pattern, and `override` is for single keys; write a rule"),
                );
            }
            if let Some(own) = read_numbers(reader, node, theirs, Some(&numbers)) {
                keys.push((key, own));
            }
        }
    }
    Some(ParamsRule { id: id?, line, version, tier, api_key, endpoint, algorithm, numbers, keys })
}

fn read_algorithm(reader: &mut YamlReader<'_>, fields: &Fields<'_>) -> Option<(&'static str, &'static str)> {
    let names = ALGORITHMS.map(|(theirs, _)| theirs);
    let Some(node) = fields.get("algorithm") else {
        reader.refuse(fields.line(), format!("the rule has no `algorithm`{}", hint("", names)));
        return None;
    };
    let text = reader.text(node, "`algorithm`")?;
    let known = ALGORITHMS.into_iter().find(|(theirs, _)| *theirs == text);
    if known.is_none() {
        reader.refuse(line_of(node), format!("unknown algorithm `{text}`{}", hint(text, names)));
    }
    known
}

fn write(name: &str, file: &ParamsFile<'_>) -> String {
    let mut out = format!("# Imported from {}.\n", comment(name));
    let mut line = |indent: usize, text: String| {
        let _ = writeln!(out, "{:indent$}{text}", "");
    };
    if let Some(version) = file.rules.iter().filter_map(|rule| rule.version).max() {
        line(0, format!("version: {version}"));
    }
    line(0, "descriptors:".to_owned());
    line(2, "# Add `verified: true` if the gateway checks the key before it asks; `allow` below needs it.".to_owned());
    line(2, "api_key: { header: x-api-key }".to_owned());
    line(2, "endpoint: { path: raw }".to_owned());
    line(0, if file.rules.is_empty() { "rules: []" } else { "rules:" }.to_owned());
    for rule in &file.rules {
        if let Some(tier) = rule.tier {
            line(2, format!("# For the tier {}.", comment(tier)));
        }
        line(2, format!("- name: {}", quoted(rule.id)));
        let every_path = |regex: &&str| matches!(*regex, ".*" | "^.*" | "^.*$" | ".*$");
        let endpoint = rule.endpoint.filter(|regex| !every_path(regex));
        if rule.api_key.is_some() || endpoint.is_some() {
            line(4, "match:".to_owned());
        }
        if let Some(pattern) = rule.api_key {
            line(6, format!("api_key: {}", quoted(pattern)));
        }
        if let Some(regex) = endpoint {
            line(6, format!("endpoint: {{ regex: {} }}", quoted(regex)));
        }
        line(4, "per: [api_key]".to_owned());
        line(4, format!("algorithm: {}", rule.algorithm));
        for setting in rule.numbers.settings() {
            line(4, setting);
        }
        if !rule.keys.is_empty() {
            line(4, "keys:".to_owned());
        }
        for (key, own) in &rule.keys {
            line(6, format!("{}: {{ {} }}", quoted(key), own.settings().join(", ")));
        }
    }
    if !file.allow.is_empty() || !file.deny.is_empty() {
        line(0, "lists:".to_owned());
    }
    for (list, patterns) in [("allow", &file.allow), ("deny", &file.deny)] {
        if !patterns.is_empty() {
            line(2, format!("{list}:"));
        }
        for pattern in patterns {
            line(4, format!("- {{ api_key: {} }}", quoted(pattern)));
        }
    }
    out
}
