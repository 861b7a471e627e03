//! A domain as it was read, and what must hold in it as a whole.

use std::collections::{HashMap, HashSet};

use super::super::Findings;
use super::names::{DOMAIN, envoy_names};
use super::pattern::Value;
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::rules::problem::Problem;

/// One domain.
pub(super) struct Domain {
    pub(super) name: String,
    /// Where its name stands.
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) entries: Vec<Entry>,
}

/// One node of its tree.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) place: String,
    pub(super) limit: Option<RateLimit>,
    /// All values that a wildcard takes are counted together.
    pub(super) share: bool,
    pub(super) entries: Vec<Entry>,
}

/// What stands under `rate_limit`, and beside it what changes its meaning.
pub(super) struct RateLimit {
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
    /// Requests, and the length of the unit as a quota says it; none: unlimited.
    pub(super) quota: Option<(u32, &'static str)>,
    pub(super) shadow: bool,
}

/// A node, as its path names it.
#[derive(Clone, Copy)]
pub(super) struct Step<'t> {
    pub(super) key: &'t str,
    pub(super) value: Option<&'t str>,
}

impl Entry {
    pub(super) fn step(&self) -> Step<'_> {
        Step { key: &self.key, value: self.value.text() }
    }

    /// What siblings take before this one.
    pub(super) fn before<'t>(&'t self, level: &'t [Self]) -> Vec<&'t Value> {
        self.asked_first(level).filter(|value| value.may_meet(&self.value)).collect()
    }

    /// Whether siblings leave it anything.
    pub(super) fn is_reached(&self, level: &[Self]) -> bool {
        !self.asked_first(level).any(Value::takes_all)
    }

    /// The siblings that are asked before this one.
    fn asked_first<'t>(&'t self, level: &'t [Self]) -> impl Iterator<Item = &'t Value> {
        // Nothing comes before a whole value.
        let level = if matches!(self.value, Value::Exact(_)) { &[] } else { level };
        let mine = level.iter().position(|entry| std::ptr::eq(entry, self)).unwrap_or(level.len());
        let same_key = level.iter().enumerate().filter(move |(_, entry)| entry.key == self.key);
        let first = same_key.filter(move |(at, entry)| match (&self.value, &entry.value) {
            (Value::Exact(_), _) | (_, Value::Any) => false,
            (Value::Wildcard(_), Value::Wildcard(_)) => *at < mine,
            (Value::Wildcard(_) | Value::Any, _) => true,
        });
        first.map(|(_, entry)| &entry.value)
    }

    /// As that project looks it up.
    fn glued(&self) -> String {
        match self.value.text() {
            None => self.key.clone(),
            Some(value) => format!("{}_{value}", self.key),
        }
    }
}

impl Domain {
    /// `file:line`
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// What no entry can see of itself.
    pub(super) fn check(&self, findings: &mut Findings) {
        check_level(&self.entries, &mut Vec::new(), findings);
    }
}

fn check_level<'t>(level: &'t [Entry], path: &mut Vec<&'t str>, findings: &mut Findings) {
    let mut seen: HashMap<String, &Entry> = HashMap::new();
    let mut known = HashSet::new();
    let keys: Vec<&str> = level.iter().map(|entry| &*entry.key).filter(|key| known.insert(*key)).collect();
    for entry in level {
        let glued = entry.glued();
        if let Some(first) = seen.get(&glued) {
            let text = format!(
                "a descriptor with this key and value (`{}`) stands at {} too; remove one",
                entry.key, first.place
            );
            findings.problems.push(Problem { place: entry.place.clone(), text });
        }
        warn_glued(entry, &glued, &keys, findings);
        path.push(&entry.key);
        let names = envoy_names(path.iter().copied());
        let name = names.last().map_or("", |name| name);
        let taken = name == DOMAIN || names.iter().filter(|other| *other == name).count() > 1;
        if name.len() > NAME_LEN_MAX || taken {
            let text =
                format!("the key would be the descriptor `{name}`, which is too long or taken; write another key");
            findings.problems.push(Problem { place: entry.place.clone(), text });
        }
        check_level(&entry.entries, path, findings);
        path.pop();
        seen.entry(glued).or_insert(entry);
    }
}

/// Says where a lookup of name and value glued together finds something else than ours.
fn warn_glued(entry: &Entry, glued: &str, keys: &[&str], findings: &mut Findings) {
    let other = keys.iter().filter(|key| **key != entry.key).find_map(|key| {
        let value = glued.strip_prefix(key)?.strip_prefix('_')?;
        Some((key, value))
    });
    if let Some((key, value)) = other {
        let text = format!(
            "envoyproxy/ratelimit takes `{key}` with value `{value}` for this descriptor, too; here it is a value of `{key}`"
        );
        findings.warnings.push(Problem { place: entry.place.clone(), text });
    }
}
