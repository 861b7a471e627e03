//! Writer of the rules: one rule for each node that has a limit.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tollgate_core::rules::{DescriptorSpec, RULES_LEN_MAX};

use super::super::findings::Findings;
use super::super::write::{comment, list, quoted};
use super::names::{DOMAIN, envoy_names};
use super::pattern::NodeValue;
use super::rule_names::rule_names;
use super::settings::EnvoySettings;
use super::tree::{DomainTree, LimitedPath, TreeNode};
use crate::FILE_LEN_MAX;
use tollgate_core::rules::problem::Problem;

/// Writes `rules:` after the text `above`. A result that is too large for a rules file is refused here, where the
/// places in the foreign files are known.
pub(super) fn write_rules(
    above: String,
    domains: &[DomainTree],
    settings: &EnvoySettings,
    findings: &mut Findings,
) -> String {
    let mut limited = Vec::new();
    for domain in domains {
        collect(&domain.name, &domain.entries, &mut Vec::new(), &mut limited, findings);
    }
    let names = rule_names(&limited);
    let mut rules_of: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (rule, name) in limited.iter().zip(&names) {
        if let Some(own) = rule.limit.name.as_ref() {
            rules_of.entry((rule.domain, own)).or_default().push(name);
        }
    }
    if let Some(first) = limited.get(RULES_LEN_MAX) {
        let text =
            format!("with this limit there are more than {RULES_LEN_MAX}, and no more are enforced; remove some");
        findings.problems.push(Problem { place: first.place().to_owned(), text });
        return above;
    }
    let mut out = above + &declared(&limited) + if limited.is_empty() { "rules: []\n" } else { "rules:\n" };
    for (rule, name) in limited.iter().zip(&names) {
        let mut replaced: Vec<&str> = Vec::new();
        for wanted in &rule.limit.replaces {
            let rules = rules_of.get(&(rule.domain, wanted)).map_or(&[][..], Vec::as_slice);
            if rules.is_empty() {
                let text = format!("no limit of domain `{}` is named `{wanted}` and can be replaced", rule.domain);
                findings.warnings.push(Problem { place: rule.place().to_owned(), text });
            }
            for rule in rules {
                if !replaced.contains(rule) {
                    replaced.push(rule);
                }
            }
        }
        out += &rule.text(name, &replaced, settings);
        if out.len() > FILE_LEN_MAX {
            let text = format!(
                "with this limit the rules are longer than {FILE_LEN_MAX} bytes, and no more are read; write fewer limits beside those whose values have a `*` or are not told, for each of these leaves out what the others take"
            );
            findings.problems.push(Problem { place: rule.place().to_owned(), text });
            break;
        }
    }
    out
}

/// Declares the entries whose names are those of a method, a path or an address, so that they keep the values that Envoy sends.
fn declared(limited: &[LimitedPath<'_>]) -> String {
    let names: Vec<_> = limited.iter().flat_map(LimitedPath::names).collect();
    let changed = DescriptorSpec::defaults().into_iter().filter(|spec| !spec.source.is_client_text());
    let used = changed.filter(|spec| names.iter().any(|name| **name == *spec.name));
    let lines: Vec<String> = used.map(|spec| format!("  {0}: {{ header: {0} }}\n", spec.name)).collect();
    if lines.is_empty() { String::new() } else { format!("descriptors:\n{}", lines.concat()) }
}

fn collect<'t>(
    domain: &'t str,
    level: &'t [TreeNode],
    path: &mut Vec<(&'t TreeNode, &'t [TreeNode])>,
    out: &mut Vec<LimitedPath<'t>>,
    findings: &mut Findings,
) {
    for entry in level {
        if !entry.is_reached(level) {
            let text =
                format!("is never reached: another `{}` of this level takes every value; it is dropped", entry.key);
            findings.warnings.push(Problem { place: entry.place.clone(), text });
            continue;
        }
        path.push((entry, level));
        if let Some(limit) = &entry.limit {
            out.push(LimitedPath { domain, path: path.clone(), limit });
        }
        collect(domain, &entry.entries, path, out, findings);
        path.pop();
    }
}

impl LimitedPath<'_> {
    fn place(&self) -> &str {
        self.path.last().map_or("", |(entry, _)| &entry.place)
    }

    fn names(&self) -> Vec<Cow<'_, str>> {
        envoy_names(self.path.iter().map(|(entry, _)| entry.key.as_str()))
    }

    fn text(&self, name: &str, replaces: &[&str], settings: &EnvoySettings) -> String {
        let is_of = |domains: &[String]| domains.iter().any(|domain| domain == self.domain);
        let quota_mode = self.limit.quota_mode || settings.quota_mode;
        let names = self.names();
        let mut lines = vec![
            format!("  # {}", comment(self.place())),
            format!("  - name: {}", quoted(name)),
            "    match:".to_owned(),
            format!("      {DOMAIN}: {{ exact: {} }}", quoted(self.domain)),
        ];
        let entries = || names.iter().zip(&self.path);
        lines.extend(entries().map(|(name, (entry, level))| {
            format!("      {}: {}", quoted(name), entry.value.write(&entry.preceding_values(level)))
        }));
        lines.push("    exact_match: true".to_owned());
        match self.limit.quota {
            None => lines.extend(["    per: []", "    quota: unlimited"].map(str::to_owned)),
            Some((0, _)) => lines.push("    deny: true".to_owned()),
            Some((requests, width)) => {
                let own_counter = |entry: &TreeNode| !entry.share && !matches!(entry.value, NodeValue::Exact(_));
                let per = entries().filter(|(_, (entry, _))| own_counter(entry)).map(|(name, _)| name);
                lines.push(format!("    per: {}", list(per)));
                lines.push(format!("    quota: {requests}/{width}"));
                lines.push("    algorithm: fixed_window".to_owned());
                // A request may pass over a limit in quota mode, which therefore counts all of them.
                let each = quota_mode || !is_of(&settings.all_or_none);
                lines.push(format!("    charge: {}", if each { "each" } else { "all_or_none" }));
                lines.extend(quota_mode.then(|| "    quota_mode: true".to_owned()));
                lines.extend(is_of(&settings.refunds).then(|| "    refunds: true".to_owned()));
            }
        }
        let shadow = self.limit.shadow && self.limit.quota.is_some();
        lines.extend(shadow.then(|| "    shadow: true".to_owned()));
        lines.extend((!replaces.is_empty()).then(|| format!("    replaces: {}", list(replaces))));
        lines.join("\n") + "\n"
    }
}
