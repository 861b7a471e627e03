//! The client behind an address: an IPv4 address, or a network of IPv6 addresses, of which a client usually has all.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the IPv4 address that an IPv6 address of a translator contains: a mapped one, or one of the well-known prefix
/// `64:ff9b::/96` (RFC 6052). 6to4 and Teredo addresses stay: a client may write any IPv4 address into its own.
fn without_translation(address: IpAddr) -> IpAddr {
    const TRANSLATED: u128 = 0x64_ff9b << 96;
    match address.to_canonical() {
        IpAddr::V6(address) if address.to_bits() & !u128::from(u32::MAX) == TRANSLATED => {
            let [.., a, b, c, d] = address.octets();
            [a, b, c, d].into()
        }
        address => address,
    }
}

/// Returns the client of an address as the value of a descriptor: `10.0.0.1`, or the network `2001:db8::/64` of an IPv6 address.
#[must_use]
pub fn client_network(address: IpAddr, ipv6_prefix: u8) -> String {
    match without_translation(address) {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) if ipv6_prefix >= 128 => address.to_string(),
        IpAddr::V6(address) => {
            let mask = !(u128::MAX >> ipv6_prefix);
            format!("{}/{ipv6_prefix}", Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}
