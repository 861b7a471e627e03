//! From a request to a call: the descriptors that the rules ask for.

mod client_ip;
mod path;

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use tollgate_common::call::{Call, VALUE_LEN_MAX};
use tollgate_common::rule::{DescriptorSource, RuleSet};

pub use client_ip::client_ip;
pub use path::normalize;

/// The parts of a request that descriptors are made of.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`.
    pub method: &'a str,
    /// Path and query, as received.
    pub path: &'a str,
    /// Who is at the other end of the connection; unknown on a Unix socket.
    pub peer: Option<IpAddr>,
    /// Headers.
    pub headers: &'a HeaderMap,
}

/// The call that a request is, by the descriptors of these rules. What a request does not have is left out; a value longer
/// than [`VALUE_LEN_MAX`] bytes is cut there.
#[must_use]
pub fn describe<'a>(rules: &'a RuleSet, request: &Request<'a>) -> Call<'a> {
    let mut call = Call::new();
    for spec in &rules.descriptors {
        let value = match &spec.source {
            DescriptorSource::Header(name) => {
                request.headers.get(&**name).map(|value| match value.to_str() {
                    Ok(text) => Cow::Borrowed(text),
                    // Nobody escapes a rule by sending bytes that are no text.
                    Err(_) => Cow::Owned(value.as_bytes().escape_ascii().to_string()),
                })
            }
            DescriptorSource::ClientIp { trusted_hops, ipv6_prefix } => {
                client_ip(request.peer, request.headers, *trusted_hops, *ipv6_prefix).map(Cow::Owned)
            }
            DescriptorSource::Query(_)
            | DescriptorSource::Cookie(_)
            | DescriptorSource::Jwt(_)
            | DescriptorSource::Constant(_)
            | DescriptorSource::Map { .. } => None,
            DescriptorSource::Method => Some(Cow::Borrowed(request.method)),
            DescriptorSource::Path { normalized: true } => Some(normalize(request.path)),
            DescriptorSource::Path { normalized: false } => {
                Some(Cow::Borrowed(request.path.split(['?', '#']).next().unwrap_or_default()))
            }
        };
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            call.set(Cow::Borrowed(&*spec.name), cut(value));
        }
    }
    call
}

fn cut(value: Cow<'_, str>) -> Cow<'_, str> {
    if value.len() <= VALUE_LEN_MAX {
        return value;
    }
    let end = value.floor_char_boundary(VALUE_LEN_MAX);
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(&value[..end]),
        Cow::Owned(mut value) => {
            value.truncate(end);
            Cow::Owned(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P2: key from a header, endpoint normalised; /users/1 and /users/2 are one counter.
    #[test]
    fn a_request_becomes_the_descriptors_of_the_rules() {
        let rules = RuleSet::from_shorthand("1/s per ip", 1).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "k1".parse().unwrap());
        let request = |path| Request { method: "GET", path, peer: Some([10, 0, 0, 1].into()), headers: &headers };
        let call = describe(&rules, &request("/users/17?page=2"));
        assert_eq!(
            call.descriptors().collect::<Vec<_>>(),
            [("api_key", "k1"), ("ip", "10.0.0.1"), ("method", "GET"), ("endpoint", "/users/{id}")]
        );
        assert_eq!(call, describe(&rules, &request("/users/18")));
    }

    /// A key that is no text still has a counter, and not that of another such key.
    #[test]
    fn a_header_that_is_no_text_does_not_escape_a_rule() {
        let rules = RuleSet::from_shorthand("1/s per api_key", 1).unwrap();
        let key = |byte: u8| {
            let mut headers = HeaderMap::new();
            headers.insert("x-api-key", http::HeaderValue::from_bytes(&[byte]).unwrap());
            let request = Request { method: "GET", path: "/", peer: None, headers: &headers };
            describe(&rules, &request).get("api_key").map(ToOwned::to_owned)
        };
        assert!(key(0xff).is_some() && key(0xff) != key(0xfe));
    }
}
