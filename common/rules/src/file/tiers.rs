//! `tiers:`: settings by the caller's tier, and whether every caller has one.

use std::sync::Arc;

use super::settings::{Settings, read_allowed, read_settings};
use crate::hint;
use crate::yaml::{Known, Node, Reader, line_of};
use tollgate_core::rules::TIER;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec};

const TIER_FIELDS: Known = Known {
    what: "a tier",
    fields: &[
        "quota",
        "algorithm",
        "burst",
        "burst_multiplier",
        "sub_windows",
        "estimate",
        "consistency",
        "on_failure",
        "deadline",
    ],
    not_yet: &["max_excess", "leases"],
};

/// Settings by tier or key, each with the line of its name.
pub(super) type Exceptions = Vec<(Arc<str>, Settings, usize)>;

/// The tiers of the file.
#[derive(Default)]
pub(super) struct Tiers {
    /// What each says, under the rules.
    pub(super) settings: Exceptions,
    /// The tier of callers who have none of their own.
    pub(super) default: Option<Arc<str>>,
}

impl Tiers {
    pub(super) fn get(&self, name: &str) -> Option<&Settings> {
        self.settings.iter().find(|(known, ..)| **known == *name).map(|(_, settings, _)| settings)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|(name, ..)| &**name)
    }
}

/// `name: settings` lines.
pub(super) fn read_exceptions(reader: &mut Reader<'_>, node: &Node<'_>, what: &str) -> Exceptions {
    let mut exceptions = Exceptions::new();
    for (name, node) in reader.mapping(node, what).iter() {
        let fields = reader.fields(node, &TIER_FIELDS);
        let quota = fields.get("quota").and_then(|node| read_allowed(reader, node));
        let settings = Settings { quota, ..read_settings(reader, &fields) };
        exceptions.push((name.into(), settings, line_of(node)));
    }
    exceptions
}

/// The top-level tiers, and what the descriptor `tier` is for those who have none.
pub(super) fn read_tiers(reader: &mut Reader<'_>, node: Option<&Node<'_>>, known: &[DescriptorSpec]) -> Tiers {
    let spec = known.iter().find(|spec| *spec.name == *TIER);
    let default = spec.and_then(|spec| match &spec.source {
        DescriptorSource::Constant(value) => Some(Arc::from(&**value)),
        _ => spec.default.as_deref().map(Arc::from),
    });
    let settings = node.map_or_else(Exceptions::new, |node| read_exceptions(reader, node, "`tiers`"));
    Tiers { settings, default }
}

/// That tiers mean someone: a descriptor `tier` which may be believed, and whose values are known.
pub(super) fn check_tiers(reader: &mut Reader<'_>, line: usize, tiers: &Tiers, known: &[DescriptorSpec]) {
    let Some(spec) = known.iter().find(|spec| *spec.name == *TIER) else {
        let text = "there is no descriptor `tier`, so only a call that names its tier itself is in one; declare it, such as `tier: { jwt: tier, default: free }`";
        reader.warn(line, text);
        return;
    };
    if let Some(source) = claimed(spec, known) {
        reader.warn(line, format!("`tier` rests on {source}; {UNVERIFIED}"));
    }
    let mapped: Vec<&str> = match &spec.source {
        DescriptorSource::Map { table, .. } => table.iter().map(|(_, value)| &**value).collect(),
        _ => Vec::new(),
    };
    for value in mapped.into_iter().chain(tiers.default.as_deref()) {
        if !tiers.settings.is_empty() && tiers.get(value).is_none() {
            let hint = hint(value, tiers.names());
            let text = format!(
                "descriptor `tier` may be `{value}`, which is not under `tiers`, so it has no policy of its own{hint}"
            );
            reader.warn(line, text);
        }
    }
}

/// What follows from a client's word alone.
pub(super) const UNVERIFIED: &str = "nobody verifies what a client writes there, so it counts only where a gateway names the descriptors of a call itself; add `verified: true` if the gateway authenticates before it asks";

/// The client's word on which the value of a descriptor rests, if it does.
pub(super) fn claimed(spec: &DescriptorSpec, known: &[DescriptorSpec]) -> Option<String> {
    let spec = match &spec.source {
        DescriptorSource::Map { of, .. } => known.iter().find(|spec| spec.name == *of)?,
        _ => spec,
    };
    let from = match &spec.source {
        DescriptorSource::Header(name) => format!("the header {name}"),
        DescriptorSource::Query(name) => format!("the query parameter {name}"),
        DescriptorSource::Cookie(name) => format!("the cookie {name}"),
        _ => return None,
    };
    spec.is_claim().then_some(from)
}
