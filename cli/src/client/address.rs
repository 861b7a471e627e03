//! Addresses of the processes that are asked: `http://host:port`, `https://host:port` or `unix:PATH`.

use std::fmt;
use std::path::PathBuf;

use http::Uri;
use http::uri::Authority;
use tollgate_command::exit::Usage;
use tollgate_tls::TlsClient;

use super::tls_client_args::TlsClientArgs;

/// Kind of the process that is asked.
#[derive(Clone, Copy)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) flag: &'static str,
    pub(super) start: &'static str,
    /// Remedy if the address has other paths only: an agent with `--admin` has two addresses.
    pub(super) elsewhere: &'static str,
}

/// Socket of the process that is asked.
pub(super) enum Target {
    /// Host and port.
    Tcp(String),
    /// Host and port, over TLS.
    Tls(String, TlsClient),
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Tls(authority, _) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) const AGENT: Server =
    Server { name: "agent", flag: "--agent", start: "start an agent with `tollgate up`", elsewhere: "" };
pub(super) const AGGREGATOR: Server =
    Server { name: "aggregator", flag: "--aggregator", start: "start one with `tollgate aggregator`", elsewhere: "" };
pub(super) const EITHER: Server = Server {
    name: "agent or aggregator",
    flag: "--http",
    start: "start one with `tollgate agent` or `tollgate aggregator`",
    elsewhere: "",
};

/// Returns the target of `http://host:port` or `https://host:port`, whose scheme may be missing, or of `unix:PATH`.
pub(super) fn target(server: Server, address: &str, tls: &TlsClientArgs) -> Result<Target, Usage> {
    match address.strip_prefix("unix:") {
        Some("") => Err(Usage(format!("{} unix: the path is missing; write unix:/run/tollgate.sock", server.flag))),
        Some(path) => Ok(Target::Unix(path.into())),
        None => {
            let authority = authority(server, address, if tls.is_used() { "https" } else { "http" })?;
            Ok(match tls.load()? {
                Some(tls) => Target::Tls(authority, tls),
                None => Target::Tcp(authority),
            })
        }
    }
}

/// Returns host:port of a URL with this scheme, which may be missing.
fn authority(server: Server, address: &str, scheme: &str) -> Result<String, Usage> {
    let Server { name, flag, .. } = server;
    let example = if name == AGENT.name { "http://127.0.0.1:8080" } else { "http://127.0.0.1:8090" };
    // An address may hold a password.
    let shown = address.rsplit_once('@').map_or(address, |(_, host)| host);
    let wrong = |reason: &str| Usage(format!("{flag} {shown}: {reason}; write {example}"));
    let with_scheme = if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    let uri: Uri = with_scheme.parse().map_err(|_| wrong("this is no URL"))?;
    match uri.scheme_str() {
        Some(given) if given == scheme => {}
        Some("https") => return Err(wrong("TLS needs the issuers of the certificate; add --ca FILE")),
        Some("http") => return Err(wrong("--ca is for https")),
        _ => return Err(wrong(&format!("{name}s are asked over HTTP"))),
    }
    if !matches!(uri.path(), "" | "/") {
        return Err(wrong("a path is not expected"));
    }
    if uri.query().is_some() || with_scheme.contains('#') {
        return Err(wrong("nothing is expected behind host and port"));
    }
    let authority = uri.authority().map_or("", Authority::as_str);
    if authority.contains('@') {
        return Err(wrong("user and password are not sent"));
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("the host is missing"))?;
    let port = match authority.strip_prefix(host) {
        Some("") if scheme == "https" => 443,
        Some("") => 80,
        port => {
            let port = port.and_then(|port| port.strip_prefix(':')?.parse::<u16>().ok()).filter(|port| *port > 0);
            port.ok_or_else(|| wrong("the port is no number from 1 to 65535"))?
        }
    };
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_address_is_used_or_refused() {
        for (address, asked) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080/", "127.0.0.1:8080"),
            ("http://gw-1", "gw-1:80"),
            ("http://[::1]:8080/", "[::1]:8080"),
            ("[::1]", "[::1]:80"),
        ] {
            assert_eq!(authority(AGENT, address, "http").expect(address), asked);
        }
        for (address, reason) in [
            ("http://127.0.0.1:80800", "the port is no number from 1 to 65535"),
            ("127.0.0.1:0", "the port is no number"),
            ("http://gw-1:", "the port is no number"),
            ("http://user:secret@h:8080", "user and password are not sent"),
            ("http://secret@h", "user and password are not sent"),
            ("http://user:secret@h:8080/?x=1", "nothing is expected behind host and port"),
            ("http://h:8080?secret", "nothing is expected behind"),
            ("http://h:8080/#part", "nothing is expected behind"),
            ("https://user:secret@h:8080", "--ca FILE"),
            ("http://h:8080/check", "a path is not expected"),
            ("http://:8080", ""),
        ] {
            let Usage(said) = authority(AGENT, address, "http").expect_err(address);
            assert!(
                said.contains(reason) && said.contains("--agent") && said.contains("http://127.0.0.1:8080"),
                "{said}"
            );
            assert!(!said.contains("user:secret"), "{said}");
        }
    }
}
