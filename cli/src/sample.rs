//! A sample call: a curl line that the rules in force limit, and that shows no secret of the rules file.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tollgate::{Rule, RuleSet, request};
use tollgate_core::rules::{DescriptorSource, Pattern};
use tollgate_listen::Address;

use crate::surfaces::Addresses;

/// Value of a descriptor that may have any value.
const VALUE_DEFAULT: &str = "k1";

/// Returns a curl line for an agent at these addresses; plain `/check` when every rule names a secret.
pub(crate) fn curl(rules: &RuleSet, addresses: &Addresses) -> String {
    let address = &addresses.http;
    let url = match address {
        Address::Tcp(tcp) => format!("{}://{}/check", addresses.scheme, reachable(*tcp)),
        Address::Unix(path) => format!("--unix-socket {} http://localhost/check", quoted(&path.display().to_string())),
    };
    let Some(rule) = rules.rules.iter().find(|rule| !names_secret(rules, rule)) else {
        return format!("curl -i {url}");
    };
    match headers(rules, rule, address) {
        Some(headers) => {
            let flags = headers.iter().map(|(name, value)| format!(" -H {}", quoted(&format!("{name}: {value}"))));
            format!("curl -i {url}{}", flags.collect::<String>())
        }
        None => format!("curl -i {url} -d {}", quoted(&body(rule).to_string())),
    }
}

/// Returns true if a call matches the rule only with a secret value from the rules file.
fn names_secret(rules: &RuleSet, rule: &Rule) -> bool {
    rule.matches.iter().any(|(name, pattern)| matches!(pattern, Pattern::Exact(_)) && rules.is_secret(name))
}

/// Returns the headers with which a `GET /check` matches the rule, if headers suffice.
fn headers<'a>(rules: &'a RuleSet, rule: &'a Rule, address: &Address) -> Option<Vec<(&'a str, String)>> {
    let header = |name: &str| match &rules.descriptors.iter().find(|spec| *spec.name == *name)?.source {
        DescriptorSource::Header(header) => Some((&**header, value(rule, name))),
        _ => None,
    };
    let headers: Vec<_> = names(rule).filter_map(header).collect();
    let mut map = HeaderMap::new();
    for (name, value) in &headers {
        map.insert(HeaderName::try_from(*name).ok()?, HeaderValue::try_from(value).ok()?);
    }
    let request =
        request::Request { method: "GET", path: "/check", peer: address.tcp().map(|tcp| tcp.ip()), headers: &map };
    rule.applies_to(&rules.resolved(&request::describe(rules, &request, || None))).then_some(headers)
}

/// Returns the body with which a `POST /check` matches the rule.
fn body(rule: &Rule) -> Value {
    let descriptors: Map<String, Value> = names(rule).map(|name| (name.to_owned(), value(rule, name).into())).collect();
    json!({ "descriptors": descriptors })
}

/// Returns the descriptors that the rule needs, each once.
fn names(rule: &Rule) -> impl Iterator<Item = &str> {
    let matched = rule.matches.iter().map(|(name, _)| name).filter(|name| !rule.per.contains(name));
    rule.per.iter().chain(matched).map(|name| &**name)
}

fn value(rule: &Rule, name: &str) -> String {
    match rule.matches.iter().find(|(matched, _)| **matched == *name) {
        Some((_, Pattern::Exact(text) | Pattern::Prefix(text))) if !text.is_empty() => text.to_string(),
        _ if name == "endpoint" => "/".to_owned(),
        _ => VALUE_DEFAULT.to_owned(),
    }
}

/// Returns an address to connect to. A server that listens everywhere listens on loopback, too.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let v4 = address.is_ipv4();
        address.set_ip(if v4 { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

/// Quotes a text for a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(yaml: &str) -> String {
        let http = SocketAddr::from(([0, 0, 0, 0], 8080)).into();
        let addresses = Addresses { http, grpc: None, admin: None, scheme: "http" };
        curl(&tollgate_rules::from_yaml("rules.yaml", yaml, 1).unwrap(), &addresses)
    }

    #[test]
    fn the_sample_matches_the_first_rule() {
        for (rules, expected) in [
            ("{ name: a, per: [api_key], quota: 1/s }", "-H 'x-api-key: k1'"),
            ("{ name: a, per: [api_key], match: { api_key: it's* }, quota: 1/s }", r"-H 'x-api-key: it'\''s'"),
            ("{ name: a, per: [ip], quota: 1/s }", ""),
            ("{ name: a, per: [], quota: 1/s }", ""),
            ("{ name: a, per: [tenant], quota: 1/s }", r#"-d '{"descriptors":{"tenant":"k1"}}'"#),
            (
                "{ name: a, per: [api_key], match: { endpoint: /search* }, quota: 1/s }",
                r#"-d '{"descriptors":{"api_key":"k1","endpoint":"/search"}}'"#,
            ),
        ] {
            let expected = format!("curl -i http://127.0.0.1:8080/check {expected}");
            assert_eq!(line(&format!("rules: [{rules}]")), expected.trim_end());
        }
        let plain = "curl -i http://127.0.0.1:8080/check";
        assert_eq!(line("rules: []"), plain);
    }

    /// The sample printed at start once contained the key of a rule for a single caller.
    #[test]
    fn a_secret_of_the_rules_file_is_not_shown() {
        let own = "{ name: own, per: [api_key], match: { api_key: sk_live_123 }, quota: 1/s }";
        let all = "{ name: all, per: [api_key], quota: 1/s }";
        assert_eq!(line(&format!("rules: [{own}]")), "curl -i http://127.0.0.1:8080/check");
        assert!(line(&format!("rules: [{own}, {all}]")).ends_with("-H 'x-api-key: k1'"));
        let public = "descriptors: { api_key: { header: x-api-key, public: true } }";
        assert!(line(&format!("{public}\nrules: [{own}]")).ends_with("-H 'x-api-key: sk_live_123'"));
    }
}
