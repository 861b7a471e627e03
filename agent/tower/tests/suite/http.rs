//! Responses to admitted and denied requests, and the calls that requests become.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use tollgate_tower::RateLimitLayer;

use crate::support::{Client, agent, serve};

/// User that a layer of the test has verified.
#[derive(Clone)]
struct User(String);

async fn authenticate(mut request: Request, next: Next) -> Response {
    if let Some(name) = request.headers().get("authorization") {
        let user = User(name.to_str().unwrap().to_owned());
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

async fn client(rules: &str) -> Client {
    let layer = RateLimitLayer::new(agent(rules));
    Client::connect(serve(Router::new().fallback(get(|| async { "found" })).layer(layer)).await).await
}

/// H1: an admitted request has the headers of the limit on the response of the server.
#[tokio::test]
async fn an_admitted_request_is_served_with_the_headers_of_the_limit() {
    let mut client = client("rules: [{ name: pair, per: [ip], quota: 2/min }]").await;
    let answer = client.get("/search", &[]).await;
    assert_eq!((answer.left(), &answer.body[..]), ((200, "1"), &b"found"[..]));
    assert_eq!((answer.header("x-gateway-node"), answer.header("x-ratelimit-limit")), ("gw-1", "2"));
    assert!(answer.header("ratelimit").starts_with("\"pair\";r=1;t="));
    assert_eq!(answer.header("ratelimit-policy"), "\"pair\";q=2;w=60");
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert!(!answer.headers.contains_key("retry-after") && !answer.headers.contains_key("cache-control"));
}

/// H2, H5: a denial has status, headers and body of a denial by `/check`.
#[tokio::test]
async fn a_denied_request_is_answered_with_a_problem() {
    let mut client = client("rules: [{ name: one, per: [ip], quota: 1/min }]").await;
    assert_eq!(client.get("/search", &[]).await.left(), (200, "0"));
    let answer = client.get("/search", &[]).await;
    assert_eq!((answer.left(), answer.header("content-type")), ((429, "0"), "application/problem+json"));
    assert_eq!((answer.header("cache-control"), answer.header("x-gateway-node")), ("no-store", "gw-1"));
    let body = answer.json();
    let retry_after_ms = body["retry_after_ms"].as_u64().unwrap();
    assert!(answer.header("retry-after").parse::<u64>().unwrap() * 1_000 >= retry_after_ms);
    assert_eq!((&body["allowed"], &body["status"], &body["rule"]), (&false.into(), &429.into(), &"one".into()));
    assert_eq!(body["violated-policies"], serde_json::json!(["one"]));
    assert!(body["detail"].as_str().unwrap().starts_with("rule one allows 1 in 60 s; this call passes in "));
    assert!(body["id"].is_string() && body["at_ms"].is_u64());
}

/// H2: a request that no retry helps is 403.
#[tokio::test]
async fn a_request_that_never_passes_is_forbidden() {
    let mut client =
        client("{ deny_status: 403, rules: [{ name: closed, match: { endpoint: /closed }, deny: true }] }").await;
    let answer = client.get("/closed", &[]).await;
    assert_eq!((answer.status, &answer.json()["title"]), (StatusCode::FORBIDDEN, &"Denied".into()));
    assert!(!answer.headers.contains_key("retry-after"));
    assert_eq!(client.get("/open", &[]).await.status, StatusCode::OK);
}

/// A1: each key has a quota of its own.
#[tokio::test]
async fn each_key_has_its_own_quota() {
    let mut client = client("rules: [{ name: per-key, per: [api_key], quota: 1/min }]").await;
    for (key, status) in [("k1", 200), ("k1", 429), ("k2", 200), ("k2", 429)] {
        assert_eq!(client.get("/", &[("x-api-key", key)]).await.status.as_u16(), status, "{key}");
    }
    let without = client.get("/", &[]).await;
    assert_eq!(without.status, StatusCode::OK, "no rule applies");
    assert!(!without.headers.contains_key("ratelimit"));
}

/// A2: all rules must admit a request, a denied request is charged under none, and a rule in shadow denies nothing.
#[tokio::test]
async fn several_rules_admit_a_request_together_and_one_in_shadow_denies_none() {
    let rules = "rules:
  - { name: per-key, per: [api_key], quota: 2/min }
  - { name: per-client, per: [ip], quota: 3/min }
  - { name: tried, per: [ip], quota: 1/min, shadow: true }";
    let mut client = client(rules).await;
    let mut seen = Vec::new();
    for key in ["k1", "k1", "k1", "k2", "k2"] {
        let answer = client.get("/", &[("x-api-key", key)]).await;
        let policy = answer.header("ratelimit-policy").split(';').next().unwrap().to_owned();
        seen.push((answer.status.as_u16(), policy));
    }
    let expected = [(200, "per-key"), (200, "per-key"), (429, "per-key"), (200, "per-client"), (429, "per-client")];
    assert_eq!(seen, expected.map(|(status, rule)| (status, format!("\"{rule}\""))));
}

/// P2: the values that only the server knows complete the call of the rules.
#[tokio::test]
async fn a_call_is_completed_by_the_server() {
    let rules = "rules: [{ name: per-user, match: { endpoint: /export }, per: [user], quota: 10/min }]";
    let layer = RateLimitLayer::new(agent(rules)).map_call(|call, parts| match parts.extensions.get::<User>() {
        Some(User(name)) => call.with("user", name.clone()).costing(4),
        None => call,
    });
    let router =
        Router::new().fallback(get(|| async { "found" })).layer(layer).layer(middleware::from_fn(authenticate));
    let mut client = Client::connect(serve(router).await).await;
    for (user, expected) in [("u1", (200, "6")), ("u1", (200, "2")), ("u1", (429, "2")), ("u2", (200, "6"))] {
        assert_eq!(client.get("/export", &[("authorization", user)]).await.left(), expected, "{user}");
    }
    assert_eq!(client.get("/export", &[]).await.status, StatusCode::OK);
}

/// P2: a nested router sees a part of the path; the rules see the whole path.
#[tokio::test]
async fn a_nested_router_is_limited_by_whole_paths() {
    let rules = "rules: [{ name: exports, match: { endpoint: /api/export }, per: [ip], quota: 1/min }]";
    let nested = Router::new().route("/export", get(|| async { "rows" })).layer(RateLimitLayer::new(agent(rules)));
    let mut client = Client::connect(serve(Router::new().nest("/api", nested)).await).await;
    assert_eq!(client.get("/api/export?from=1", &[]).await.left(), (200, "0"));
    assert_eq!(client.get("/api/export?from=2", &[]).await.left(), (429, "0"));
}
