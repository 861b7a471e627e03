//! Names of the headers in which a proxy, or the client itself, writes the client's address. Servers log them under many names.

use super::log_call::AddressKind;

const LISTS: [&str; 3] = ["x_forwarded_for", "forwarded_for", "xff"];
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
    if is_one_of(&LISTS) {
        Some(AddressKind::Forwarded)
    } else {
        is_one_of(&HEADERS).then_some(AddressKind::Header)
    }
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
}
