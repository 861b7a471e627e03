//! Address to listen on: `HOST:PORT`, or `unix:` and the path of a socket.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Prefix of the path of a Unix socket.
const UNIX: &str = "unix:";

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Internet address with a port; port 0 is any free one.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Parses `HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// The remedy, if the text is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            if path.is_empty() {
                return Err("write the path of the socket, such as unix:/run/tollgate.sock".to_owned());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        found.map(Self::Tcp).ok_or_else(|| "write HOST:PORT, such as 127.0.0.1:8080, or unix:PATH".to_owned())
    }

    /// Returns true if only processes of this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Returns the internet address, if it is one.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        if let Self::Tcp(address) = self { Some(*address) } else { None }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// The form that [`Address::parse`] reads.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed_and_shown() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/tollgate.sock", "unix:relative"] {
            assert_eq!(Address::parse(text).expect(text).to_string(), text);
        }
        for text in ["8080", "unix:", "127.0.0.1", ""] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sockets_and_loopback_are_local() {
        for (text, expected) in [("127.0.0.1:1", true), ("[::1]:1", true), ("unix:/a", true), ("0.0.0.0:1", false)] {
            assert_eq!(Address::parse(text).expect(text).is_local(), expected, "{text}");
        }
    }
}
