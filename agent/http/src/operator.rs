//! Requests that change counts or limits: only from the agent's own machine, or with a token.
//!
//! Whoever reaches the port may ask. Whoever could settle or switch the emergency could also lock callers out.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, FORWARDED, HeaderMap, HeaderName, ORIGIN, VIA};
use http::request::Parts;
use http::{Method, StatusCode};
use tollgate_listen::Peer;

use crate::body;
use crate::problem_details::ProblemDetails;

/// Minimum length of a token in bytes.
pub const TOKEN_LEN_MIN: usize = 16;
/// Scheme of the header with the token, which clients write in any case (RFC 9110, 11.1).
const SCHEME: &[u8] = b"bearer ";
/// Headers that a proxy adds.
const OF_PROXIES: [HeaderName; 4] =
    [FORWARDED, VIA, HeaderName::from_static("x-forwarded-for"), HeaderName::from_static("x-real-ip")];
/// Path of corrections of a cost.
pub(crate) const SETTLE_PATH: &str = "/settle";
/// Path of slots that are given back.
pub(crate) const RELEASE_PATH: &str = "/release";
/// Path of the emergency switch.
pub(crate) const EMERGENCY: &str = "/emergency";
/// Path of resets.
pub(crate) const RESET_PATH: &str = "/reset";
/// Paths that gateways need. Others are of people: a proxy that passes them on would admit everybody as from its own machine.
const OF_GATEWAYS: [&str; 2] = [SETTLE_PATH, RELEASE_PATH];

/// Token that operators send as `Authorization: Bearer TOKEN`.
///
/// Clones have the same token, also after [`OperatorToken::replace`].
#[derive(Clone)]
pub struct OperatorToken(Arc<RwLock<String>>);

impl OperatorToken {
    /// Takes a token.
    ///
    /// # Errors
    /// The reason and the remedy, if the text cannot be sent in a header, or is easy to guess.
    pub fn new(token: &str) -> Result<Self, String> {
        checked(token).map(|token| Self(Arc::new(RwLock::new(token))))
    }

    /// Takes another token. The present one is valid no longer.
    ///
    /// # Errors
    /// As [`OperatorToken::new`]; then the present token stays.
    pub fn replace(&self, token: &str) -> Result<(), String> {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = checked(token)?;
        Ok(())
    }

    /// Returns true if the headers have the token, compared in constant time.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let token = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(SCHEME.len()));
        given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME)).is_some_and(|(_, given)| {
            let differs = |(a, b): (&u8, u8)| a ^ b;
            given.len() == token.len()
                && given.iter().zip(token.bytes()).map(differs).fold(0, |all, one| all | one) == 0
        })
    }
}

/// Returns the token if it can be sent in a header, and is not easy to guess.
fn checked(token: &str) -> Result<String, String> {
    if token.len() < TOKEN_LEN_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "it must have {TOKEN_LEN_MIN} or more letters, digits or signs, without spaces; make one with `openssl rand -hex 16`"
        ));
    }
    Ok(token.to_owned())
}

/// Shows no token.
impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken")
    }
}

/// Passes on a request of an operator, or one that only reads. Refuses others with 403.
pub(crate) async fn only_operators(
    State(token): State<Option<OperatorToken>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    if matches!(parts.method, Method::GET | Method::HEAD) || is_of_operator(&parts, token.as_ref()) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    body::discard(body).await;
    let token = if token.is_some() { "" } else { " (start it with --token-file FILE)" };
    let detail = format!(
        "only operators may change counts or limits: send the request from the agent's own machine, not through a proxy or a browser, or with `Authorization: Bearer TOKEN`, the agent's token{token}"
    );
    ProblemDetails::new(StatusCode::FORBIDDEN, detail).into_response()
}

fn is_of_operator(request: &Parts, token: Option<&OperatorToken>) -> bool {
    if token.is_some_and(|token| token.is_in(&request.headers)) {
        return true;
    }
    let is_local = request.extensions.get::<ConnectInfo<Peer>>().is_some_and(|ConnectInfo(peer)| peer.is_local());
    let is_passed_on = OF_PROXIES.iter().any(|name| request.headers.contains_key(name));
    is_local && !request.headers.contains_key(ORIGIN) && (!is_passed_on || OF_GATEWAYS.contains(&request.uri.path()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn request(path: &str, peer: Option<Peer>, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(peer) = peer {
            request = request.extension(ConnectInfo(peer));
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn operators_are_on_this_machine_or_have_the_token() {
        let token = OperatorToken::new(TOKEN).expect("long enough");
        let tcp = |ip: [u8; 4]| Some(Peer::from(SocketAddr::from((ip, 1))));
        let (here, there) = (tcp([127, 0, 0, 1]), tcp([192, 0, 2, 1]));
        let bearer = format!("Bearer {TOKEN}");
        let right: &[_] = &[("authorization", &*bearer)];
        let (small, capital) = (bearer.replace("Bearer", "bearer"), bearer.replace("Bearer", "BEARER"));
        for (path, peer, headers, expected) in [
            ("/settle", here, &[][..], true),
            ("/settle", Some(Peer::Unix), &[], true),
            ("/settle", there, &[], false),
            ("/settle", None, &[], false),
            ("/settle", there, right, true),
            ("/settle", there, &[("authorization", &*small)], true),
            ("/settle", there, &[("authorization", &*capital)], true),
            ("/settle", there, &[("authorization", "Basic 0123456789abcdef")], false),
            ("/settle", there, &[("authorization", "Bearer")], false),
            ("/settle", there, &[("authorization", "Bearer 0123456789abcdeX")], false),
            ("/settle", there, &[("authorization", "Bearer 0123456789abcdef0")], false),
            ("/settle", there, &[("authorization", "Bearer ")], false),
            ("/settle", there, &[("authorization", TOKEN)], false),
            // A gateway may pass on the headers of its client.
            ("/settle", here, &[("x-forwarded-for", "192.0.2.1")], true),
            (EMERGENCY, here, &[("x-forwarded-for", "192.0.2.1")], false),
            (RESET_PATH, here, &[("x-real-ip", "192.0.2.1")], false),
            (RESET_PATH, here, &[("via", "1.1 proxy")], false),
            (EMERGENCY, there, right, true),
            (RESET_PATH, here, &[("forwarded", "for=192.0.2.1")], false),
            (RESET_PATH, here, &[], true),
            ("/release", here, &[("origin", "http://evil.example")], false),
        ] {
            assert_eq!(
                is_of_operator(&request(path, peer, headers), Some(&token)),
                expected,
                "{path} {peer:?} {headers:?}"
            );
        }
        assert!(!is_of_operator(&request("/settle", there, right), None), "an agent without a token");
    }

    #[test]
    fn a_token_that_is_easy_to_guess_is_refused() {
        for text in ["", "short", "with spaces in its middle", "0123456789abcdé0"] {
            assert!(OperatorToken::new(text).is_err(), "{text}");
        }
    }
}
