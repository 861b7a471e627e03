//! Oracle of the limits that envoyproxy/ratelimit applies to a request: a plain walk over a plain tree.

use std::collections::BTreeSet;

use saphyr::{LoadableYamlNode, Scalar, Yaml};

use super::random::Random;

/// Key and value of a descriptor.
pub(crate) type Entry = (String, String);

pub(crate) struct Oracle {
    pub(crate) domain: String,
    root: Branch,
}

#[derive(Default)]
struct Branch {
    key: String,
    value: String,
    share: bool,
    limit: Option<Limit>,
    children: Vec<Branch>,
}

struct Limit {
    place: String,
    /// Text of the limit: `N/SECONDSs` or `unlimited`, followed by ` shadow`.
    says: String,
    name: String,
    replaces: Vec<String>,
}

/// Limit that applies, and its counter.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) place: String,
    pub(crate) says: String,
    /// Empty if the limit is unlimited.
    pub(crate) counter: Vec<Entry>,
    name: String,
    replaces: Vec<String>,
}

impl Oracle {
    pub(crate) fn new(text: &str) -> Self {
        let documents = Yaml::load_from_str(text).expect("is YAML");
        let file = &documents[0];
        let root = Branch { children: children(file, ""), ..Branch::default() };
        Self { domain: text_of(file, "domain"), root }
    }

    pub(crate) fn limit(&self, descriptor: &[Entry]) -> Option<Applied> {
        let mut branch = &self.root;
        let mut counter = Vec::new();
        for (key, value) in descriptor {
            let glued = format!("{key}_{value}");
            let exact = branch.children.iter().find(|child| child.glued() == glued);
            let wildcard = || branch.children.iter().find(|child| child.is_wildcard() && fits(&child.glued(), &glued));
            let default = || branch.children.iter().find(|child| child.glued() == *key);
            branch = exact.or_else(wildcard).or_else(default)?;
            let part = if branch.share { &branch.value } else { value };
            counter.push((key.clone(), part.clone()));
        }
        let limit = branch.limit.as_ref()?;
        if limit.says == "unlimited" {
            counter.clear();
        }
        let (place, says) = (limit.place.clone(), limit.says.clone());
        Some(Applied { place, says, counter, name: limit.name.clone(), replaces: limit.replaces.clone() })
    }

    /// Returns the limits of the descriptors of one request; a replaced limit does not apply. (That project still reports a
    /// replaced limit as unlimited if it was unlimited.)
    pub(crate) fn request(&self, descriptors: &[Vec<Entry>]) -> Vec<Option<Applied>> {
        let mut limits: Vec<_> = descriptors.iter().map(|descriptor| self.limit(descriptor)).collect();
        let replaced: BTreeSet<String> = limits.iter().flatten().flat_map(|limit| limit.replaces.clone()).collect();
        for limit in &mut limits {
            limit.take_if(|limit| replaced.contains(&limit.name));
        }
        limits
    }

    pub(crate) fn places(&self) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        self.root.collect(&mut places);
        places
    }

    /// Returns a random descriptor that often leads to a limit.
    pub(crate) fn random_descriptor(&self, random: &mut Random) -> Vec<Entry> {
        let mut branch = &self.root;
        let mut descriptor = Vec::new();
        while !branch.children.is_empty() && descriptor.len() < 8 {
            let child = random.pick(&branch.children);
            let sibling = random.pick(&branch.children);
            let value = if sibling.key == child.key { &sibling.value } else { &child.value };
            let value = match random.below(10) {
                0 => random.word(),
                _ if value.is_empty() => random.word(),
                1 => format!("{}{}", random.filled(value), random.word()),
                _ => random.filled(value),
            };
            descriptor.push((child.key.clone(), value));
            branch = child;
            if random.below(3) == 0 {
                break;
            }
        }
        if random.below(20) == 0 {
            descriptor.push((random.word(), random.word()));
        }
        descriptor
    }
}

impl Applied {
    pub(crate) fn denies_all(&self) -> bool {
        self.says.starts_with("0/")
    }
}

impl Branch {
    fn glued(&self) -> String {
        if self.value.is_empty() { self.key.clone() } else { format!("{}_{}", self.key, self.value) }
    }

    fn is_wildcard(&self) -> bool {
        self.glued().contains('*')
    }

    fn collect(&self, places: &mut BTreeSet<String>) {
        places.extend(self.limit.iter().map(|limit| limit.place.clone()));
        for child in &self.children {
            child.collect(places);
        }
    }
}

/// Returns true if a text matches a pattern, by trying every length of each `*`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|at| fits(after, &rest[at..]))
        }),
    }
}

fn children(node: &Yaml<'_>, parent: &str) -> Vec<Branch> {
    let items = node.as_mapping_get("descriptors").and_then(Yaml::as_vec).map_or(&[][..], Vec::as_slice);
    items.iter().map(|item| branch(item, parent)).collect()
}

fn branch(node: &Yaml<'_>, parent: &str) -> Branch {
    let (key, value) = (text_of(node, "key"), text_of(node, "value"));
    let place = format!("{parent}/{key}={value}");
    let limit = node.as_mapping_get("rate_limit").map(|limit| {
        let seconds = match text_of(limit, "unit").to_lowercase().as_str() {
            "second" => 1,
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            "week" => 7 * 86_400,
            "month" => 30 * 86_400,
            "year" => 365 * 86_400,
            _ => 0,
        };
        let mut says = format!("{}/{seconds}s", text_of(limit, "requests_per_unit"));
        if is_set(node, "shadow_mode") {
            says.push_str(" shadow");
        }
        if is_set(limit, "unlimited") {
            says = String::from("unlimited");
        }
        let replaces = limit.as_mapping_get("replaces").and_then(Yaml::as_vec).map_or(&[][..], Vec::as_slice);
        let replaces = replaces.iter().map(|item| text_of(item, "name")).collect();
        Limit { place: place.clone(), says, name: text_of(limit, "name"), replaces }
    });
    Branch { share: is_set(node, "share_threshold"), limit, children: children(node, &place), key, value }
}

fn text_of(node: &Yaml<'_>, field: &str) -> String {
    match node.as_mapping_get(field) {
        Some(Yaml::Value(Scalar::Integer(number))) => number.to_string(),
        Some(node) => node.as_str().unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

fn is_set(node: &Yaml<'_>, field: &str) -> bool {
    let node = node.as_mapping_get(field);
    node.is_some_and(|node| node.as_bool() == Some(true) || matches!(node.as_str(), Some("yes" | "on")))
}
