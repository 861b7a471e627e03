//! Settings of a Redis: its address, the prefix of its keys, and its slots.
//!
//! An address may hold a password, so it is never shown as it was given: neither in errors nor in logs.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, IntoConnectionInfo};
use tollgate_core::counter::DigestKey;
use tollgate_core::one_line::one_line;

/// Default prefix of all keys.
pub const PREFIX_DEFAULT: &str = "tollgate:";
/// Maximum time for which sent bytes may stay undelivered before the connection counts as broken.
#[cfg(target_os = "linux")]
const UNDELIVERED_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Settings of a Redis.
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisSettings {
    /// Address: `redis://[[user]:password@]host[:port][/db]`, or `unix:///path[?db=N&user=U&pass=P]`.
    pub url: String,
    /// Prefix of all keys, so that a Redis can be shared.
    pub prefix: String,
    /// Placement of the counters of one call.
    pub slots: HashSlots,
    /// Fingerprint of the digest key by which counters are named. One key holds the global rules of a region.
    pub key_fingerprint: u64,
}

/// Placement of the counters of one call on the servers behind an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashSlots {
    /// All counters are on one server: a call is one script, whatever its slots.
    #[default]
    Together,
    /// Each slot may be on a server of its own: a call is one script for each slot, and the others refund when one denies.
    Multi,
}

/// Reason why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisAddressError {
    /// The form of the address is not known.
    #[error("not the address of a Redis ({0}); write redis://[[user]:password@]host[:port][/db] or unix:///path")]
    Form(&'static str),
    /// A part of the address would be ignored.
    #[error("the address of a Redis has a part that is not read (`{0}`); {1}")]
    Unread(String, &'static str),
    /// The address asks for TLS, which is not built in.
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
    /// A Redis at this address, with the default prefix.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            prefix: PREFIX_DEFAULT.to_owned(),
            slots: HashSlots::default(),
            key_fingerprint: DigestKey::default().fingerprint(),
        }
    }

    /// Returns the same settings with another prefix of all keys.
    #[must_use]
    pub fn prefixed(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Returns the same settings with another placement of the counters of one call.
    #[must_use]
    pub fn with_slots(self, slots: HashSlots) -> Self {
        Self { slots, ..self }
    }

    /// Returns the same settings for counters that are named by this digest key.
    #[must_use]
    pub fn with_digest_key(self, key: &DigestKey) -> Self {
        Self { key_fingerprint: key.fingerprint(), ..self }
    }

    /// Checks the form of the address; nothing is connected.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn check(&self) -> Result<(), RedisAddressError> {
        self.client().map(drop)
    }

    /// Returns the address without user and password; none if it cannot be used.
    #[must_use]
    pub fn shown(&self) -> Option<String> {
        self.client().ok().map(|(_, shown)| shown)
    }

    /// A client that is not yet connected, and the address without the password.
    pub(crate) fn client(&self) -> Result<(Client, String), RedisAddressError> {
        let scheme = self.url.split("://").next().unwrap_or_default();
        if matches!(scheme, "rediss" | "valkeys") {
            return Err(RedisAddressError::Tls);
        }
        let url = redis::parse_redis_url(&self.url).ok_or(RedisAddressError::Form("it is not a URL"))?;
        let is_unix = url.scheme().contains("unix");
        let (read, remedy): (&[&str], _) = if is_unix {
            (&["db", "user", "pass"], "of a query, unix:///path?db=N&user=U&pass=P is read")
        } else {
            (&[], "write the database behind the port, as in redis://user:password@host:6379/3")
        };
        let unread = url.query_pairs().find(|(name, _)| !read.contains(&&**name));
        if let Some((name, _)) = unread {
            return Err(RedisAddressError::Unread(format!("?{}=", one_line(&name)), remedy));
        }
        // Such a user would be ignored, and may be the password.
        let has = |name: &str| url.query_pairs().any(|(given, value)| given == name && !value.is_empty());
        if !url.username().is_empty() && url.password().is_none_or(str::is_empty) {
            return Err(RedisAddressError::Unread(
                "a user without a password".to_owned(),
                "write redis://:password@host, or redis://user:password@host",
            ));
        }
        if is_unix && has("user") && !has("pass") {
            return Err(RedisAddressError::Unread(
                "?user= without &pass=".to_owned(),
                "write unix:///path?pass=password, or unix:///path?user=user&pass=password",
            ));
        }
        if url.fragment().is_some() {
            return Err(RedisAddressError::Unread("#".to_owned(), "write %23 for a # in user, password or path"));
        }
        // The library's error is left out, because it may quote the address.
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

    /// D7: a Unix socket is an address, too.
    #[test]
    fn addresses_are_shown_without_the_password() {
        assert_eq!(shown("redis://:secret@10.0.0.5"), Ok("redis://10.0.0.5:6379".to_owned()));
        assert_eq!(shown("redis://user:secret@host:7000/3"), Ok("redis://host:7000".to_owned()));
        assert_eq!(shown("unix:///run/redis.sock?pass=secret"), Ok("unix:///run/redis.sock".to_owned()));
        assert_eq!(shown("redis+unix:///run/redis.sock"), Ok("unix:///run/redis.sock".to_owned()));
        assert!(!format!("{:?}", RedisSettings::new("redis://:secret@h")).contains("secret"));
    }

    /// A database in a query went unread, and database 0 was used.
    #[test]
    fn a_part_of_an_address_is_read_or_refused() {
        for (url, part) in [
            ("redis://h?db=3", "`?db=`"),
            ("redis://:secret@h:7000/2?timeout=secret", "`?timeout=`"),
            ("redis://h/3#secret", "`#`"),
            ("unix:///run/redis.sock?pass=secret&database=3", "`?database=`"),
            ("redis://secret@h", "redis://:password@host"),
            ("redis://secret:@h:7000/3", "redis://:password@host"),
            ("unix:///run/redis.sock?user=secret", "unix:///path?pass=password"),
            ("unix:///run/redis.sock?user=secret&pass=", "unix:///path?pass=password"),
        ] {
            let error = shown(url).expect_err(url);
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
        for url in
            ["redis://h/3", "redis://user:password@host:6379/3", "unix:///path?db=3&user=U&pass=P", "redis://:a%23@h"]
        {
            let (client, _) = RedisSettings::new(url).client().expect(url);
            let expected = if url.ends_with("@h") { 0 } else { 3 };
            assert_eq!(client.get_connection_info().redis_settings().db(), expected, "{url}");
        }
    }

    #[test]
    fn an_unusable_address_is_refused_without_quoting_it() {
        let refused =
            ["", "10.0.0.5", "http://:secret@host", "redis://:secret@host/x", "redis://:secret@h:99999", "unix:"];
        for url in refused {
            let error = shown(url).expect_err(url);
            assert!(error.contains("not the address of a Redis") && !error.contains("secret"), "{error}");
        }
        assert!(shown("rediss://:secret@host").expect_err("TLS").contains("needs TLS"));
    }
}
