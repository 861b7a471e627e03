//! Conversion of a request into a call: the descriptors that the rules declare.
//!
//! `extract` reads values from headers, the query and cookies; `raw_value` resolves contradicting ones; `jwt`
//! verifies tokens; `client_ip` and `normalize` derive the other descriptors.

mod client_ip;
mod raw_value;
mod extract;
mod claims;
mod trace_parent;
#[cfg(feature = "jwt")]
pub mod jwt;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use tollgate_core::call::{Call, truncated};
pub use tollgate_core::request_path::normalize;
use tollgate_core::rules::{DescriptorSource, RuleSet};

pub use claims::Claims;
pub use client_ip::client_ip;
pub use raw_value::SEVERAL;
pub use trace_parent::{TRACE_PARENT, set_trace, trace_parent};

use raw_value::RawValue;

/// Parts of a request from which descriptors are derived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method, such as `GET`.
    pub method: &'a str,
    /// Path and query as received.
    pub path: &'a str,
    /// Address of the connected peer; `None` on a Unix socket.
    pub peer: Option<IpAddr>,
    /// Headers.
    pub headers: &'a HeaderMap,
}

/// Derives the call of a request according to the descriptors of a rule set. Descriptors without a value in the request
/// are omitted, as are those that are computed from other descriptors; values are truncated to
/// [`VALUE_LEN_MAX`](tollgate_core::call::VALUE_LEN_MAX) bytes.
///
/// A value that the client controls becomes an unverified claim, unless the rules declare that the gateway verifies it
/// and the request contains no contradicting value. `claims` returns the verified claims of the request's token
/// (`jwt::Verifier::claims`); it is called at most once, and only if a descriptor needs them.
#[must_use]
pub fn describe<'a>(
    rules: &'a RuleSet,
    request: &Request<'a>,
    claims: impl FnOnce() -> Option<Arc<Claims>>,
) -> Call<'a> {
    let mut call = Call::new();
    let claims = LazyCell::new(claims);
    for spec in &rules.descriptors {
        let raw = match &spec.source {
            DescriptorSource::Header(name) => extract::header(request.headers, name),
            DescriptorSource::Query(name) => extract::query(request.path, name),
            DescriptorSource::Cookie(name) => extract::cookie(request.headers, name),
            DescriptorSource::Jwt(path) => claims.as_ref().and_then(|claims| claims.text(path)).map(RawValue::once),
            DescriptorSource::ClientIp { trusted_hops, ipv6_prefix } => {
                client_ip(request.peer, request.headers, *trusted_hops, *ipv6_prefix).map(RawValue::once)
            }
            DescriptorSource::Method => Some(RawValue::once(spec.source.value_of(request.method.into()))),
            DescriptorSource::Path { .. } => Some(RawValue::once(spec.source.value_of(request.path.into()))),
            DescriptorSource::Constant(_) | DescriptorSource::Map { .. } => None,
        };
        let Some(raw) = raw.filter(|raw| !raw.value.is_empty()) else { continue };
        let (name, value) = (Cow::Borrowed(&*spec.name), truncated(raw.value));
        if spec.is_unverified() || raw.contradicted {
            call.set_unverified(name, value);
        } else {
            call.set(name, value);
        }
    }
    set_trace(request.headers, [&mut call]);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P2: key from a header, endpoint normalized; /users/1 and /users/2 are one counter.
    #[test]
    fn a_request_becomes_the_descriptors_of_the_rules() {
        let rules = tollgate_rules::from_shorthand(&["1/s per ip"], 1).unwrap();
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

    /// Keys with invalid UTF-8 are counted, and different ones separately.
    #[test]
    fn a_header_with_invalid_utf8_does_not_evade_a_rule() {
        let rules = tollgate_rules::from_shorthand(&["1/s per api_key"], 1).unwrap();
        let key = |byte: u8| {
            let mut headers = HeaderMap::new();
            headers.insert("x-api-key", http::HeaderValue::from_bytes(&[byte]).unwrap());
            let request = Request { method: "GET", path: "/", peer: None, headers: &headers };
            describe(&rules, &request, || None).get("api_key").map(ToOwned::to_owned)
        };
        assert!(key(0xff).is_some() && key(0xff) != key(0xfe));
    }
}
