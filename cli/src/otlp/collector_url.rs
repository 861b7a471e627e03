//! Address of a collector: `http://HOST:PORT`, and a path if its receiver has one.

use std::fmt;

use http::Uri;
use http::uri::Authority;

/// Address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectorUrl {
    /// Host and port.
    pub(super) authority: String,
    /// Path before those of the protocol, without a slash at its end.
    pub(super) path: String,
}

impl CollectorUrl {
    /// Parses an address. The port of OTLP over HTTP is 4318; without a port, it is that of HTTP, 80.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("{reason}; write http://HOST:PORT, such as http://127.0.0.1:4318");
        let uri: Uri = text.parse().map_err(|_| wrong("this is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("TLS is left to a collector beside this process")),
            _ => return Err(wrong("a collector is reached over HTTP")),
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("nothing is expected behind the path"));
        }
        let authority = uri.authority().map_or("", Authority::as_str);
        if authority.contains('@') {
            return Err("user and password are not sent; write http://HOST:PORT".to_owned());
        }
        let authority = match uri.authority().and_then(Authority::port_u16) {
            Some(1..) if uri.host().is_some_and(|host| !host.is_empty()) => authority.to_owned(),
            None if uri.host() == Some(authority) && !authority.is_empty() => format!("{authority}:80"),
            _ => return Err(wrong("the host is missing, or the port is no number from 1 to 65535")),
        };
        Ok(Self { authority, path: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_used_or_refused() {
        for (text, used) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("http://collector:4318/", "http://collector:4318"),
            ("http://[::1]:4318", "http://[::1]:4318"),
            ("http://gateway/otlp/", "http://gateway:80/otlp"),
        ] {
            assert_eq!(CollectorUrl::parse(text).map(|url| url.to_string()).as_deref(), Ok(used), "{text}");
        }
        for (text, reason) in [
            ("https://collector:4318", "TLS is left to"),
            ("127.0.0.1:4318", ""),
            ("collector", "over HTTP"),
            ("grpc://collector:4317", "over HTTP"),
            ("http://collector:", "no number from 1"),
            ("http://:4318", ""),
            ("http://collector:0", "no number from 1"),
            ("http://collector:80800", ""),
            ("http://collector:4318?x=1", "behind the path"),
            ("http://u:hunter2@collector:4318", "not sent"),
            ("", "no URL"),
        ] {
            let told = CollectorUrl::parse(text).expect_err(text);
            assert!(told.contains(reason) && told.contains("write http://HOST:PORT"), "{text}: {told}");
        }
    }
}
