//! `tiers:` and `keys:`: settings by tier or key, and the checks that callers can be in a tier.

use std::sync::Arc;

use crate::hint;
use crate::settings::{Layer, Level, read_quota_value};
use crate::yaml::{Node, YamlReader, line_of};
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, TIER};

/// Settings by tier or key, each with its line.
pub(super) type Exceptions = Vec<(Arc<str>, Layer, usize)>;

/// The tiers of the file.
#[derive(Default)]
pub(super) struct Tiers {
    /// Settings of each tier, below those of the rules.
    pub(super) layers: Exceptions,
    /// Tier of callers without one of their own.
    pub(super) default: Option<Arc<str>>,
}

impl Tiers {
    pub(super) fn get(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|(known, ..)| **known == *name).map(|(_, layer, _)| layer)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().map(|(name, ..)| &**name)
    }
}

/// Reads `name: settings` lines.
pub(super) fn read_exceptions(reader: &mut YamlReader<'_>, node: &Node<'_>, what: &str) -> Exceptions {
    let mut exceptions = Exceptions::new();
    for (name, node) in reader.mapping(node, what).iter() {
        let fields = reader.fields(node, &Level::Exception.known_fields());
        let quota = fields.get("quota").and_then(|node| read_quota_value(reader, node));
        let layer = Layer::read(reader, &fields, quota);
        exceptions.push((name.into(), layer, line_of(node)));
    }
    exceptions
}

/// Reads the top-level tiers, and the tier of callers that have none.
pub(super) fn read_tiers(reader: &mut YamlReader<'_>, node: Option<&Node<'_>>, known: &[DescriptorSpec]) -> Tiers {
    let spec = known.iter().find(|spec| *spec.name == *TIER);
    let default = spec.and_then(|spec| match &spec.source {
        DescriptorSource::Constant(value) => Some(Arc::from(&**value)),
        _ => spec.default.as_deref().map(Arc::from),
    });
    let layers = node.map_or_else(Exceptions::new, |node| read_exceptions(reader, node, "`tiers`"));
    Tiers { layers, default }
}

/// Warns when no caller can be in a tier: the descriptor `tier` must exist, be verified, and have known values.
pub(super) fn check_tiers(reader: &mut YamlReader<'_>, line: usize, tiers: &Tiers, known: &[DescriptorSpec]) {
    let Some(spec) = known.iter().find(|spec| *spec.name == *TIER) else {
        let text = "there is no descriptor `tier`, so only a call that names its tier itself is in one; declare it, such as `tier: { jwt: tier, default: free }`";
        reader.warn(line, text);
        return;
    };
    if let Some(source) = unverified_source(spec, known) {
        reader.warn(line, format!("`tier` rests on {source}; {UNVERIFIED}"));
    }
    let mapped: Vec<&str> = match &spec.source {
        DescriptorSource::Map { table, .. } => table.iter().map(|(_, value)| &**value).collect(),
        _ => Vec::new(),
    };
    for value in mapped.into_iter().chain(tiers.default.as_deref()) {
        if !tiers.layers.is_empty() && tiers.get(value).is_none() {
            let hint = hint(value, tiers.names());
            let text = format!(
                "descriptor `tier` may be `{value}`, which is not under `tiers`, so it has no policy of its own{hint}"
            );
            reader.warn(line, text);
        }
    }
}

/// Consequence and remedy of an unverified value, for messages.
pub(super) const UNVERIFIED: &str = "nobody verifies what a client writes there, so it counts only where a gateway names the descriptors of a call itself; add `verified: true` if the gateway authenticates before it asks";

/// Returns the unverified text of the client that a descriptor is taken or derived from.
pub(super) fn unverified_source(spec: &DescriptorSpec, known: &[DescriptorSpec]) -> Option<String> {
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
    spec.is_unverified().then_some(from)
}
