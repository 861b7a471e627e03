//! Other end of a connection.

use std::net::{IpAddr, SocketAddr};

/// Other end of a connection. Handlers get it as `ConnectInfo<Peer>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process with this internet address.
    Tcp(SocketAddr),
    /// A process that opened the Unix socket.
    Unix,
}

impl Peer {
    /// Returns the internet address.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        if let Self::Tcp(address) = self { Some(address.ip()) } else { None }
    }

    /// Returns true if the process runs on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.ip().is_none_or(|ip| ip.to_canonical().is_loopback())
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_unix_sockets_are_of_this_machine() {
        assert!(Peer::Unix.is_local());
        for (ip, expected) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.7", false),
            ("::ffff:10.0.0.7", false),
            ("0.0.0.0", false),
        ] {
            let peer = Peer::from(SocketAddr::new(ip.parse().expect("an address"), 1));
            assert_eq!(peer.is_local(), expected, "{ip}");
        }
    }
}
