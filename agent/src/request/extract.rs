//! Extraction of values from headers, the query and cookies.
//!
//! A header or parameter that occurs several times must have one value ([`super::SEVERAL`]). Browsers do send several
//! cookies of one name, for different paths, the most specific first (RFC 6265, 5.4), and nginx, Go, PHP and Express
//! read the first; so the first one is used, but as an unverified value.

use http::HeaderMap;
use http::header::COOKIE;

use super::raw_value::{RawValue, text, unescaped};

pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<RawValue<'a>> {
    RawValue::agreed(headers.get_all(name).iter().map(|value| text(value.as_bytes())))
}

/// Returns the value of a parameter in the query of `/path?query`.
pub(super) fn query<'a>(path: &'a str, name: &str) -> Option<RawValue<'a>> {
    let (_, query) = path.split('#').next()?.split_once('?')?;
    RawValue::agreed(query.split('&').filter_map(|parameter| {
        let (known, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (unescaped(known.as_bytes(), true) == name).then(|| unescaped(value.as_bytes(), true))
    }))
}

pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<RawValue<'a>> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    RawValue::first(pairs.filter_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (known, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
        (known == name.as_bytes()).then(|| unescaped(bare, false))
    }))
}

#[cfg(test)]
mod tests {
    use super::super::SEVERAL;
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// P2: a key from the query, in any spelling.
    #[test]
    fn a_parameter_is_read_as_servers_read_it() {
        let value = |path: &'static str| query(path, "key").map(|raw| raw.value.into_owned());
        for path in ["/?key=a+b", "/p?x=1&key=a%20b", "/?%6bey=a b#key=c", "/?key=a%20b&key=a+b", "/?key=&key=a+b"] {
            assert_eq!(value(path).unwrap(), "a b", "{path}");
        }
        for path in ["/", "/key=a", "/?keys=a", "/?key", "/?key=", "/#?key=a", "/?Key=a"] {
            assert_eq!(value(path), None, "{path}");
        }
    }

    /// A client that adds an invented value to its real one shares a counter with all clients that do so.
    #[test]
    fn a_parameter_or_header_that_is_repeated_gives_no_second_quota() {
        for path in ["/?key=real&key=x1", "/?key=x2&key=real", "/?key=real&%6b%65y=x3"] {
            assert_eq!(query(path, "key"), Some(RawValue { value: SEVERAL.into(), contradicted: true }));
        }
        let twice = headers(&[("x-api-key", "x1"), ("x-api-key", "real")]);
        assert_eq!(header(&twice, "x-api-key").unwrap().value, SEVERAL);
        let same = headers(&[("x-api-key", "real"), ("x-api-key", "real"), ("x-api-key", "")]);
        assert_eq!(header(&same, "x-api-key"), Some(RawValue::once("real")));
    }

    #[test]
    fn the_first_cookie_of_a_name_is_used_in_any_position() {
        let lines = headers(&[("cookie", "a=1; sid= s%31 ;b"), ("cookie", "sid=\"s1\"; c=\"x\"; e=")]);
        assert_eq!(cookie(&lines, "sid"), Some(RawValue::once("s1")));
        assert_eq!(cookie(&lines, "c"), Some(RawValue::once("x")));
        assert_eq!((cookie(&lines, "b"), cookie(&lines, "e"), cookie(&lines, "SID")), (None, None, None));
        let two = headers(&[("cookie", "sid=; sid=inner"), ("cookie", "sid=outer")]);
        assert_eq!(cookie(&two, "sid"), Some(RawValue { value: "inner".into(), contradicted: true }));
    }
}
