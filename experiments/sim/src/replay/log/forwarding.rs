//! Names of the headers in which a proxy, or the client itself, writes the client's address. Servers log them under many names.

use std::borrow::Cow;

use super::log_call::AddressKind;

const LISTS: [&str; 4] = ["x_forwarded_for", "forwarded_for", "xff", "forwarded"];
const HEADERS: [&str; 13] = [
    "x_real_ip",
    "x_client_ip",
    "x_cluster_client_ip",
    "x_original_forwarded_for",
    "x_envoy_external_address",
    "x_azure_clientip",
    "cf_connecting_ip",
    "cf_connecting_ipv6",
    "true_client_ip",
    "fastly_client_ip",
    "fly_client_ip",
    "do_connecting_ip",
    "proxy_protocol_addr",
];
/// Texts that nginx, Traefik and others put before the name of a header.
const PREFIXES: [&str; 3] = ["http_", "request_", "req_"];

/// Returns the meaning of a field by its name, such as `http_x_forwarded_for`, `request_X-Forwarded-For` or `cs(X-Forwarded-For)`.
pub(super) fn kind_of(name: &str) -> Option<AddressKind> {
    let name = name.strip_prefix("cs(").and_then(|name| name.strip_suffix(')')).unwrap_or(name);
    let header = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let is_one_of = |known: &[&str]| known.iter().any(|known| is_same(header, known));
    if is_one_of(&LISTS) { Some(AddressKind::Forwarded) } else { is_one_of(&HEADERS).then_some(AddressKind::Header) }
}

/// Returns the list of addresses in the text of a header. That of `Forwarded` (RFC 7239) is like `for=203.0.113.7;proto=https`.
pub(super) fn addresses(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains('=') {
        return text;
    }
    let parts = text.split([',', ';']).filter_map(|part| part.trim().split_once('='));
    let clients =
        parts.filter(|(name, _)| name.eq_ignore_ascii_case("for")).map(|(_, client)| client.trim_matches('"'));
    Cow::Owned(clients.collect::<Vec<_>>().join(", "))
}

fn is_same(header: &str, known: &str) -> bool {
    let plain = header.bytes().map(|byte| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() });
    header.len() == known.len() && plain.eq(known.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_known_under_the_names_that_servers_give_it() {
        use AddressKind::{Forwarded, Header};
        for (name, expected) in [
            ("http_x_forwarded_for", Some(Forwarded)),
            ("X-Forwarded-For", Some(Forwarded)),
            ("request_X-Forwarded-For", Some(Forwarded)),
            ("cs(X-Forwarded-For)", Some(Forwarded)),
            ("xff", Some(Forwarded)),
            ("http_forwarded", Some(Forwarded)),
            ("http_cf_connecting_ip", Some(Header)),
            ("Cf-Connecting-Ip", Some(Header)),
            ("x_real_ip", Some(Header)),
            ("remote_addr", None),
            ("x_forwarded_proto", None),
            ("http_", None),
        ] {
            assert_eq!(kind_of(name), expected, "{name}");
        }
    }

    #[test]
    fn the_clients_of_rfc_7239_are_a_list() {
        for (text, expected) in [
            ("203.0.113.7, 10.0.0.3", "203.0.113.7, 10.0.0.3"),
            ("for=203.0.113.7;proto=https;by=10.0.0.9, For=\"[2001:db8::1]:443\"", "203.0.113.7, [2001:db8::1]:443"),
            ("proto=https", ""),
        ] {
            assert_eq!(addresses(text.into()), expected);
        }
    }
}
