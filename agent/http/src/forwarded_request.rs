//! Client's request that a gateway forwards while it waits for a decision.
//!
//! nginx, Traefik, Caddy and `HAProxy` send its method and URI in headers ([`Gateway`]). Without such headers, the HTTP request itself is
//! meant. Headers that contradict each other are refused: a gateway sets one of them, and may pass on the other one, which the client
//! has set. Envoy sends the client's path behind a prefix; then no header is read, because a client of Envoy may send the headers of
//! other gateways.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::ConnectInfo;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Uri};
use percent_encoding::{CONTROLS, percent_encode};
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, request};
use tollgate_listen::Peer;

use crate::gateway::Gateway;
use crate::problem_details::ProblemDetails;

/// Reader of the requests that one gateway forwards.
#[derive(Clone, Debug)]
pub(crate) struct ForwardedRequests {
    gateway: Gateway,
    /// True once a request without the headers of the gateway was logged.
    has_warned: Arc<AtomicBool>,
}

impl ForwardedRequests {
    pub(crate) fn of(gateway: Gateway) -> Self {
        Self { gateway, has_warned: Arc::default() }
    }

    /// Returns the call of the request in the gateway's headers, else of the HTTP request.
    pub(crate) fn call<S: ChargeStore>(
        &self,
        agent: &Agent<S>,
        parts: &Parts,
    ) -> Result<Call<'static>, ProblemDetails> {
        if !self.has_warned.load(Ordering::Relaxed) {
            self.warn_of_absent_uri(agent.node(), parts);
        }
        let (method, path) = method_and_path(parts, self.gateway)?;
        Ok(call_of(agent, parts, &method, &path))
    }

    /// Logs once that the path of a client's request is missing, so that no rule for paths applies.
    fn warn_of_absent_uri(&self, node: &str, parts: &Parts) {
        let names = self.gateway.uri_headers();
        let is_absent = names.iter().all(|name| !parts.headers.contains_key(*name));
        if self.gateway != Gateway::Any && is_absent && !self.has_warned.swap(true, Ordering::Relaxed) {
            let gateway = self.gateway.as_str();
            let remedy = match names.first() {
                Some(name) => format!("let the gateway set {name}, or start the agent with --gateway any"),
                None => "let Envoy ask for /check/PATH with path_prefix: /check, or start the agent with --gateway any"
                    .to_owned(),
            };
            tracing::warn!(
                node,
                gateway,
                remedy,
                "a request to the agent does not tell the client's path: its own path is taken, so rules for other paths do not apply"
            );
        }
    }
}

/// Returns the call of a request to the path that follows the prefix, with the method of the HTTP request.
pub(crate) fn prefixed_call<S: ChargeStore>(agent: &Agent<S>, parts: &Parts, prefix: &str) -> Call<'static> {
    let path = path_and_query(&parts.uri);
    call_of(agent, parts, parts.method.as_str(), path.strip_prefix(prefix).unwrap_or(path))
}

fn call_of<S: ChargeStore>(agent: &Agent<S>, parts: &Parts, method: &str, path: &str) -> Call<'static> {
    let peer = parts.extensions.get::<ConnectInfo<Peer>>().and_then(|ConnectInfo(peer)| peer.ip());
    agent.describe(&request::Request { method, path, peer, headers: &parts.headers })
}

/// Returns method, path and query of the client's request if the gateway forwards them in headers, else those of the HTTP
/// request.
fn method_and_path(request: &Parts, gateway: Gateway) -> Result<(Cow<'_, str>, Cow<'_, str>), ProblemDetails> {
    let method = agreed_value(&request.headers, gateway.method_headers(), |method| Some(method))?;
    let method = method.unwrap_or_else(|| request.method.as_str().into());
    let path = agreed_value(&request.headers, gateway.uri_headers(), path_of)?;
    Ok((method, path.unwrap_or_else(|| path_and_query(&request.uri).into())))
}

/// Returns the common value of all given headers. Gateways set one of them and pass the others through from the
/// client, which could otherwise choose the endpoint that it is counted under. Bytes that are no ASCII are escaped: some gateways pass on
/// a path as the client wrote it.
fn agreed_value<'a>(
    headers: &'a HeaderMap,
    names: &[&'static str],
    read: fn(&str) -> Option<&str>,
) -> Result<Option<Cow<'a, str>>, ProblemDetails> {
    let mut agreed: Option<(&str, Cow<'_, str>)> = None;
    for (name, value) in
        names.iter().flat_map(|name| headers.get_all(*name).into_iter().map(move |value| (*name, value)))
    {
        let escaped = Cow::from(percent_encode(value.as_bytes(), CONTROLS));
        let value = match escaped {
            Cow::Borrowed(text) => read(text).map(Cow::Borrowed),
            Cow::Owned(text) => read(&text).map(|value| Cow::Owned(value.to_owned())),
        };
        let value = value.ok_or_else(|| {
            ProblemDetails::bad_request(format!(
                "{name} is neither a path nor a URL with one; let the gateway set it to the path and query of the client's request, such as /search?q=1, or to https://host/search?q=1"
            ))
        })?;
        let (first, known) = agreed.get_or_insert_with(|| (name, value.clone()));
        if *known != value {
            return Err(ProblemDetails::bad_request(format!(
                "{first} and {name} contradict each other; configure the gateway to set one and to clear the others, or name it with --gateway"
            )));
        }
    }
    Ok(agreed.map(|(_, value)| value).filter(|value| !value.is_empty()))
}

/// Returns path and query of `/search?q=1` or of a URL such as `http://host/search?q=1`; none of other texts.
///
/// The host of a URL may be any text of the client (ingress-nginx writes its `Host` there), so it is not parsed, and it does not end
/// at a `?` or `#` before a later `/`: one of the two is the client's, and it is unknown which.
fn path_of(target: &str) -> Option<&str> {
    if target.is_empty() || target.starts_with('/') {
        return Some(target);
    }
    let (scheme, rest) = target.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let path = rest.find(['/', '?', '#']).map_or("/", |start| &rest[start..]);
    (is_scheme && (path.starts_with('/') || !path.contains('/'))).then_some(path)
}

fn path_and_query(uri: &Uri) -> &str {
    uri.path_and_query().map_or_else(|| uri.path(), PathAndQuery::as_str)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;
    use tollgate_core::rules::DescriptorSource;

    use super::*;

    fn endpoint(target: &str, normalized: bool) -> String {
        DescriptorSource::Path { normalized }.value_of(Cow::Borrowed(target)).into_owned()
    }

    #[test]
    fn a_path_is_read_from_a_url_whatever_its_host_is() {
        for (target, path) in [
            ("", Some("")),
            ("/login?x=1", Some("/login?x=1")),
            ("//host/login", Some("//host/login")),
            ("/to://other/free", Some("/to://other/free")),
            ("https://shop.example/login?x=<", Some("/login?x=<")),
            ("https://shop.example:80:80/login", Some("/login")),
            ("https://[::1/login", Some("/login")),
            ("http:///login", Some("/login")),
            ("https://a://b/login", Some("//b/login")),
            ("https://shop.example", Some("/")),
            ("https://", Some("/")),
            ("https://shop.example?x=1", Some("?x=1")),
            ("https://shop.example#x", Some("#x")),
            ("https://shop.example?x/login", None),
            ("https://shop.example#/login", None),
            ("login", None),
            ("shop.example/login", None),
            ("shop.example:443", None),
            ("*", None),
            ("?x=1", None),
            ("http:/login", None),
            ("://shop.example/login", None),
            ("a b://shop.example/login", None),
            ("1a://shop.example/login", None),
        ] {
            assert_eq!(path_of(target), path, "{target}");
        }
    }

    proptest! {
        /// P1: a client that chooses the host, or a target which no parser of URLs accepts, is counted under the same endpoint.
        #[test]
        fn a_url_has_the_endpoint_of_its_target(
            scheme in "[A-Za-z][A-Za-z0-9+.-]{0,8}",
            host in "[!-~&&[^/?#]]{0,12}",
            target in "/[!-~]{0,24}|[?#][!-~&&[^/]]{0,12}|",
        ) {
            let url = format!("{scheme}://{host}{target}");
            let path = path_of(&url);
            for normalized in [true, false] {
                let known = path.map(|path| endpoint(path, normalized));
                prop_assert_eq!(known, Some(endpoint(&target, normalized)), "{}", &url);
            }
        }

        /// A host with a `?` or `#` hides no path.
        #[test]
        fn a_host_cuts_no_path_short(host in "[!-~&&[^/]]{0,12}", target in "/[!-~]{0,24}") {
            let url = format!("https://{host}{target}");
            let known = path_of(&url).map(|path| endpoint(path, true));
            prop_assert!(known.is_none_or(|known| known == endpoint(&target, true)), "{}", &url);
        }
    }
}
