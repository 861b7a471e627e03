//! `match:`: conditions on the values of descriptors.

use ipnet::IpNet;
use serde_json::{Value, json};

use super::coverage::matches_nothing;
use crate::cut;
use crate::request_values::warn_unmet;
use crate::schema::{Key, map_of, names, object, reference, text};
use crate::settings::warn_undeclared;
use crate::yaml::{Node, YamlReader, is_list, line_of, scalar};
use tollgate_core::rules::{DescriptorSpec, Matches, Pattern};

const FORMS: [Key; 6] = [
    Key::new("exact", "This value, in which * and ? are no wildcards.", text),
    Key::new("prefix", "Values that begin with this text.", text),
    Key::new("glob", "Values of this form: * is any text, ? is one character.", text),
    Key::new("regex", "Values in which this regular expression finds something.", text),
    Key::new("cidr", "Addresses of this network, such as 10.0.0.0/8.", text),
    Key::new("not", "Values that match none of these patterns.", || reference("pattern")),
];

/// Returns the schema of a pattern: a text, a list of patterns, or named forms.
pub(super) fn schema() -> Value {
    let mut forms = object(FORMS);
    (forms["type"], forms["minProperties"]) = ("object".into(), 1.into());
    json!({ "anyOf": [text(), { "type": "array", "items": reference("pattern"), "minItems": 1 }, forms] })
}

/// Returns the schema of patterns by descriptor.
pub(super) fn matches_schema() -> Value {
    map_of(&reference("pattern"))
}

pub(super) fn read_matches(
    reader: &mut YamlReader<'_>,
    node: &Node<'_>,
    what: &str,
    known: &[DescriptorSpec],
) -> Matches {
    let mut matches = Vec::new();
    for (name, node) in reader.mapping(node, what).iter() {
        warn_undeclared(reader, line_of(node), name, known);
        if let Some(pattern) = read_pattern(reader, node, name) {
            warn_never(reader, line_of(node), name, &pattern, known);
            matches.push((name.into(), pattern));
        }
    }
    matches
}

/// Returns the network that a value of a list entry beside a file names; a network with an address inside is none.
pub(super) fn entry_network(value: &str) -> Option<IpNet> {
    value.parse::<IpNet>().ok().filter(|network| *network == network.trunc())
}

/// Returns the pattern of a value of a list entry beside a file: a network, or as in a file.
pub(super) fn entry_pattern(value: &str) -> Pattern {
    entry_network(value).map_or_else(|| Pattern::parse(value), Pattern::Cidr)
}

/// Reads a text, a list of patterns of which any may match, or a named form.
pub(super) fn read_pattern(reader: &mut YamlReader<'_>, node: &Node<'_>, name: &str) -> Option<Pattern> {
    if scalar(node).is_some() {
        return Some(Pattern::parse(reader.text(node, &format!("the pattern of `{name}`"))?));
    }
    if is_list(node) {
        let mut patterns = read_any(reader, node, name)?;
        return Some(if patterns.len() == 1 { patterns.remove(0) } else { Pattern::Any(patterns.into()) });
    }
    let before = reader.problems.len();
    let fields = reader.fields(node, "a pattern", &names(&FORMS));
    let mut all: Vec<Pattern> = fields.iter().filter_map(|(form, node)| read_form(reader, form, node, name)).collect();
    if reader.problems.len() > before {
        return None;
    }
    match all.len() {
        0 => {
            let text = format!("the pattern of `{name}` says nothing; write one of {}", names(&FORMS).join(", "));
            reader.refuse(fields.line(), text);
            None
        }
        1 => all.pop(),
        _ => Some(Pattern::All(all)),
    }
}

fn read_any(reader: &mut YamlReader<'_>, node: &Node<'_>, name: &str) -> Option<Vec<Pattern>> {
    let items = reader.items(node, &format!("the pattern of `{name}`"));
    let patterns: Vec<_> = items.iter().filter_map(|item| read_pattern(reader, item, name)).collect();
    if items.is_empty() {
        reader.refuse(line_of(node), format!("nothing is in an empty list; write what `{name}` may be"));
    }
    (!patterns.is_empty()).then_some(patterns)
}

fn read_form(reader: &mut YamlReader<'_>, form: &str, node: &Node<'_>, name: &str) -> Option<Pattern> {
    if form == "not" {
        let patterns =
            if is_list(node) { read_any(reader, node, name)? } else { vec![read_pattern(reader, node, name)?] };
        return Some(Pattern::Not(patterns.into()));
    }
    let text = reader.text(node, &format!("`{form}`"))?;
    match form {
        "exact" => Some(Pattern::Exact(text.into())),
        "prefix" => Some(Pattern::Prefix(text.into())),
        "glob" => Some(Pattern::glob(text)),
        "regex" => match Pattern::regex(text) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                // The error has several lines; the reason is in the last one.
                let error = error.to_string();
                let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                reader.refuse(line_of(node), format!("`{}` is no regular expression: {reason}", cut(text)));
                None
            }
        },
        "cidr" => {
            let network = text.parse::<IpNet>().or_else(|_| text.parse().map(std::net::IpAddr::into));
            let Ok(network) = network else {
                // An address is no secret. Other text may be a key in the wrong place.
                let is_address = |byte: u8| byte.is_ascii_hexdigit() || b".:/".contains(&byte);
                let is_shown = text.bytes().all(is_address) && text.contains(['.', ':']);
                let shown = if is_shown { text.into() } else { cut(text) };
                let text = format!("`{shown}` is no network; write one such as 10.0.0.0/8 or 2001:db8::/32");
                reader.refuse(line_of(node), text);
                return None;
            };
            if network != network.trunc() {
                let (whole, alone) = (network.trunc(), network.addr());
                let text =
                    format!("`{text}` names an address inside a network; write {whole}, or {alone} for it alone");
                reader.refuse(line_of(node), text);
            }
            Some(Pattern::Cidr(network))
        }
        _ => None,
    }
}

/// Warns of conditions that no value of the descriptor meets.
fn warn_never(reader: &mut YamlReader<'_>, line: usize, name: &str, pattern: &Pattern, known: &[DescriptorSpec]) {
    if matches_nothing(pattern) {
        let text =
            format!("no value of `{name}` meets these conditions, so this never applies; correct them, or remove it");
        reader.warn(line, text);
    }
    warn_unmet(reader, line, name, pattern, known);
}
