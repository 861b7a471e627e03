//! `/check`: may this call pass?
//!
//! `GET` asks about the request itself, or about the one that a gateway holds back while it asks (nginx `auth_request`,
//! the `forward_auth` of Traefik and Caddy). `POST` asks about a call of which the gateway names the descriptors. Asking
//! in bulk and Envoy's own protocols are for later files.

use std::borrow::Cow;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri};
use tollgate::answer::{self, PROBLEM_JSON};
use tollgate::explain::explain;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, Decision, request};

use crate::body;
use crate::call::{self, CHECK, EXPLAIN};
use crate::problem::Problem;

/// Headers in which gateways say which request they hold back.
const METHOD_HEADERS: [&str; 2] = ["x-forwarded-method", "x-original-method"];
const URI_HEADERS: [&str; 2] = ["x-forwarded-uri", "x-original-uri"];

/// Decides the request itself, by the descriptors that the rules ask for.
pub(crate) async fn check_request<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let (method, path) = held_back(&parts.method, &parts.uri, &parts.headers)?;
    let request = request::Request { method: &method, path: &path, peer, headers: &parts.headers };
    Ok(decide(&agent, &agent.describe(&request)).await)
}

/// Decides the call in the body.
pub(crate) async fn check_call<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::read(request.into_body()).await?;
    let said = call::read(&body, &CHECK).map_err(Problem::bad_request)?;
    Ok(decide(&agent, &said.call).await)
}

/// Says why the call in the body would be limited as it would be; nothing is counted.
pub(crate) async fn explain_call<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::read(request.into_body()).await?;
    let said = call::read(&body, &EXPLAIN).map_err(Problem::bad_request)?;
    let engine = agent.engine();
    let told = engine.with_rules(|rules| explain(rules, &engine.settings().digest_key, &said.call));
    Ok(([(CONTENT_TYPE, "application/json")], told.to_string()).into_response())
}

/// Names the paths there are.
pub(crate) async fn unknown_path(request: Request) -> Problem {
    let path = request.uri().path().to_owned();
    body::discard(request.into_body()).await;
    let detail = format!(
        "there is no `{path}` here; ask /check, /explain, /json, /settle, /release, /healthz, /readyz or /metrics"
    );
    Problem::new(StatusCode::NOT_FOUND, detail)
}

/// Names the methods there are.
pub(crate) async fn wrong_method(request: Request) -> Problem {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    body::discard(request.into_body()).await;
    let known = match &*path {
        "/check" => "GET, HEAD or POST",
        "/explain" | "/json" | "/settle" | "/release" => "POST",
        _ => "GET or HEAD",
    };
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}; use {known}"))
}

async fn decide<S: ChargeStore>(agent: &Agent<S>, call: &Call<'_>) -> Response {
    let decision = agent.check(call).await;
    respond(&decision, &agent.engine().settings().node)
}

fn respond(decision: &Decision, node: &str) -> Response {
    let (status, content_type) = if decision.allowed {
        (StatusCode::OK, "application/json")
    } else {
        (StatusCode::TOO_MANY_REQUESTS, PROBLEM_JSON)
    };
    // An answer that a cache repeats would be a limit that nobody counts.
    let fixed = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    let mut response = (status, fixed, answer::body(decision).to_string()).into_response();
    response.headers_mut().extend(answer::headers(decision, node));
    response
}

/// Method, path and query of the request that a gateway holds back; without such headers, those of the request itself.
fn held_back<'a>(
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
) -> Result<(Cow<'a, str>, Cow<'a, str>), Problem> {
    let method = match said_once(headers, METHOD_HEADERS)? {
        Some(method) => Cow::Owned(method.to_ascii_uppercase()),
        None => Cow::Borrowed(method.as_str()),
    };
    let path = said_once(headers, URI_HEADERS)?.map_or(Cow::Borrowed(path_and_query(uri)), path_of);
    Ok((method, path))
}

/// What these headers say, if they agree. Gateways write one of the two and let the other through from the client, who
/// could otherwise choose under which endpoint to be counted.
fn said_once<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Result<Option<&'a str>, Problem> {
    let mut said = None;
    for value in names.iter().flat_map(|name| headers.get_all(*name)) {
        let unreadable = || {
            let detail = format!("{} or {} holds characters other than visible ASCII; escape them", names[0], names[1]);
            Problem::new(StatusCode::BAD_REQUEST, detail)
        };
        let value = value.to_str().map_err(|_| unreadable())?;
        if said.is_some_and(|said| said != value) {
            let [one, other] = names;
            let detail =
                format!("{one} and {other} contradict each other; have the gateway set one and clear the other");
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        said = Some(value);
    }
    Ok(said.filter(|said| !said.is_empty()))
}

/// The path and the query of `/search?q=1`, or of the `http://host/search?q=1` that a client may also write.
fn path_of(uri: &str) -> Cow<'_, str> {
    if uri.starts_with('/') {
        return Cow::Borrowed(uri);
    }
    match uri.parse::<Uri>() {
        Ok(uri) if uri.authority().is_some() => Cow::Owned(path_and_query(&uri).to_owned()),
        _ => Cow::Borrowed(uri),
    }
}

fn path_and_query(uri: &Uri) -> &str {
    uri.path_and_query().map_or_else(|| uri.path(), PathAndQuery::as_str)
}
