//! `descriptors:`: names of descriptors and the sources of their values.

use serde_json::{Value, json};

use crate::hint;
use crate::request_values::warn_unmet_text;
use crate::schema::{Key, flag, map_of, names, object, pattern, text, whole, words};
use crate::yaml::{Fields, Node, YamlReader, line_of, scalar};
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, Pattern};

/// Fields that name a source; a descriptor has one of them.
const SOURCES: [Key; 9] = [
    Key::new("header", "The value of this header.", || pattern("[A-Za-z0-9!#$%&'*+.^_`|~-]+")),
    Key::new("query", "The value of this query parameter.", text),
    Key::new("cookie", "The value of this cookie.", text),
    Key::new("jwt", "This claim of the bearer token, such as sub or realm.role.", || pattern(r"[^.]+(\.[^.]+)*")),
    Key::new("client_ip", "The address of the client.", || object(CLIENT_IP)),
    Key::new("path", "The path: normalized, where {id} replaces numbers and other ids, or raw.", || words(&PATHS)),
    Key::new("constant", "Always this text.", text),
    Key::new("of", "The descriptor whose values `map` maps.", text),
    Key::new("method", "The method of the request.", text),
];
/// Fields beside the source.
const OTHERS: [Key; 4] = [
    Key::new("map", "Values by patterns for the descriptor `of`, such as { sk_pro_*: pro }.", || map_of(&text())),
    Key::new("default", "Value of a call without one.", text),
    Key::new("public", "True: the whole value is published; else its first characters and a digest.", flag),
    Key::new("verified", "True: the gateway authenticates the client before it asks.", flag),
];
const CLIENT_IP: [Key; 2] = [
    Key::new("trusted_hops", "Number of proxies that append to X-Forwarded-For. Default: 0.", || whole(0, 255)),
    Key::new("ipv6_prefix", "Bits of an IPv6 address that tell clients apart. Default: 64.", || whole(1, 128)),
];
/// Forms of a path, with true for the normalized one.
const PATHS: [(&str, bool); 2] = [("normalized", true), ("raw", false)];
/// Sources without a setting, which need no mapping.
const PLAIN_SOURCES: [&str; 3] = ["client_ip", "method", "path"];
const PLAIN_IP: DescriptorSource = DescriptorSource::ClientIp { trusted_hops: 0, ipv6_prefix: 64 };

/// Returns the schema of `descriptors`.
pub(super) fn schema() -> Value {
    let mut descriptor = object([SOURCES.as_slice(), &OTHERS].concat());
    descriptor["type"] = "object".into();
    descriptor["oneOf"] = names(&SOURCES).iter().map(|source| json!({ "required": [source] })).collect();
    descriptor["dependentRequired"] = json!({ "map": ["of"], "of": ["map"] });
    map_of(&json!({ "anyOf": [{ "enum": PLAIN_SOURCES }, descriptor] }))
}

/// Reads the declared descriptors, and adds the default descriptors that are not declared.
pub(super) fn read_descriptors(reader: &mut YamlReader<'_>, declared: &[(&str, &Node<'_>)]) -> Vec<DescriptorSpec> {
    let mut specs = Vec::new();
    for (name, node) in declared {
        specs.extend(read_descriptor(reader, name, node));
    }
    let is_missing = |spec: &DescriptorSpec| declared.iter().all(|(name, _)| **name != *spec.name);
    specs.extend(DescriptorSpec::defaults().into_iter().filter(is_missing));
    for (name, node) in declared {
        check_map(reader, name, line_of(node), &specs);
    }
    specs
}

fn read_descriptor(reader: &mut YamlReader<'_>, name: &str, node: &Node<'_>) -> Option<DescriptorSpec> {
    match scalar(node) {
        Some("client_ip") => return Some(DescriptorSpec::new(name, PLAIN_IP)),
        Some("method") => return Some(DescriptorSpec::new(name, DescriptorSource::Method)),
        Some("path") => return Some(DescriptorSpec::new(name, DescriptorSource::Path { normalized: true })),
        Some(other) => {
            let hint = hint(other, PLAIN_SOURCES);
            let text = format!("`{name}`: `{other}` is no source by itself{hint}; or write {{ header: {name} }}");
            reader.refuse(line_of(node), text);
            return None;
        }
        None => {}
    }
    let fields = reader.fields(node, "a descriptor", &names(&[SOURCES.as_slice(), &OTHERS].concat()));
    let source = read_source(reader, name, &fields);
    let (public, verified) = (reader.flag(&fields, "public"), reader.flag(&fields, "verified"));
    let default = reader.text_of(&fields, "default").map(Into::into);
    let source = source?;
    if let (Some(node), DescriptorSource::Map { .. }) = (fields.get("public"), &source) {
        reader.refuse(line_of(node), "what a `map` makes is no secret and is shown anyway; remove `public`");
    }
    if let Some(node) = fields.get("verified").filter(|_| !source.is_client_text()) {
        let text = "only of a header, query or cookie is it in question whether someone has `verified` it; remove it";
        reader.refuse(line_of(node), text);
    }
    Some(DescriptorSpec { default, public, verified, ..DescriptorSpec::new(name, source) })
}

fn read_source(reader: &mut YamlReader<'_>, name: &str, fields: &Fields<'_>) -> Option<DescriptorSource> {
    let mut sources = SOURCES.iter().filter_map(|source| Some((source.name, fields.get(source.name)?)));
    let Some((field, node)) = sources.next() else {
        let text = if fields.get("map").is_some() {
            format!("`{name}`: a `map` needs `of`, the descriptor whose values it maps")
        } else {
            format!("`{name}` comes from nowhere; write one of {}", names(&SOURCES).join(", "))
        };
        reader.refuse(fields.line(), text);
        return None;
    };
    if let Some((other, _)) = sources.next() {
        reader.refuse(fields.line(), format!("`{name}` comes from `{field}` and from `{other}`; write one of them"));
        return None;
    }
    if let Some(map) = fields.get("map").filter(|_| field != "of") {
        let text = format!("`map` needs `of`, a descriptor; declare one with this `{field}`, and write `of` it here");
        reader.refuse(line_of(map), text);
        return None;
    }
    match field {
        "client_ip" => return Some(read_client_ip(reader, node)),
        "method" => return Some(DescriptorSource::Method),
        _ => {}
    }
    let text = reader.text(node, &format!("`{field}`"))?;
    Some(match field {
        "header" => {
            if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)) {
                reader.refuse(line_of(node), format!("`{text}` is no name of a header; write one such as x-api-key"));
            }
            DescriptorSource::Header(text.to_ascii_lowercase().into())
        }
        "query" => DescriptorSource::Query(text.into()),
        "cookie" => DescriptorSource::Cookie(text.into()),
        "jwt" => {
            if text.split('.').any(str::is_empty) {
                reader.refuse(line_of(node), format!("`jwt` is `{text}`; write a claim, such as sub or realm.role"));
            }
            DescriptorSource::Jwt(text.into())
        }
        "path" => {
            let form = PATHS.iter().find(|(name, _)| *name == text);
            if form.is_none() {
                reader.refuse(line_of(node), format!("`path` is `{text}`; write normalized or raw"));
            }
            DescriptorSource::Path { normalized: form.is_none_or(|(_, normalized)| *normalized) }
        }
        "constant" => DescriptorSource::Constant(text.into()),
        _ => {
            let Some(map) = fields.get("map") else {
                let text = format!("`{name}`: `of` needs a `map`, such as {{ of: api_key, map: {{ sk_pro_*: pro }} }}");
                reader.refuse(line_of(node), text);
                return None;
            };
            DescriptorSource::Map { of: text.into(), table: read_map(reader, map) }
        }
    })
}

fn read_client_ip(reader: &mut YamlReader<'_>, node: &Node<'_>) -> DescriptorSource {
    let ip = reader.fields(node, "`client_ip`", &names(&CLIENT_IP));
    let trusted_hops = ip.get("trusted_hops").and_then(|n| reader.parse(n, "`trusted_hops`", "0 to 255"));
    let bits = |text: &str| text.parse().ok().filter(|bits| (1..=128).contains(bits));
    let ipv6_prefix = ip.get("ipv6_prefix").and_then(|n| reader.parse_by(n, "`ipv6_prefix`", "1 to 128", bits));
    DescriptorSource::ClientIp { trusted_hops: trusted_hops.unwrap_or(0), ipv6_prefix: ipv6_prefix.unwrap_or(64) }
}

fn read_map(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Vec<(Pattern, Box<str>)> {
    let entries = reader.mapping(node, "`map`");
    let entry =
        |(pattern, value)| Some((Pattern::parse(pattern), reader.text(value, "what a value is mapped to")?.into()));
    let table: Vec<_> = entries.iter().filter_map(entry).collect();
    if table.is_empty() {
        reader.refuse(line_of(node), "a `map` without entries maps nothing; write some, such as { sk_pro_*: pro }");
    }
    table
}

/// Checks that a map is of a descriptor which is extracted from the request, so that one lookup finds the value, and has texts
/// that values may have.
fn check_map(reader: &mut YamlReader<'_>, name: &str, line: usize, specs: &[DescriptorSpec]) {
    let Some(DescriptorSource::Map { of, table }) =
        specs.iter().find(|spec| *spec.name == *name).map(|spec| &spec.source)
    else {
        return;
    };
    for (pattern, _) in table {
        warn_unmet_text(reader, line, of, &pattern.to_string(), specs);
    }
    match specs.iter().find(|spec| spec.name == *of) {
        None => {
            let hint = hint(of, specs.iter().map(|spec| &*spec.name).filter(|known| *known != name));
            reader.refuse(line, format!("`{name}` is of `{of}`, which is not under `descriptors`{hint}"));
        }
        Some(spec) if !spec.source.is_of_request() => {
            let text = format!("`{name}` is of `{of}`, which is not taken from a request; write `of` one that is");
            reader.refuse(line, text);
        }
        Some(_) => {}
    }
}
