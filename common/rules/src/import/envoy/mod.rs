//! Import of a configuration of envoyproxy/ratelimit: files, each with a `domain` and a tree of descriptors.
//!
//! Each node of a tree that has a `rate_limit` becomes one rule. A request there is a list of descriptors, each an
//! ordered list of entries; the tree is walked entry by entry, and at each level the exact value wins over the first
//! wildcard that matches, which wins over the entry that has only a key. There is no backtracking when the chosen
//! branch ends without a limit, so each rule excludes, level by level, the values of its preceding siblings. The names
//! in `match` keep the order of the tree, `domain` first: an Envoy descriptor is limited by the rule with the same
//! names in the same order (`MatchScope::ordered_entries` in core). A flat call (`/check`) is one descriptor, too: `exact_match` keeps it
//! from the limits of other depths. Its names have no order.
//!
//! A descriptor that is counted although another one is over its limit becomes a rule with `charge: each`, because users
//! of that project rely on it. The rules are `bounded`: a `strict` rule denies a call that Redis answers late, while Envoy admits the
//! calls of a rate limit service that is late. A limit of 0 becomes `deny: true`, because a rules file refuses a quota of 0.
//!
//! Three things differ, because envoyproxy/ratelimit joins a key and a value before it looks them up. Here the key
//! `a_b` with the value `c` differs from the key `a` with the value `b_c` (with a warning), a `*` in a key is refused,
//! and a value that equals the text of a wildcard is an ordinary value.
//!
//! A manifest of a `ConfigMap` stands for its files (`config_map`). `read` parses a file to the tree in `tree`,
//! `pattern` converts values, `names` and `rule_names` choose names, and `rules` writes the rules.

mod settings;
mod config_map;
mod names;
mod pattern;
mod tree;
mod read;
mod rule_names;
mod rules;
#[cfg(test)]
mod tests;

use super::findings::{Findings, Foreign, Imported};
use super::write::{comment, list};
use tollgate_core::rules::problem::{Problem, Problems};

pub use config_map::is_envoy;
pub use names::envoy_names;
pub use settings::EnvoySettings;

use config_map::{is_manifest, read_manifest};
use read::read_file;
use rules::write_rules;
use tree::{DomainTree, check_level};

/// Converts the files of a configuration, in the order in which they are loaded, to a rules file.
///
/// # Errors
/// All parts that envoyproxy/ratelimit would not load, or that a rules file cannot express.
pub fn from_envoy(files: &[Foreign<'_>], settings: &EnvoySettings) -> Result<Imported, Problems> {
    let mut findings = Findings::default();
    if files.is_empty() {
        let text = "there is no file; name the folder that holds the configuration".to_owned();
        findings.problems.push(Problem { place: "import".to_owned(), text });
    }
    let mut domains: Vec<DomainTree> = Vec::new();
    let mut read_parts =
        |file: &Foreign<'_>| is_manifest(file.text).then(|| findings.read(*file, read_manifest).unwrap_or_default());
    let parts: Vec<_> = files.iter().map(&mut read_parts).collect();
    let parts = files.iter().zip(&parts).flat_map(|(file, parts)| match parts {
        Some(parts) => parts.iter().map(|(name, text)| Foreign { name, text }).collect(),
        None => vec![*file],
    });
    for file in parts {
        let Some(domain) = findings.read(file, read_file) else { continue };
        match domains.iter_mut().find(|first| first.name == domain.name) {
            None => domains.push(domain),
            Some(first) if settings.merge_domains => first.entries.extend(domain.entries),
            Some(first) => {
                let text = format!(
                    "domain `{}` stands in {} too; put both into one file, or ask for domains to be merged",
                    domain.name, first.file
                );
                findings.problems.push(Problem { place: domain.place, text });
            }
        }
    }
    for domain in &domains {
        check_level(&domain.entries, &mut Vec::new(), &mut findings);
    }
    let named = settings.all_or_none.iter().chain(&settings.refunds);
    for unknown in named.filter(|name| domains.iter().all(|domain| domain.name != **name)) {
        let text = format!("no file is of domain `{unknown}`, so its setting changes nothing");
        findings.warnings.push(Problem { place: "import".to_owned(), text });
    }
    let text = write_rules(header(files), &domains, settings, &mut findings);
    findings.finish(|| text)
}

fn header(files: &[Foreign<'_>]) -> String {
    let names = comment(&list(files.iter().map(|file| file.name)));
    format!(
        "# Imported from a configuration of envoyproxy/ratelimit: {names}.\n# A call names its `domain` beside the entries of its descriptor, which have the names used below.\n"
    )
}
