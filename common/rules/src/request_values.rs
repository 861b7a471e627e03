//! Values that requests can have, and patterns that none of them meets.
//!
//! The path of a request is normalized, its method is in upper case, and its client is an address or a network. A pattern in another
//! spelling never matches, and its rule limits nothing. Such a pattern is reported with one to write instead. A pattern that some
//! value may meet is never reported: no warning is better than a false one.

mod automaton;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;
use tollgate_core::client_network::client_network;
use tollgate_core::request_path::normalize;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, Pattern};

use crate::yaml::YamlReader;
use automaton::{Ids, RegexSearch, RequestTexts, Shortest};

/// Characters that stand for `*` and `?` in a value; no rules file is expected to contain them.
const ANY_TEXT: char = '\u{f8f0}';
const ANY_CHAR: char = '\u{f8f1}';
/// Length from which a hexadecimal segment may be an id.
const HEX_LEN_MIN: usize = 8;

/// Pattern that no request meets.
struct UnmetPattern {
    text: String,
    kind: &'static str,
    /// True if a few unlikely values meet it.
    is_met_by_chance: bool,
    remedy: Remedy,
}

enum Remedy {
    /// Pattern as it is written in the file.
    Text(String),
    /// Pattern of a form with a name, such as `{ prefix: /a* }`.
    Form(String),
    /// Pattern of the form `cidr`.
    Network(IpNet),
    /// Value that a regular expression should match.
    Value(String),
}

/// Parts of a request whose values have a normal form.
#[derive(Clone, Copy)]
enum RequestText {
    Method,
    Path { normalized: bool },
}

/// Warns of the parts of a pattern that no request meets.
pub(crate) fn warn_unmet(
    reader: &mut YamlReader<'_>,
    line: usize,
    name: &str,
    pattern: &Pattern,
    known: &[DescriptorSpec],
) {
    for unmet in unmet_patterns(name, pattern, known) {
        reader.warn(line, unmet.to_string());
    }
}

/// Warns of a text that no request meets, where the file takes no other form of a pattern.
pub(crate) fn warn_unmet_text(
    reader: &mut YamlReader<'_>,
    line: usize,
    name: &str,
    text: &str,
    known: &[DescriptorSpec],
) {
    for text in unmet_texts(name, text, known) {
        reader.warn(line, text);
    }
}

/// Returns what [`warn_unmet_text`] warns of.
pub(crate) fn unmet_texts(name: &str, text: &str, known: &[DescriptorSpec]) -> Vec<String> {
    let told = |mut unmet: UnmetPattern| {
        if matches!(unmet.remedy, Remedy::Form(_) | Remedy::Network(_)) {
            let form = &unmet.remedy;
            unmet.remedy = Remedy::Text(format!("another rule for them, with `match: {{ {name}: {form} }}`"));
        }
        unmet.to_string()
    };
    unmet_patterns(name, &Pattern::parse(text), known).into_iter().map(told).collect()
}

/// Returns what [`warn_unmet`] warns of, where a network is written without the name of its form.
pub(crate) fn unmet_values(name: &str, pattern: &Pattern, known: &[DescriptorSpec]) -> Vec<String> {
    let told = |mut unmet: UnmetPattern| {
        if let Remedy::Network(network) = unmet.remedy {
            unmet.remedy = Remedy::Text(network.to_string());
        }
        unmet.to_string()
    };
    unmet_patterns(name, pattern, known).into_iter().map(told).collect()
}

fn unmet_patterns(name: &str, pattern: &Pattern, known: &[DescriptorSpec]) -> Vec<UnmetPattern> {
    let Some(spec) = known.iter().find(|spec| *spec.name == *name) else { return Vec::new() };
    let unmet = |pattern: &Pattern| match spec.source {
        DescriptorSource::ClientIp { ipv6_prefix, .. } => unmet_by_clients(pattern, ipv6_prefix),
        DescriptorSource::Method => RequestText::Method.unmet(pattern),
        DescriptorSource::Path { normalized } => RequestText::Path { normalized }.unmet(pattern),
        _ => None,
    };
    let mut parts = Vec::new();
    add_parts(pattern, &mut parts);
    let is_default = |pattern: &Pattern| spec.default.as_deref().is_some_and(|default| pattern.matches(default));
    parts.into_iter().filter(|part| !is_default(part)).filter_map(unmet).collect()
}

/// Adds the patterns of which each must be met by some value. A part of `not` need not.
fn add_parts<'p>(pattern: &'p Pattern, parts: &mut Vec<&'p Pattern>) {
    match pattern {
        Pattern::Any(patterns) => patterns.as_slice().iter().for_each(|pattern| add_parts(pattern, parts)),
        Pattern::All(patterns) => patterns.iter().for_each(|pattern| add_parts(pattern, parts)),
        Pattern::Not(_) => {}
        pattern => parts.push(pattern),
    }
}

impl RequestText {
    fn unmet(self, pattern: &Pattern) -> Option<UnmetPattern> {
        match pattern {
            Pattern::Exact(text) => self.unmet_text(pattern, text),
            Pattern::Prefix(text) => self.unmet_text(pattern, &format!("{text}{ANY_TEXT}")),
            Pattern::Glob(text, _) => {
                self.unmet_text(pattern, &text.replace('*', &ANY_TEXT.to_string()).replace('?', &ANY_CHAR.to_string()))
            }
            Pattern::Regex(regex) => self.unmet_regex(pattern, regex.as_str()),
            _ => None,
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Path { normalized: true } => "path of a request after normalization",
            Self::Path { normalized: false } => "path of a request",
        }
    }

    /// Returns the value of a request with this text.
    fn value(self, text: &str) -> String {
        match self {
            Self::Method => text.to_ascii_uppercase(),
            Self::Path { normalized: true } => normalize(text).into_owned(),
            Self::Path { normalized: false } => {
                let path = text.split(['?', '#']).next().unwrap_or_default();
                if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
            }
        }
    }

    /// Compares a text with its value. Each wildcard of the text is one character that no value changes.
    fn unmet_text(self, pattern: &Pattern, text: &str) -> Option<UnmetPattern> {
        let is_value = |text: &str| !text.is_empty() && self.value(text) == text;
        // A wildcard may also stand for nothing, and at the beginning for the first slash.
        let begins_with_any = text.starts_with(ANY_TEXT) && matches!(self, Self::Path { .. });
        let sample = match text.strip_prefix(ANY_CHAR) {
            _ if begins_with_any => format!("/{text}"),
            Some(rest) if matches!(self, Self::Path { .. }) => format!("/{rest}"),
            _ => text.to_owned(),
        };
        if is_value(&sample) || is_value(&text.replace(ANY_TEXT, "")) {
            return None;
        }
        // The value of `/%4%31` is `/%41`, which has the value `/A`.
        let value = self.value(&self.value(&sample));
        let value =
            value.strip_prefix('/').filter(|rest| begins_with_any && rest.starts_with(ANY_TEXT)).unwrap_or(&value);
        let written = value.replace(ANY_TEXT, "*").replace(ANY_CHAR, "?");
        let is_literal = !matches!(pattern, Pattern::Glob(..));
        let remedy = match (pattern, value.strip_suffix(ANY_TEXT)) {
            (Pattern::Prefix(_), Some(prefix)) if prefix.contains(['*', '?']) => {
                Remedy::Form(format!("{{ prefix: {} }}", quoted(prefix)))
            }
            (_, None) if is_literal && value.contains(['*', '?']) => {
                Remedy::Form(format!("{{ exact: {} }}", quoted(value)))
            }
            _ => Remedy::Text(quoted(&written)),
        };
        Some(UnmetPattern { text: pattern.to_string(), kind: self.kind(), is_met_by_chance: false, remedy })
    }

    fn unmet_regex(self, pattern: &Pattern, regex: &str) -> Option<UnmetPattern> {
        let mut search = RegexSearch::of(regex)?;
        let values = match self {
            Self::Method => RequestTexts::Methods,
            Self::Path { normalized: true } => RequestTexts::Paths(Ids::Normal),
            Self::Path { normalized: false } => RequestTexts::RawPaths,
        };
        let (is_met_by_chance, meant) = match search.shortest(values) {
            Shortest::Unknown => return None,
            Shortest::Text(text) => {
                let meant = with_digits(&text);
                let is_id = values == RequestTexts::Paths(Ids::Normal) && meant != text && pattern.matches(&meant);
                if !is_id || search.shortest(RequestTexts::Paths(Ids::Likely)) != Shortest::Absent {
                    return None;
                }
                (true, meant)
            }
            Shortest::Absent => {
                let wider: &[RequestTexts] = match self {
                    Self::Method => &[RequestTexts::Any],
                    Self::Path { .. } => &[RequestTexts::Paths(Ids::Unknown), RequestTexts::Any],
                };
                let shortest = wider.iter().find_map(|texts| match search.shortest(*texts) {
                    Shortest::Text(text) => Some(text),
                    Shortest::Absent | Shortest::Unknown => None,
                });
                (false, shortest?)
            }
        };
        let remedy = Remedy::Value(self.value(&meant));
        Some(UnmetPattern { text: pattern.to_string(), kind: self.kind(), is_met_by_chance, remedy })
    }
}

impl fmt::Display for UnmetPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, kind, .. } = self;
        let (almost, never) = if self.is_met_by_chance { ("hardly a", "hardly ever") } else { ("no", "never") };
        write!(f, "`{text}` is {almost} {kind}, so it {never} matches; write {}", self.remedy)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Form(text) => f.write_str(text),
            Self::Network(network) => write!(f, "{{ cidr: {} }}", quoted(&network.to_string())),
            Self::Value(value) if value.contains("{id}") => {
                write!(f, "one that matches {value}, with `\\{{id\\}}` for each id")
            }
            Self::Value(value) => write!(f, "one that matches {value}"),
        }
    }
}

/// Returns a path with a digit in each hexadecimal segment.
fn with_digits(path: &str) -> String {
    let segments = path.split('/').map(|segment| {
        let is_hex = segment.len() >= HEX_LEN_MIN && segment.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex { format!("0{}", &segment[1..]) } else { segment.to_owned() }
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Compares an address or a network with the value that clients of it have.
fn unmet_by_clients(pattern: &Pattern, ipv6_prefix: u8) -> Option<UnmetPattern> {
    let client = |address: IpAddr| Remedy::Text(quoted(&client_network(address, ipv6_prefix)));
    let remedy = match pattern {
        Pattern::Exact(text) => {
            if let Ok(address) = text.parse::<IpAddr>() {
                (client_network(address, ipv6_prefix) != **text).then(|| client(address))
            } else if let Ok(network) = text.parse::<IpNet>() {
                let network = without_translation(network.trunc());
                if matches!(network, IpNet::V4(_)) || network.prefix_len() < ipv6_prefix {
                    Some(Remedy::Network(network))
                } else {
                    (client_network(network.addr(), ipv6_prefix) != **text).then(|| client(network.addr()))
                }
            } else {
                Some(Remedy::Text("one such as 10.0.0.1".to_owned()))
            }
        }
        Pattern::Cidr(network @ IpNet::V6(_)) => match without_translation(network.trunc()) {
            network @ IpNet::V4(_) => Some(Remedy::Network(network)),
            network => (network.prefix_len() > ipv6_prefix).then(|| client(network.addr())),
        },
        _ => None,
    };
    let (kind, text) = ("address of a client", pattern.to_string());
    Some(UnmetPattern { text, kind, is_met_by_chance: false, remedy: remedy? })
}

/// Returns the IPv4 network of IPv6 addresses that all contain an IPv4 address, which is the client.
fn without_translation(network: IpNet) -> IpNet {
    match (client_network(network.addr(), 128).parse(), network.prefix_len().checked_sub(96)) {
        (Ok(IpAddr::V4(address)), Some(prefix)) if matches!(network, IpNet::V6(_)) => {
            IpNet::new(address.into(), prefix).unwrap_or(network)
        }
        _ => network,
    }
}

/// Returns a text as YAML reads it everywhere, in quotes if it needs them.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-*".contains(c);
    if text.chars().all(is_plain) && !text.starts_with(['*', '-', '.']) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}
