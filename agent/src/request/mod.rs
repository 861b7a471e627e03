//! From a request to a call: the descriptors that the rules ask for.

mod client_ip;
mod path;
mod said;
mod places;
pub mod jwt;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use tollgate_core::call::{Call, VALUE_LEN_MAX};
use tollgate_core::rules::{DescriptorSource, RuleSet};

pub use client_ip::client_ip;
pub use path::normalize;
pub use said::SEVERAL;

use said::Said;

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

/// The call that a request is, by the descriptors of these rules. What a request does not have is left out, and so is what
/// follows from other descriptors; a value longer than [`VALUE_LEN_MAX`] bytes is cut there.
///
/// What a client can write as it likes goes in as its word only, unless the rules say that the gateway has verified it, and
/// the request does not contradict itself. `claims` tells what the request's token says ([`jwt::Verifier::claims`]); it is
/// asked at most once, and only if the rules want to know.
#[must_use]
pub fn describe<'a>(
    rules: &'a RuleSet,
    request: &Request<'a>,
    claims: impl FnOnce() -> Option<Arc<jwt::Claims>>,
) -> Call<'a> {
    let mut call = Call::new();
    let claims = LazyCell::new(claims);
    for spec in &rules.descriptors {
        let said = match &spec.source {
            DescriptorSource::Header(name) => places::header(request.headers, name),
            DescriptorSource::Query(name) => places::query(request.path, name),
            DescriptorSource::Cookie(name) => places::cookie(request.headers, name),
            DescriptorSource::Jwt(path) => claims.as_ref().and_then(|claims| claims.text(path)).map(Said::once),
            DescriptorSource::ClientIp { trusted_hops, ipv6_prefix } => {
                client_ip(request.peer, request.headers, *trusted_hops, *ipv6_prefix).map(Said::once)
            }
            DescriptorSource::Method => Some(Said::once(upper_case(request.method))),
            DescriptorSource::Path { normalized: true } => Some(Said::once(normalize(request.path))),
            DescriptorSource::Path { normalized: false } => {
                Some(Said::once(request.path.split(['?', '#']).next().unwrap_or_default()))
            }
            DescriptorSource::Constant(_) | DescriptorSource::Map { .. } => None,
        };
        let Some(said) = said.filter(|said| !said.value.is_empty()) else { continue };
        let (name, value) = (Cow::Borrowed(&*spec.name), cut(said.value));
        if spec.is_unverified() || said.contradicted {
            call.set_unverified(name, value);
        } else {
            call.set(name, value);
        }
    }
    call
}

fn upper_case(method: &str) -> Cow<'_, str> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Cow::Owned(method.to_ascii_uppercase())
    } else {
        Cow::Borrowed(method)
    }
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
        let rules = tollgate_rules::from_shorthand("1/s per ip", 1).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "k1".parse().unwrap());
        let request = |path| Request { method: "GET", path, peer: Some([10, 0, 0, 1].into()), headers: &headers };
        let call = describe(&rules, &request("/users/17?page=2"), || None);
        assert_eq!(
            call.descriptors().collect::<Vec<_>>(),
            [("api_key", "k1"), ("ip", "10.0.0.1"), ("method", "GET"), ("endpoint", "/users/{id}")]
        );
        assert_eq!(call, describe(&rules, &request("/users/18"), || None));
    }

    /// A key that is no text still has a counter, and not that of another such key.
    #[test]
    fn a_header_that_is_no_text_does_not_escape_a_rule() {
        let rules = tollgate_rules::from_shorthand("1/s per api_key", 1).unwrap();
        let key = |byte: u8| {
            let mut headers = HeaderMap::new();
            headers.insert("x-api-key", http::HeaderValue::from_bytes(&[byte]).unwrap());
            let request = Request { method: "GET", path: "/", peer: None, headers: &headers };
            describe(&rules, &request, || None).get("api_key").map(ToOwned::to_owned)
        };
        assert!(key(0xff).is_some() && key(0xff) != key(0xfe));
    }
}
