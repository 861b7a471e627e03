//! `descriptors:`: from a request to descriptors.

use super::super::descriptor::{DescriptorSource, DescriptorSpec};
use crate::yaml::{Fields, Known, Node, Reader, line_of, scalar};

const DESCRIPTOR: Known = Known {
    what: "a descriptor",
    fields: &["header", "client_ip", "method", "path", "public"],
    not_yet: &["jwt", "cookie", "query", "constant", "default"],
};
const CLIENT_IP: Known = Known { what: "`client_ip`", fields: &["trusted_hops", "ipv6_prefix"], not_yet: &[] };

/// The declared descriptors, and the defaults of those names that are not declared.
pub(super) fn read_descriptors(reader: &mut Reader<'_>, node: &Node<'_>) -> Vec<DescriptorSpec> {
    let mut specs = Vec::new();
    for (name, node) in reader.mapping(node, "`descriptors`").iter() {
        let source = read_source(reader, name, node);
        let public = match &source {
            Some((_, fields)) => fields.as_ref().and_then(|fields| fields.get("public")),
            None => None,
        };
        let public = public.and_then(|node| reader.parse(node, "`public`", "true or false")).unwrap_or(false);
        if let Some((source, _)) = source {
            specs.push(DescriptorSpec { public, ..DescriptorSpec::new(name, source) });
        }
    }
    let missing: Vec<_> = DescriptorSpec::defaults()
        .into_iter()
        .filter(|spec| specs.iter().all(|known| known.name != spec.name))
        .collect();
    specs.extend(missing);
    specs
}

type Sourced<'y> = (DescriptorSource, Option<Fields<'y>>);

fn read_source<'y>(reader: &mut Reader<'_>, name: &str, node: &'y Node<'y>) -> Option<Sourced<'y>> {
    let plain_ip = DescriptorSource::ClientIp { trusted_hops: 0, ipv6_prefix: 64 };
    match scalar(node) {
        Some("client_ip") => return Some((plain_ip, None)),
        Some("method") => return Some((DescriptorSource::Method, None)),
        Some("path") => return Some((DescriptorSource::Path { normalized: true }, None)),
        _ => {}
    }
    let before = reader.problems.len();
    let fields = reader.fields(node, &DESCRIPTOR);
    if reader.problems.len() > before {
        return None;
    }
    let source = if let Some(header) = fields.get("header") {
        DescriptorSource::Header(reader.text(header, "`header`")?.to_ascii_lowercase().into())
    } else if let Some(node) = fields.get("client_ip") {
        let ip = reader.fields(node, &CLIENT_IP);
        let trusted_hops = ip.get("trusted_hops").and_then(|n| reader.parse(n, "`trusted_hops`", "0 to 255"));
        let ipv6_prefix = ip.get("ipv6_prefix").and_then(|n| reader.parse(n, "`ipv6_prefix`", "1 to 128"));
        if let Some(bits) = ipv6_prefix.filter(|bits| !(1..=128).contains(bits)) {
            reader.refuse(line_of(node), format!("`ipv6_prefix` is {bits}; write 1 to 128"));
        }
        DescriptorSource::ClientIp { trusted_hops: trusted_hops.unwrap_or(0), ipv6_prefix: ipv6_prefix.unwrap_or(64) }
    } else if let Some(path) = fields.get("path") {
        let form = reader.text(path, "`path`")?;
        if form != "normalized" && form != "raw" {
            reader.refuse(line_of(path), format!("`path` is `{form}`; write normalized or raw"));
        }
        DescriptorSource::Path { normalized: form != "raw" }
    } else if fields.get("method").is_some() {
        DescriptorSource::Method
    } else {
        reader.refuse(
            line_of(node),
            format!("`{name}` comes from nowhere; write one of header, client_ip, method, path"),
        );
        return None;
    };
    Some((source, Some(fields)))
}
