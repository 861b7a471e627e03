//! Address of a client as logs write it: with a port, in brackets, or with a zone.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use tollgate_core::client_network::client_network;

/// Client of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::replay) enum LoggedClient {
    Ip(IpAddr),
    /// Name of a host, of a server that looks up names.
    Host(String),
}

impl LoggedClient {
    /// Returns the value of a descriptor: the address, the network of an IPv6 address, or the name of the host.
    pub(in crate::replay) fn value(&self, ipv6_prefix: u8) -> String {
        match self {
            Self::Ip(ip) => client_network(*ip, ipv6_prefix),
            Self::Host(name) => name.clone(),
        }
    }

    pub(in crate::replay) fn is_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }
}

impl fmt::Display for LoggedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Host(name) => name.fmt(f),
        }
    }
}

/// Parses `1.2.3.4`, `1.2.3.4:5678`, `2001:db8::1`, `[2001:db8::1]:5678` or `fe80::1%eth0`.
pub(in crate::replay) fn ip(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let text = text.strip_prefix("ipv4:").or_else(|| text.strip_prefix("ipv6:")).unwrap_or(text);
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
            without_zone(address).parse::<Ipv6Addr>().ok().filter(|_| is_port)?.into()
        }
        None => without_zone(text).parse().ok().or_else(|| of_ipv4_and_port(text))?,
    };
    Some(address.to_canonical())
}

/// Parses a list as in `X-Forwarded-For`: addresses between commas, of which some may be `unknown`. Nothing if one is something else,
/// or none is an address.
pub(in crate::replay) fn ip_list(text: &str) -> Option<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty() && !is_unknown(part)) {
        addresses.push(ip(part)?);
    }
    (!addresses.is_empty()).then_some(addresses)
}

/// Returns true for the texts that stand for an address that the server does not know.
pub(in crate::replay) fn is_unknown(text: &str) -> bool {
    matches!(text.trim(), "" | "-" | "unknown" | "null" | "none" | "None" | "(null)")
}

/// Returns true for a name with a dot that can be that of a host, and for `localhost`.
pub(in crate::replay) fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_name = text.contains('.') && text.split('.').all(is_label);
    text == "localhost" || is_name && last.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns true for an address that only a private network, a carrier or the machine itself uses, as a balancer does.
pub(in crate::replay) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let is_of_carrier = a == 100 && b & 0xc0 == 64;
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || is_of_carrier
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

pub(super) fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn of_ipv4_and_port(text: &str) -> Option<IpAddr> {
    let (address, port) = text.rsplit_once(':')?;
    address.parse().ok().filter(|address: &IpAddr| address.is_ipv4() && is_port(port))
}

fn without_zone(address: &str) -> &str {
    address.split_once('%').map_or(address, |(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_without_its_port_brackets_and_zone() {
        for (text, expected) in [
            ("203.0.113.7", Some("203.0.113.7")),
            ("203.0.113.7:50000", Some("203.0.113.7")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("::ffff:203.0.113.7", Some("203.0.113.7")),
            ("[::ffff:203.0.113.7]:80", Some("203.0.113.7")),
            ("203.0.113.7:", None),
            ("203.0.113.7:x", None),
            ("203.0.113", None),
            ("203.0.113.256", None),
            ("[203.0.113.7]", None),
            ("[2001:db8::1", None),
            ("example.com:443", None),
            ("unix:", None),
            ("-", None),
        ] {
            assert_eq!(ip(text), expected.map(|text| text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_list_has_addresses_only() {
        for (text, expected) in [
            ("203.0.113.7, 10.0.0.1", Some(2)),
            ("unknown, 203.0.113.7", Some(1)),
            ("203.0.113.7:80,[2001:db8::1]:80", Some(2)),
            ("unknown", None),
            ("203.0.113.7, evil", None),
            ("", None),
        ] {
            assert_eq!(ip_list(text).map(|list| list.len()), expected, "{text}");
        }
    }

    #[test]
    fn a_name_of_a_host_has_a_dot_and_no_port() {
        for (text, expected) in [
            ("in24.inetnebr.com", true),
            ("ip-10-0-0-1.eu-central-1.compute.internal", true),
            ("web1", false),
            ("example.com:443", false),
            ("access.log:203.0.113.7", false),
            ("203.0.113", false),
            ("a..b", false),
        ] {
            assert_eq!(is_host(text), expected, "{text}");
        }
    }
}
