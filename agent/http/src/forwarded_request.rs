//! Client's request that a gateway forwards in headers while it waits for a decision: nginx `auth_request`, and the
//! `forward_auth` of Traefik and Caddy. Without such headers, the HTTP request itself is meant. Headers that contradict
//! each other are refused: a gateway sets one of them, and may pass on the other one, which the client has set.

use std::borrow::Cow;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Uri};

use crate::problem_details::ProblemDetails;

/// Headers with the method of the client's request: of Traefik and Caddy, and of nginx.
const METHOD_HEADERS: [&str; 2] = ["x-forwarded-method", "x-original-method"];
/// Headers with its URI.
const URI_HEADERS: [&str; 2] = ["x-forwarded-uri", "x-original-uri"];

/// Returns method, path and query of the client's request if a gateway forwards them in headers, else those of the HTTP
/// request.
pub(crate) fn method_and_path(request: &Parts) -> Result<(&str, Cow<'_, str>), ProblemDetails> {
    let method = agreed_value(&request.headers, METHOD_HEADERS)?.unwrap_or(request.method.as_str());
    let path = agreed_value(&request.headers, URI_HEADERS)?;
    let path = path.map_or(Cow::Borrowed(path_and_query(&request.uri)), path_of);
    Ok((method, path))
}

/// Returns the common value of all given headers. Gateways set one of the two and pass the other through from the
/// client, which could otherwise choose the endpoint that it is counted under.
fn agreed_value<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Result<Option<&'a str>, ProblemDetails> {
    let [one, other] = names;
    let mut agreed = None;
    for value in names.iter().flat_map(|name| headers.get_all(*name)) {
        let value = value.to_str().map_err(|_| {
            let detail = format!("{one} or {other} contains characters other than visible ASCII; escape them");
            ProblemDetails::bad_request(detail)
        })?;
        if *agreed.get_or_insert(value) != value {
            return Err(ProblemDetails::bad_request(format!(
                "{one} and {other} contradict each other; configure the gateway to set one and to clear the other"
            )));
        }
    }
    Ok(agreed.filter(|value| !value.is_empty()))
}

/// Returns path and query of `/search?q=1` or of the absolute form `http://host/search?q=1`.
fn path_of(uri: &str) -> Cow<'_, str> {
    if uri.starts_with('/') {
        return Cow::Borrowed(uri);
    }
    match uri.parse::<Uri>() {
        Ok(uri) if uri.authority().is_some() => Cow::Owned(path_and_query(&uri).to_owned()),
        _ => Cow::Borrowed(uri),
    }
}

pub(crate) fn path_and_query(uri: &Uri) -> &str {
    uri.path_and_query().map_or_else(|| uri.path(), PathAndQuery::as_str)
}
