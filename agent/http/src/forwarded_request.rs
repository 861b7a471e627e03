//! Client's request that a gateway forwards in headers while it waits for a decision: nginx `auth_request`, also of
//! ingress-nginx, which sends a whole URL, and the `forward_auth` of Traefik and Caddy. Without such headers, the HTTP request itself is meant. Headers that contradict
//! each other are refused: a gateway sets one of them, and may pass on the other one, which the client has set.

use std::borrow::Cow;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Uri};

use crate::problem_details::ProblemDetails;

/// Headers with the method of the client's request: of Traefik and Caddy, and of nginx.
const METHOD_HEADERS: [&str; 2] = ["x-forwarded-method", "x-original-method"];
/// Headers with its URI, or with its URL.
const URI_HEADERS: [&str; 3] = ["x-forwarded-uri", "x-original-uri", "x-original-url"];

/// Returns method, path and query of the client's request if a gateway forwards them in headers, else those of the HTTP
/// request.
pub(crate) fn method_and_path(request: &Parts) -> Result<(&str, Cow<'_, str>), ProblemDetails> {
    let method = agreed_value(&request.headers, &METHOD_HEADERS, Cow::Borrowed)?;
    let method = match method {
        Some(Cow::Borrowed(method)) => method,
        _ => request.method.as_str(),
    };
    let path = agreed_value(&request.headers, &URI_HEADERS, path_of)?;
    Ok((method, path.unwrap_or_else(|| Cow::Borrowed(path_and_query(&request.uri)))))
}

/// Returns the common value of all given headers. Gateways set one of them and pass the others through from the
/// client, which could otherwise choose the endpoint that it is counted under.
fn agreed_value<'a>(
    headers: &'a HeaderMap,
    names: &[&str],
    read: fn(&'a str) -> Cow<'a, str>,
) -> Result<Option<Cow<'a, str>>, ProblemDetails> {
    let mut agreed: Option<(&str, Cow<'_, str>)> = None;
    for (name, value) in
        names.iter().flat_map(|name| headers.get_all(*name).into_iter().map(move |value| (*name, value)))
    {
        let value = value.to_str().map_err(|_| {
            let detail = format!("{name} contains characters other than visible ASCII; escape them");
            ProblemDetails::bad_request(detail)
        })?;
        let value = read(value);
        let (first, known) = agreed.get_or_insert_with(|| (name, value.clone()));
        if *known != value {
            return Err(ProblemDetails::bad_request(format!(
                "{first} and {name} contradict each other; configure the gateway to set one and to clear the others"
            )));
        }
    }
    Ok(agreed.map(|(_, value)| value).filter(|value| !value.is_empty()))
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
