//! Where a Redis is and what its keys are called.
//!
//! A password may stand in the address, so the address is never shown whole: neither in errors nor in logs.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, IntoConnectionInfo};

/// What the keys of counters begin with unless told otherwise.
pub const PREFIX_DEFAULT: &str = "tollgate:";
/// A connection on which nothing that was sent arrives for so long is broken.
#[cfg(target_os = "linux")]
const UNDELIVERED_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Where a Redis is and what its keys are called.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://[user[:password]@]host[:port][/db]`, or `unix:///path[?db=N&user=U&pass=P]`.
    pub url: String,
    /// What all keys begin with, so that a Redis can be shared.
    pub prefix: String,
    /// Whether the counters of a call are charged together.
    pub slots: Slots,
}

/// Whether all counters of a call are charged in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    /// A call is one step, whatever its slots: right for one server, which holds them all.
    #[default]
    Together,
    /// A call is a step for each of its slots, as they may lie on several servers: where one refuses, the others give back.
    Apart,
}

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisAddressError {
    /// It is not of a form that is known.
    #[error("not the address of a Redis ({0}); write redis://[user[:password]@]host[:port][/db] or unix:///path")]
    Form(&'static str),
    /// TLS is not built in.
    #[error(
        "a rediss:// address needs TLS, which this build does not have; write redis://, or use a TLS proxy beside it"
    )]
    Tls,
}

impl From<&str> for RedisSettings {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl RedisSettings {
    /// A Redis at this address, keys with the usual prefix.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), prefix: PREFIX_DEFAULT.to_owned(), slots: Slots::default() }
    }

    /// A client for it, which connects to nothing yet, and the address as it may be shown.
    pub(super) fn client(&self) -> Result<(Client, String), RedisAddressError> {
        let scheme = self.url.split("://").next().unwrap_or_default();
        if matches!(scheme, "rediss" | "valkeys") {
            return Err(RedisAddressError::Tls);
        }
        let url = redis::parse_redis_url(&self.url).ok_or(RedisAddressError::Form("it is not a URL"))?;
        // The library's own words are left out where they may quote the address.
        let info = url.into_connection_info().map_err(|_| RedisAddressError::Form("host, port or database"))?;
        let shown = match info.addr() {
            ConnectionAddr::Unix(path) => format!("unix://{}", path.display()),
            other => format!("redis://{other}"),
        };
        let tcp = TcpSettings::default().set_nodelay(true);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(UNDELIVERED_MAX);
        let client = Client::open(info.set_tcp_settings(tcp)).map_err(|_| RedisAddressError::Form("not supported"))?;
        Ok((client, shown))
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> Result<String, String> {
        RedisSettings::new(url).client().map(|(_, shown)| shown).map_err(|error| error.to_string())
    }

    /// D7: a Unix socket is an address like any other.
    #[test]
    fn addresses_are_shown_without_what_is_secret() {
        assert_eq!(shown("redis://:secret@10.0.0.5"), Ok("redis://10.0.0.5:6379".to_owned()));
        assert_eq!(shown("redis://user:secret@host:7000/3"), Ok("redis://host:7000".to_owned()));
        assert_eq!(shown("unix:///run/redis.sock?pass=secret"), Ok("unix:///run/redis.sock".to_owned()));
        assert_eq!(shown("redis+unix:///run/redis.sock"), Ok("unix:///run/redis.sock".to_owned()));
        assert!(!format!("{:?}", RedisSettings::new("redis://:secret@h")).contains("secret"));
    }

    #[test]
    fn what_cannot_be_an_address_is_refused_without_quoting_it() {
        let refused =
            ["", "10.0.0.5", "http://:secret@host", "redis://:secret@host/x", "redis://:secret@h:99999", "unix:"];
        for url in refused {
            let error = shown(url).expect_err(url);
            assert!(error.contains("not the address of a Redis") && !error.contains("secret"), "{error}");
        }
        assert!(shown("rediss://:secret@host").expect_err("TLS").contains("needs TLS"));
    }
}
