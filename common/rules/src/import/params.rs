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
//! The `tier` of a rule is only a remark (the pattern of keys selects the callers), so it becomes a comment. The file
//! does not tell if the gateway verifies keys, so the key is not declared verified; a `whitelist` causes a warning
//! about this. Numbers are converted in `numbers`.

mod numbers;
#[cfg(test)]
mod tests;

use super::findings::{Findings, Foreign, Imported};
use super::write::{comment, quoted};
use crate::hint;
use crate::rule_name::check_name;
use crate::yaml::{Node, YamlReader, line_of};
use tollgate_core::rules::problem::Problems;

use numbers::{ParamNumbers, read_numbers};

/// Names of the algorithms there, and their names here.
const ALGORITHMS: [(&str, &str); 5] = [
    ("token_bucket", "token_bucket"),
    ("leaky_bucket", "leaky_bucket"),
    ("sliding_window_counter", "sliding_window"),
    ("sliding_window_log", "sliding_log"),
    ("fixed_window", "fixed_window"),
];

/// Descriptors that the rules name, as lines of the rules file.
const DESCRIPTORS: [&str; 4] = [
    "descriptors:",
    "  # Add `verified: true` if the gateway checks the key before it asks; `allow` below needs it.",
    "  api_key: { header: x-api-key }",
    "  endpoint: { path: raw }",
];

struct ParamsRule<'y> {
    id: &'y str,
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
        Some(convert(reader, file.name, &document))
    });
    findings.finish(|| text.unwrap_or_default())
}

fn convert(reader: &mut YamlReader<'_>, name: &str, document: &Node<'_>) -> String {
    let file = reader.fields(document, "the file", &["rules", "whitelist", "blacklist"]);
    let mut rules: Vec<ParamsRule<'_>> = Vec::new();
    for node in file.get("rules").map_or_else(Vec::new, |node| reader.items(node, "`rules`")) {
        let Some(rule) = read_rule(reader, node) else { continue };
        if rules.iter().any(|other| other.id == rule.id) {
            reader.refuse(line_of(node), format!("a rule with `id: {}` stands above; change one", rule.id));
        }
        rules.push(rule);
    }
    let mut patterns = |name: &str| -> Vec<&str> {
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
    write(name, &rules, [("  allow:", allow), ("  deny:", deny)])
}

fn read_rule<'y>(reader: &mut YamlReader<'_>, node: &'y Node<'y>) -> Option<ParamsRule<'y>> {
    let fields = reader.fields(node, "a rule", &["id", "version", "tier", "match", "algorithm", "params", "override"]);
    let line = fields.line();
    let id = reader.text_of(&fields, "id");
    match id {
        None => reader.refuse(line, "the rule has no `id`; write one, it becomes the rule's name"),
        Some(id) => check_name(reader, line, id, &format!("`id: {id}`")),
    }
    let version = fields.get("version").and_then(|node| reader.parse(node, "`version`", "a whole number"));
    let tier = reader.text_of(&fields, "tier");
    let conditions =
        fields.get("match").map(|node| reader.fields(node, "`match`", &["api_key_pattern", "endpoint_regex"]));
    let mut condition = |name| reader.text_of(conditions.as_ref()?, name);
    let (api_key, endpoint) = (condition("api_key_pattern"), condition("endpoint_regex"));
    let algorithm = fields.get("algorithm").and_then(|node| reader.word(node, "algorithm", &ALGORITHMS, &[]));
    if fields.get("algorithm").is_none() {
        let hint = hint("", ALGORITHMS.map(|(theirs, _)| theirs));
        reader.refuse(line, format!("the rule has no `algorithm`{hint}"));
    }
    let Some(params) = fields.get("params") else {
        reader.refuse(line, "the rule has no `params`; write its limit under it");
        return None;
    };
    let algorithm = algorithm?;
    let numbers = read_numbers(reader, params, algorithm, None)?;
    let mut keys = Vec::new();
    if let Some(node) = fields.get("override") {
        for (key, node) in reader.mapping(node, "`override`").iter() {
            if key.contains('*') {
                let text = format!("`{key}` is a pattern, and `override` is for single keys; write a rule");
                reader.refuse(line_of(node), text);
            }
            keys.extend(read_numbers(reader, node, algorithm, Some(&numbers)).map(|own| (key, own)));
        }
    }
    Some(ParamsRule { id: id?, version, tier, api_key, endpoint, algorithm, numbers, keys })
}

fn write(name: &str, rules: &[ParamsRule<'_>], lists: [(&str, Vec<&str>); 2]) -> String {
    let mut lines = vec![format!("# Imported from {}.", comment(name))];
    let version = rules.iter().filter_map(|rule| rule.version).max();
    lines.extend(version.map(|version| format!("version: {version}")));
    lines.extend(DESCRIPTORS.map(str::to_owned));
    lines.push(if rules.is_empty() { "rules: []" } else { "rules:" }.to_owned());
    for rule in rules {
        lines.extend(rule.tier.map(|tier| format!("  # For the tier {}.", comment(tier))));
        lines.push(format!("  - name: {}", quoted(rule.id)));
        let every_path = |regex: &&str| matches!(*regex, ".*" | "^.*" | "^.*$" | ".*$");
        let endpoint = rule.endpoint.filter(|regex| !every_path(regex));
        let conditions = [
            rule.api_key.map(|pattern| format!("      api_key: {}", quoted(pattern))),
            endpoint.map(|regex| format!("      endpoint: {{ regex: {} }}", quoted(regex))),
        ];
        section(&mut lines, "    match:", conditions.into_iter().flatten());
        lines.push("    per: [api_key]".to_owned());
        lines.push(format!("    algorithm: {}", rule.algorithm));
        lines.extend(rule.numbers.settings().iter().map(|setting| format!("    {setting}")));
        let keys = rule.keys.iter().map(|(key, own)| (quoted(key), own.settings().join(", ")));
        section(&mut lines, "    keys:", keys.map(|(key, settings)| format!("      {key}: {{ {settings} }}")));
    }
    let mut listed = Vec::new();
    for (list, patterns) in lists {
        section(&mut listed, list, patterns.iter().map(|pattern| format!("    - {{ api_key: {} }}", quoted(pattern))));
    }
    section(&mut lines, "lists:", listed.into_iter());
    lines.join("\n") + "\n"
}

/// Adds a heading and its items, unless there are none.
fn section(lines: &mut Vec<String>, heading: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        lines.push(heading.to_owned());
        lines.extend(items);
    }
}
