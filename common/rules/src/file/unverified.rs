//! Descriptors that rest on unverified text of the client, and the warning of parts that count only verified values.

use crate::yaml::YamlReader;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec};

/// Warns of a descriptor that is taken or derived from unverified text of the client. `what` is the part that rests on it.
pub(super) fn warn_unverified(
    reader: &mut YamlReader<'_>,
    line: usize,
    what: &str,
    name: &str,
    known: &[DescriptorSpec],
) {
    let Some(spec) = unverified(known, name) else { return };
    let source = match &spec.source {
        DescriptorSource::Header(name) => format!("the header {name}"),
        DescriptorSource::Query(name) => format!("the query parameter {name}"),
        DescriptorSource::Cookie(name) => format!("the cookie {name}"),
        _ => return,
    };
    let text = "a client can write any value there, so it counts only where a gateway names the descriptors of a call itself; add `verified: true` if the gateway authenticates before it asks";
    reader.warn(line, format!("{what} {source}; {text}"));
}

/// Returns the descriptor from which this one takes unverified text of the client, if it does.
pub(super) fn unverified<'a>(known: &'a [DescriptorSpec], name: &str) -> Option<&'a DescriptorSpec> {
    let spec = find(known, name).and_then(|spec| match &spec.source {
        DescriptorSource::Map { of, .. } => find(known, of),
        _ => Some(spec),
    });
    spec.filter(|spec| spec.is_unverified())
}

pub(super) fn find<'a>(known: &'a [DescriptorSpec], name: &str) -> Option<&'a DescriptorSpec> {
    known.iter().find(|spec| *spec.name == *name)
}
