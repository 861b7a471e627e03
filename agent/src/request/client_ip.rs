//! Client address behind proxies.
//!
//! Each proxy appends the address of its peer to `X-Forwarded-For`. With n trusted hops, the n-th entry from the right
//! was written by a trusted proxy; all entries to its left can be forged by the client. An IPv6 client usually controls
//! a whole network, so its address is truncated to a prefix.

use std::net::IpAddr;

use http::HeaderMap;
use tollgate_core::client_network::client_network;

/// Returns the client's address as a descriptor value, such as `10.0.0.1` or `2001:db8::/64`.
#[must_use]
pub fn client_ip(peer: Option<IpAddr>, headers: &HeaderMap, trusted_hops: u8, ipv6_prefix: u8) -> Option<String> {
    let address = if trusted_hops == 0 {
        peer
    } else {
        // Read from the right and as bytes, so that a client's invalid entries cannot hide those of the proxies.
        let forwarded = headers.get_all("x-forwarded-for").iter().rev();
        let hops = forwarded.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
        // With fewer entries than trusted proxies, the request bypassed some of them; its first entry was written by a
        // proxy.
        hops.take(usize::from(trusted_hops)).last().and_then(parse).or(peer)
    };
    address.map(|address| client_network(address, ipv6_prefix))
}

/// Parses `1.2.3.4`, `1.2.3.4:5678`, `2001:db8::1` or `[2001:db8::1]:5678`.
fn parse(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    let bare = hop.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or(hop);
    bare.parse().ok().or_else(|| bare.rsplit_once(':').and_then(|(address, _)| address.parse().ok()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn ip(forwarded: &[&str], hops: u8) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        client_ip(Some([192, 0, 2, 1].into()), &headers, hops, 64)
    }

    /// K5: a client cannot choose its own address.
    #[test]
    fn only_entries_of_trusted_hops_are_used() {
        assert_eq!(ip(&["1.1.1.1, 2.2.2.2"], 0).unwrap(), "192.0.2.1");
        assert_eq!(ip(&["1.1.1.1, 2.2.2.2"], 1).unwrap(), "2.2.2.2");
        assert_eq!(ip(&["1.1.1.1", "2.2.2.2, 3.3.3.3:80"], 2).unwrap(), "2.2.2.2");
        assert_eq!(ip(&["1.1.1.1"], 2).unwrap(), "1.1.1.1");
        assert_eq!(ip(&["nonsense"], 1).unwrap(), "192.0.2.1");
        assert_eq!(ip(&[], 1).unwrap(), "192.0.2.1");
    }

    /// Regression: bytes other than ASCII made the whole header line invisible, so that a client could choose its
    /// address by an earlier line.
    #[test]
    fn invalid_bytes_do_not_hide_other_entries() {
        assert_eq!(ip(&["6.6.6.6", "é, 2.2.2.2"], 1).unwrap(), "2.2.2.2");
        assert_eq!(ip(&["6.6.6.6, é"], 1).unwrap(), "192.0.2.1", "the peer address is used");
        assert_eq!(ip(&["6.6.6.6", "", "2.2.2.2"], 2).unwrap(), "192.0.2.1");
    }

    /// K5: a prefix of any length.
    #[test]
    fn an_ipv6_network_is_one_client() {
        assert_eq!(ip(&["[2001:db8:1:2:3::9]:443"], 1).unwrap(), "2001:db8:1:2::/64");
        assert_eq!(ip(&["2001:db8:1:2:ffff::1"], 1).unwrap(), "2001:db8:1:2::/64");
        assert_eq!(ip(&["::ffff:10.0.0.9"], 1).unwrap(), "10.0.0.9");
        assert_eq!(ip(&["64:ff9b::10.0.0.9"], 1).unwrap(), "10.0.0.9");
        assert_eq!(ip(&["64:ff9b:1::10.0.0.9"], 1).unwrap(), "64:ff9b:1::/64", "a prefix of its own is a network");
        // A client may write any IPv4 address into a 6to4 or a Teredo address.
        assert_eq!(ip(&["2002:a00:9::1"], 1).unwrap(), "2002:a00:9::/64");
        assert_eq!(ip(&["2001:0:a00:9::f5ff:fff6"], 1).unwrap(), "2001:0:a00:9::/64");
        let cut = |prefix| client_ip("2001:db8:1:2:3:4:5:6".parse().ok(), &HeaderMap::new(), 0, prefix).unwrap();
        assert_eq!([cut(1), cut(48), cut(56)], ["::/1", "2001:db8:1::/48", "2001:db8:1::/56"]);
        assert_eq!([cut(127), cut(128)], ["2001:db8:1:2:3:4:5:6/127", "2001:db8:1:2:3:4:5:6"]);
    }
}
