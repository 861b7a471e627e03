//! Tree of one domain, and the checks between its nodes.

use std::collections::{HashMap, HashSet};

use super::super::findings::Findings;
use super::names::{DOMAIN, envoy_names};
use super::pattern::NodeValue;
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::rules::problem::Problem;

pub(super) struct DomainTree {
    pub(super) name: String,
    /// File that contains the name.
    pub(super) file: String,
    pub(super) place: String,
    pub(super) entries: Vec<TreeNode>,
}

pub(super) struct TreeNode {
    pub(super) key: String,
    pub(super) value: NodeValue,
    pub(super) place: String,
    pub(super) limit: Option<NodeLimit>,
    /// All values that match the wildcard share one counter.
    pub(super) share: bool,
    pub(super) entries: Vec<TreeNode>,
}

/// Content of `rate_limit`, and `shadow_mode` beside it.
pub(super) struct NodeLimit {
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
    /// Requests, and the unit as a duration of a quota; none if unlimited.
    pub(super) quota: Option<(u32, &'static str)>,
    pub(super) shadow: bool,
    pub(super) quota_mode: bool,
}

/// Node with a limit, and the path to it.
pub(super) struct LimitedPath<'t> {
    pub(super) domain: &'t str,
    /// Each node of the path, and its level.
    pub(super) path: Vec<(&'t TreeNode, &'t [TreeNode])>,
    pub(super) limit: &'t NodeLimit,
}

impl TreeNode {
    /// Returns the values of preceding siblings that may also match this node.
    pub(super) fn preceding_values<'t>(&'t self, level: &'t [Self]) -> Vec<&'t NodeValue> {
        self.preceding(level).filter(|value| value.may_overlap(&self.value)).collect()
    }

    /// Returns true if no preceding sibling matches every value.
    pub(super) fn is_reached(&self, level: &[Self]) -> bool {
        !self.preceding(level).any(NodeValue::matches_all)
    }

    /// Returns the values of the siblings that are looked up before this node.
    fn preceding<'t>(&'t self, level: &'t [Self]) -> impl Iterator<Item = &'t NodeValue> {
        // An exact value is looked up first.
        let level = if matches!(self.value, NodeValue::Exact(_)) { &[] } else { level };
        let mine = level.iter().position(|entry| std::ptr::eq(entry, self)).unwrap_or(level.len());
        let same_key = level.iter().enumerate().filter(move |(_, entry)| entry.key == self.key);
        let first = same_key.filter(move |(at, entry)| match (&self.value, &entry.value) {
            (NodeValue::Exact(_), _) | (_, NodeValue::Any) => false,
            (NodeValue::Wildcard(_), NodeValue::Wildcard(_)) => *at < mine,
            (NodeValue::Wildcard(_) | NodeValue::Any, _) => true,
        });
        first.map(|(_, entry)| &entry.value)
    }

    /// Returns the text by which envoyproxy/ratelimit looks the node up.
    fn joined(&self) -> String {
        match self.value.text() {
            None => self.key.clone(),
            Some(value) => format!("{}_{value}", self.key),
        }
    }
}

/// Checks the nodes of each level against each other.
pub(super) fn check_level<'t>(level: &'t [TreeNode], path: &mut Vec<&'t str>, findings: &mut Findings) {
    let mut seen: HashMap<String, &TreeNode> = HashMap::new();
    let mut known = HashSet::new();
    let keys: Vec<&str> = level.iter().map(|entry| &*entry.key).filter(|key| known.insert(*key)).collect();
    for entry in level {
        let joined = entry.joined();
        if let Some(first) = seen.get(&joined) {
            let text = format!(
                "a descriptor with this key and value (`{}`) stands at {} too; remove one",
                entry.key, first.place
            );
            findings.problems.push(Problem { place: entry.place.clone(), text });
        }
        warn_joined(entry, &joined, &keys, findings);
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
        seen.entry(joined).or_insert(entry);
    }
}

/// Warns where the lookup of a joined key and value finds another node than ours.
fn warn_joined(entry: &TreeNode, joined: &str, keys: &[&str], findings: &mut Findings) {
    let other = keys.iter().filter(|key| **key != entry.key).find_map(|key| {
        let value = joined.strip_prefix(key)?.strip_prefix('_')?;
        Some((key, value))
    });
    if let Some((key, value)) = other {
        let text = format!(
            "envoyproxy/ratelimit takes `{key}` with value `{value}` for this descriptor, too; here it is a value of `{key}`"
        );
        findings.warnings.push(Problem { place: entry.place.clone(), text });
    }
}
