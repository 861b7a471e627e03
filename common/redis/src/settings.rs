//! Settings of a Redis: its address, the access to it, the prefix of its keys, and its slots.
//!
//! An address may hold a password, so it is never shown as it was given: neither in errors nor in logs.

use std::fmt;
use std::time::Duration;

use tollgate_core::counter::DigestKey;

use crate::access::{RedisCredentials, RedisTlsFiles};
use crate::address::{RedisAddress, RedisAddressError, RedisServers};

/// Default prefix of all keys.
pub const PREFIX_DEFAULT: &str = "tollgate:";
/// Default of the maximum duration of an attempt to connect.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);

/// Settings of a Redis.
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisSettings {
    /// Address: `redis://[[user]:password@]host[:port][,host…][/db]`, `rediss://…` for TLS,
    /// `redis+sentinel://host[:port][,host…]/NAME[/db]`, `redis+cluster://host[:port][,host…]`, or `unix:///path[?db=N&user=U&pass=P]`.
    pub url: String,
    /// User and password, unless the address has them.
    pub credentials: RedisCredentials,
    /// User and password of the Sentinels.
    pub sentinel_credentials: RedisCredentials,
    /// Files of TLS.
    pub tls: RedisTlsFiles,
    /// Maximum duration of an attempt to connect.
    pub connect_timeout: Duration,
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
            credentials: RedisCredentials::default(),
            sentinel_credentials: RedisCredentials::default(),
            tls: RedisTlsFiles::default(),
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
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

    /// Returns the same settings with user and password.
    #[must_use]
    pub fn with_credentials(self, credentials: RedisCredentials) -> Self {
        Self { credentials, ..self }
    }

    /// Returns the same settings with user and password of the Sentinels.
    #[must_use]
    pub fn with_sentinel_credentials(self, sentinel_credentials: RedisCredentials) -> Self {
        Self { sentinel_credentials, ..self }
    }

    /// Returns the same settings with files of TLS.
    #[must_use]
    pub fn with_tls(self, tls: RedisTlsFiles) -> Self {
        Self { tls, ..self }
    }

    /// Returns the same settings with another maximum duration of an attempt to connect.
    #[must_use]
    pub fn with_connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// Returns true if the address is that of a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.access().is_ok_and(|access| matches!(access.address.servers, RedisServers::Cluster(_)))
    }

    /// Checks the form of the address, and that no setting excludes another one.
    ///
    /// # Errors
    /// If the address cannot be used, or settings exclude each other.
    pub fn check_form(&self) -> Result<(), RedisAddressError> {
        self.access().map(drop)
    }

    /// Checks the form of the address, and that the files can be used; nothing is connected.
    ///
    /// # Errors
    /// If the address or a file cannot be used, or settings exclude each other.
    pub fn check(&self) -> Result<(), RedisAddressError> {
        self.checked_access().map(drop)
    }

    /// Returns the address that was read, and the access to its servers, after it has read the files once.
    pub(crate) fn checked_access(&self) -> Result<RedisAccess, RedisAddressError> {
        let access = self.access()?;
        access.credentials.login(access.address.database).map_err(RedisAddressError::File)?;
        access.sentinel_credentials.login(0).map_err(RedisAddressError::File)?;
        if access.address.is_tls {
            #[cfg(feature = "tls")]
            access.tls.load().map_err(RedisAddressError::File)?;
        }
        Ok(access)
    }

    /// Returns the address without user and password; none if it cannot be used.
    #[must_use]
    pub fn shown(&self) -> Option<String> {
        self.access().ok().map(|access| access.address.to_string())
    }

    /// Returns the address that was read, and the access to its servers.
    pub(crate) fn access(&self) -> Result<RedisAccess, RedisAddressError> {
        let mut address = RedisAddress::parse(&self.url)?;
        let (user, password) = (address.user.take(), address.password.take());
        let refuse = |why| Err(RedisAddressError::Settings(why));
        let mut credentials = self.credentials.clone();
        if credentials.password.is_some() && credentials.password_file.is_some()
            || password.is_some() && (credentials.password.is_some() || credentials.password_file.is_some())
        {
            return refuse(
                "the password of Redis is given twice; put it into the address, into the variable, or into the file",
            );
        }
        if user.is_some() && credentials.user.is_some() {
            return refuse("the user of Redis is given twice; leave it out of the address");
        }
        let password_from = match (&password, &credentials) {
            (Some(_), _) => Some("the address of --redis".to_owned()),
            (_, RedisCredentials { password: Some(_), .. }) => Some("--redis-password".to_owned()),
            (_, RedisCredentials { password_file: Some(path), .. }) => Some(path.display().to_string()),
            _ => None,
        };
        credentials.user = user.or(credentials.user);
        credentials.password = password.or(credentials.password);
        if credentials.user.is_some() && credentials.password.is_none() && credentials.password_file.is_none() {
            return refuse("the user of Redis has no password; put it into the variable or the file");
        }
        if self.tls.is_used() && !address.is_tls {
            return refuse(
                "certificates of Redis are given, but its address is without TLS; write rediss:// or rediss+sentinel://",
            );
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            return refuse("the certificate for Redis and its key belong together; give both files");
        }
        let of_sentinels = &self.sentinel_credentials;
        let has_password = of_sentinels.password.is_some() || of_sentinels.password_file.is_some();
        if of_sentinels.user.is_some() && !has_password {
            return refuse("the user of the Sentinels has no password; give its file");
        }
        if has_password && !matches!(address.servers, RedisServers::Sentinels(..)) {
            return refuse(
                "a password of Sentinels is given, but the address has none; write redis+sentinel://host,host/NAME",
            );
        }
        if matches!(address.servers, RedisServers::Cluster(_)) && self.slots == HashSlots::Multi {
            return refuse(
                "--redis-slots multi is for several servers behind one address; leave it out, or name a proxy in place of the cluster",
            );
        }
        if matches!(address.servers, RedisServers::Cluster(_)) && self.prefix.contains('{') {
            return refuse(
                "the prefix of keys has a `{`, which a cluster would take for a hash tag; write another --redis-prefix",
            );
        }
        if address.is_tls && cfg!(not(feature = "tls")) {
            return Err(RedisAddressError::NoTls);
        }
        Ok(RedisAccess {
            address,
            credentials,
            sentinel_credentials: self.sentinel_credentials.clone(),
            tls: self.tls.clone(),
            connect_timeout: self.connect_timeout,
            password_from,
        })
    }
}

/// Address that was read, with the access to its servers.
pub(crate) struct RedisAccess {
    pub(crate) address: RedisAddress,
    pub(crate) credentials: RedisCredentials,
    pub(crate) sentinel_credentials: RedisCredentials,
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "read for TLS only"))]
    pub(crate) tls: RedisTlsFiles,
    pub(crate) connect_timeout: Duration,
    /// Place from which the password came.
    pub(crate) password_from: Option<String>,
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_never_show_the_password() {
        let settings = RedisSettings::new("redis://:secret@h");
        let file = RedisCredentials { password: Some("secret".to_owned()), ..RedisCredentials::default() };
        assert!(!format!("{settings:?} {file:?}").contains("secret"));
        assert_eq!(settings.shown().as_deref(), Some("redis://h:6379"));
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let file = |user: Option<&str>| RedisCredentials {
            user: user.map(str::to_owned),
            password: None,
            password_file: Some("/dev/null".into()),
        };
        let tls = RedisTlsFiles { cert: Some("/dev/null".into()), ..RedisTlsFiles::default() };
        let of = RedisSettings::new;
        for (settings, part) in [
            (of("redis://:a@h").with_credentials(file(None)), "password of Redis is given twice"),
            (
                of("redis://u:a@h").with_credentials(RedisCredentials { user: Some("v".into()), ..Default::default() }),
                "user of Redis is given twice",
            ),
            (
                of("redis://h").with_credentials(RedisCredentials { user: Some("v".into()), ..Default::default() }),
                "has no password",
            ),
            (of("redis://h").with_tls(tls.clone()), "without TLS"),
            (of("redis://h").with_sentinel_credentials(file(None)), "redis+sentinel://"),
        ] {
            assert!(settings.check().is_err_and(|error| error.to_string().contains(part)), "{part}");
        }
        if cfg!(feature = "tls") {
            assert!(
                of("rediss://h")
                    .with_tls(tls)
                    .check()
                    .is_err_and(|error| error.to_string().contains("give both files"))
            );
        } else {
            assert_eq!(of("rediss://h").check(), Err(RedisAddressError::NoTls));
        }
        let pipe = of("redis://h").with_credentials(file(Some("u"))).check();
        assert!(pipe.is_err_and(|error| error.to_string().contains("/dev/null: this is no regular file")));
    }
}
