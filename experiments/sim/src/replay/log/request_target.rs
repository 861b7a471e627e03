//! Request of a call: `METHOD target protocol`, with any method and any form of the target.

use std::borrow::Cow;

use super::token::{is_absent, unescape};

/// Method in upper case, and path with query; the target of `CONNECT` has no path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::replay) struct RequestTarget<'a> {
    pub(in crate::replay) method: Option<Cow<'a, str>>,
    pub(in crate::replay) path: Option<Cow<'a, str>>,
}

impl<'a> RequestTarget<'a> {
    /// Reads the line of a request. A line that is none, as of a handshake on the wrong port, gives nothing.
    pub(in crate::replay) fn of_line(line: &'a str) -> Self {
        let Some((method, rest)) = line.trim().split_once(' ').filter(|(method, _)| is_method(method)) else {
            return Self::default();
        };
        // The target may contain spaces, as a server logs them.
        let rest = rest.trim();
        let target = match rest.rsplit_once(' ') {
            Some((target, protocol)) if is_protocol(protocol) => target,
            None if is_protocol(rest) => "",
            _ => rest,
        };
        Self::of_parts(Some(method), Some(target.trim()))
    }

    /// Reads a method and a target that are logged apart.
    pub(in crate::replay) fn of_parts(method: Option<&'a str>, target: Option<&'a str>) -> Self {
        let method = method.map(str::trim).filter(|method| is_method(method));
        let is_lower = |method: &str| method.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_connect = method.is_some_and(|method| method.eq_ignore_ascii_case("CONNECT"));
        let target = target.filter(|target| !is_absent(target) && !is_connect).map(path_of);
        Self {
            method: method
                .map(|method| if is_lower(method) { method.to_ascii_uppercase().into() } else { method.into() }),
            path: target.filter(|path| !path.is_empty()),
        }
    }

    pub(in crate::replay) fn into_owned(self) -> RequestTarget<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        RequestTarget { method: self.method.map(owned), path: self.path.map(owned) }
    }
}

/// Returns the path and query of a target, which may be an absolute URI.
fn path_of(target: &str) -> Cow<'_, str> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    };
    let path = match target.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => match rest.find(['/', '?', '#']) {
            Some(at) if rest[at..].starts_with('/') => &rest[at..],
            Some(at) => return Cow::Owned(format!("/{}", unescape(&rest[at..]))),
            None => "/",
        },
        _ => target,
    };
    unescape(path)
}

/// Returns true for a token of RFC 9110.
fn is_method(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !is_absent(text) && text.bytes().all(is_of_token)
}

fn is_protocol(text: &str) -> bool {
    let rest = text.strip_prefix("HTTP/").or_else(|| text.strip_prefix("http/"));
    rest.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_request_is_read() {
        for (line, method, path) in [
            ("GET /a?b=1 HTTP/1.1", Some("GET"), Some("/a?b=1")),
            ("GET http://example.com/login HTTP/1.1", Some("GET"), Some("/login")),
            ("GET https://example.com:443/a?u=http://x/y HTTP/2.0", Some("GET"), Some("/a?u=http://x/y")),
            ("GET /a?u=http://x/y HTTP/1.1", Some("GET"), Some("/a?u=http://x/y")),
            ("GET http://example.com HTTP/1.1", Some("GET"), Some("/")),
            ("GET http://example.com?q HTTP/1.1", Some("GET"), Some("/?q")),
            ("get /login HTTP/1.1", Some("GET"), Some("/login")),
            ("GET /a b c HTTP/1.1", Some("GET"), Some("/a b c")),
            ("GET /a", Some("GET"), Some("/a")),
            ("PROPFIND /dav HTTP/1.1", Some("PROPFIND"), Some("/dav")),
            ("M-SEARCH * HTTP/1.1", Some("M-SEARCH"), Some("*")),
            ("VERSION-CONTROL /a HTTP/1.1", Some("VERSION-CONTROL"), Some("/a")),
            ("CONNECT example.com:443 HTTP/1.1", Some("CONNECT"), None),
            ("PRI * HTTP/2.0", Some("PRI"), Some("*")),
            (r"GET /caf\xC3\xA9 HTTP/1.1", Some("GET"), Some("/café")),
            (r"\x16\x03\x01\x00 \xFC", None, None),
            ("-", None, None),
            ("", None, None),
            ("GET", None, None),
            ("- http://example.com:80- -", None, None),
        ] {
            let read = RequestTarget::of_line(line);
            assert_eq!((read.method.as_deref(), read.path.as_deref()), (method, path), "{line}");
        }
    }
}
