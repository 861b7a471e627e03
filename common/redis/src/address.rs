//! Addresses of Redis: one server, several of which one is the primary, those that Sentinel watches, or a Unix socket.
//!
//! User and password extend to the last `@`, and are percent-decoded: so only a `%` must be escaped, and a `@` in a name of a host
//! cannot be written. An error never quotes them.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use tollgate_core::one_line::one_line;

const REDIS_PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// Address of a Redis.
#[derive(Clone)]
pub(crate) struct RedisAddress {
    pub(crate) servers: RedisServers,
    /// True if the servers speak TLS.
    pub(crate) is_tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

/// Servers behind an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisServers {
    /// Socket in the file system.
    Unix(PathBuf),
    /// Servers of which one is the primary.
    Primary(Vec<HostPort>),
    /// Sentinels, and the name by which they know the primary.
    Sentinels(Vec<HostPort>, String),
    /// Nodes of a cluster, by which the others are found.
    Cluster(Vec<HostPort>),
}

/// Kind of the servers that an address names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServersKind {
    Primary,
    Sentinels,
    Cluster,
}

/// Name or IP address of a host, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Reason why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisAddressError {
    /// The form of the address is not known.
    #[error(
        "not the address of a Redis ({0}); write redis://[[user]:password@]host[:port][,host][/db], rediss:// for TLS, redis+sentinel://host,host/NAME, redis+cluster://host,host, or redis+unix:///path"
    )]
    Form(&'static str),
    /// A part of the address would be ignored.
    #[error("the address of a Redis has a part that is not read (`{0}`); {1}")]
    Unread(String, &'static str),
    /// The address asks for TLS, which is not built in.
    #[error(
        "a rediss:// address needs TLS, which this build does not have; add the feature `redis-tls`, or write redis://"
    )]
    NoTls,
    /// Settings exclude each other, or one lacks another one.
    #[error("{0}")]
    Settings(&'static str),
    /// A file of the settings cannot be used.
    #[error("{0}")]
    File(String),
}

impl RedisAddress {
    /// Reads an address.
    pub(crate) fn parse(text: &str) -> Result<Self, RedisAddressError> {
        // A file or a secret may end with a line break.
        let (scheme, rest) = text.trim().split_once("://").ok_or(RedisAddressError::Form("it is not a URL"))?;
        match &*scheme.to_ascii_lowercase() {
            "unix" | "redis+unix" | "valkey+unix" => unix(rest),
            "redis" | "valkey" => servers(rest, false, ServersKind::Primary),
            "rediss" | "valkeys" => servers(rest, true, ServersKind::Primary),
            "redis+sentinel" => servers(rest, false, ServersKind::Sentinels),
            "rediss+sentinel" => servers(rest, true, ServersKind::Sentinels),
            "redis+cluster" => servers(rest, false, ServersKind::Cluster),
            "rediss+cluster" => servers(rest, true, ServersKind::Cluster),
            _ => Err(RedisAddressError::Form("the part before :// is not known")),
        }
    }
}

impl fmt::Display for RedisAddress {
    /// Writes the address without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.is_tls { "s" } else { "" };
        let joined = |hosts: &[HostPort]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match &self.servers {
            RedisServers::Unix(path) => write!(f, "unix://{}", path.display()),
            RedisServers::Primary(hosts) => write!(f, "redis{tls}://{}", joined(hosts)),
            RedisServers::Cluster(hosts) => write!(f, "redis{tls}+cluster://{}", joined(hosts)),
            RedisServers::Sentinels(hosts, name) => write!(f, "redis{tls}+sentinel://{}/{name}", joined(hosts)),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn decoded(text: &str) -> Result<String, RedisAddressError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| RedisAddressError::Form("a part is not UTF-8"))
}

/// `[[user]:password@]host[:port][,…][/db]`, or with the name of the primary before the database.
fn servers(rest: &str, is_tls: bool, kind: ServersKind) -> Result<RedisAddress, RedisAddressError> {
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    let (user, password) = login.map(user_and_password).transpose()?.unwrap_or_default();
    if let Some((_, query)) = rest.split_once('?') {
        let name = query.split('=').next().unwrap_or_default();
        let remedy = "write the database behind the port, as in redis://user:password@host:6379/3";
        return Err(RedisAddressError::Unread(format!("?{}=", one_line(name)), remedy));
    }
    if rest.contains('#') {
        return Err(RedisAddressError::Unread("#".to_owned(), "write no # after the last host"));
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    let by_sentinel = kind == ServersKind::Sentinels;
    let port = if by_sentinel { SENTINEL_PORT } else { REDIS_PORT };
    let hosts = hosts.split(',').map(|host| host_port(host, port)).collect::<Result<Vec<_>, _>>()?;
    let (name, database) = if by_sentinel { path.split_once('/').unwrap_or((path, "")) } else { ("", path) };
    let database = match database {
        "" => 0,
        number => number.parse().map_err(|_| RedisAddressError::Form("host, port or database"))?,
    };
    let servers = match (kind, decoded(name)?) {
        (ServersKind::Primary, _) => RedisServers::Primary(hosts),
        (ServersKind::Cluster, _) if database != 0 => {
            return Err(RedisAddressError::Form("a cluster has no database but 0"));
        }
        (ServersKind::Cluster, _) => RedisServers::Cluster(hosts),
        (ServersKind::Sentinels, name) if name.is_empty() => {
            return Err(RedisAddressError::Form("the name by which Sentinel knows the primary is missing"));
        }
        (ServersKind::Sentinels, name) => RedisServers::Sentinels(hosts, name),
    };
    Ok(RedisAddress { servers, is_tls, user, password, database })
}

fn user_and_password(login: &str) -> Result<(Option<String>, Option<String>), RedisAddressError> {
    // Such a user would be ignored, and may be the password.
    let (user, password) = login.split_once(':').filter(|(_, password)| !password.is_empty()).ok_or_else(|| {
        RedisAddressError::Unread(
            "a user without a password".to_owned(),
            "write redis://:password@host, or redis://user:password@host, or give the user without the address",
        )
    })?;
    Ok(((!user.is_empty()).then(|| decoded(user)).transpose()?, Some(decoded(password)?)))
}

fn host_port(text: &str, default: u16) -> Result<HostPort, RedisAddressError> {
    const FORM: RedisAddressError = RedisAddressError::Form("host, port or database");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(FORM)?;
            // A zone, as in fe80::1%eth0, is part of the address for the system.
            Ipv6Addr::from_str(host.split('%').next().unwrap_or_default()).map_err(|_| FORM)?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(FORM)?) };
            (host, port)
        }
        None if text.matches(':').count() > 1 => {
            return Err(RedisAddressError::Form("an IPv6 address needs brackets, as in redis://[::1]:6379"));
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |c: char| !c.is_whitespace() && !c.is_control() && !"[]@?#\\".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(FORM);
    }
    let port = port
        .filter(|port| !port.is_empty())
        .map_or(Some(default), |port| port.parse().ok().filter(|port| *port > 0))
        .ok_or(FORM)?;
    Ok(HostPort { host: host.to_owned(), port })
}

/// `/path[?db=N&user=U&pass=P]`.
fn unix(rest: &str) -> Result<RedisAddress, RedisAddressError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if path.contains('#') || query.contains('#') {
        return Err(RedisAddressError::Unread("#".to_owned(), "write %23 for a # in user, password or path"));
    }
    if !path.starts_with('/') {
        return Err(RedisAddressError::Form("the path of a Unix socket begins with /, as in unix:///run/redis.sock"));
    }
    let servers = RedisServers::Unix(decoded(path)?.into());
    let mut address = RedisAddress { servers, is_tls: false, user: None, password: None, database: 0 };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = Some(decoded(value)?).filter(|value| !value.is_empty());
        match name {
            "db" => {
                let number = value.and_then(|value| value.parse().ok());
                address.database = number.ok_or(RedisAddressError::Form("database"))?;
            }
            "user" => address.user = value,
            "pass" => address.password = value,
            // A part after the password may belong to it.
            _ if address.password.is_some() => {
                let remedy = "of a query, unix:///path?db=N&user=U&pass=P is read; write %26 for a & in the password";
                return Err(RedisAddressError::Unread("a part behind the password".to_owned(), remedy));
            }
            name => {
                let remedy = "of a query, unix:///path?db=N&user=U&pass=P is read";
                return Err(RedisAddressError::Unread(format!("?{}=", one_line(name)), remedy));
            }
        }
    }
    if address.user.is_some() && address.password.is_none() {
        return Err(RedisAddressError::Unread(
            "?user= without &pass=".to_owned(),
            "write unix:///path?pass=password, or unix:///path?user=user&pass=password",
        ));
    }
    Ok(address)
}

#[cfg(test)]
mod tests;
