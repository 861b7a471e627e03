//! The configuration of envoyproxy/ratelimit: a folder of files, each with a `domain` and a tree of descriptors.
//!
//! Each node of a tree that has a `rate_limit` becomes one rule. A request there is a list of descriptors, each an ordered
//! list of entries; the tree is walked entry by entry, and at each level the exact value wins over the first wildcard that
//! fits, which wins over the entry that has only a key. What was passed over does not come back when the branch taken ends
//! without a limit, so each rule excludes, level by level, what its siblings take. The names in `match` keep the order of
//! the tree, `domain` first: an Envoy descriptor is limited by the rule whose names are the same in the same order.
//!
//! Three things differ, since there a name and a value are glued together before they are looked up: here `a_b` and
//! value `c` is another thing than `a` and value `b_c` (a warning says where that matters), a `*` in a key is refused,
//! and a value that is itself the text of a wildcard is a value like any other.

mod names;
mod pattern;
mod read;
mod rules;
mod tree;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::write::{comment, list};
use super::{Findings, Foreign, Imported};
use tollgate_core::rules::problem::{Problem, Problems};

pub use names::envoy_names;

use read::read_file;
use rules::write_rules;
use tree::Domain;

/// What envoyproxy/ratelimit takes from its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvoySettings {
    /// The domains of which a call counts under all its rules or under none. In others it counts under each rule that
    /// applies, also when another denies it, as that project does unless `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT` is set.
    pub all_or_none: Vec<String>,
    /// Whether several files may share a domain (`MERGE_DOMAIN_CONFIG` there); off, that is refused.
    pub merge_domains: bool,
}

/// Turns the files of an envoyproxy/ratelimit configuration, in the order in which they are loaded, into a rules file.
///
/// # Errors
/// When that project would not load them, or when they ask for something that our language cannot say: all such places.
pub fn from_envoy(files: &[Foreign<'_>], settings: &EnvoySettings) -> Result<Imported, Problems> {
    let mut findings = Findings::default();
    if files.is_empty() {
        let text = "there is no file; name the folder that holds the configuration".to_owned();
        findings.problems.push(Problem { place: "import".to_owned(), text });
    }
    let mut domains: Vec<Domain> = Vec::new();
    let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let Some(domain) = findings.read(*file, read_file) else { continue };
        match first_of.get(&domain.name) {
            None => {
                first_of.insert(domain.name.clone(), domains.len());
                domains.push(domain);
            }
            Some(&first) if settings.merge_domains => domains[first].entries.extend(domain.entries),
            Some(&first) => {
                let text = format!(
                    "domain `{}` stands in {} too; put both into one file, or ask for domains to be merged",
                    domain.name, domains[first].file
                );
                findings.problems.push(Problem { place: domain.place(), text });
            }
        }
    }
    for domain in &domains {
        domain.check(&mut findings);
    }
    for unknown in settings.all_or_none.iter().filter(|name| !first_of.contains_key(*name)) {
        let text = format!("no file is of domain `{unknown}`, so nothing is charged otherwise for it");
        findings.warnings.push(Problem { place: "import".to_owned(), text });
    }
    let text = write_rules(header(files), &domains, &settings.all_or_none, &mut findings);
    findings.finish(|| text)
}

fn header(files: &[Foreign<'_>]) -> String {
    let mut text = "# Imported from a configuration of envoyproxy/ratelimit: ".to_owned();
    let _ = writeln!(text, "{}.", comment(&list(files.iter().map(|file| file.name))));
    text.push_str(
        "# A call names its `domain` beside the entries of its descriptor, which have the names used below.\n",
    );
    text
}
