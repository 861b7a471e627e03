//! `openapi.yaml`: it is served, it is valid, it has the routes of the router, and its comparison with answers finds faults.

use std::collections::{BTreeMap, BTreeSet};

use boon::{Compiler, Schemas};
use http::{HeaderName, HeaderValue, StatusCode};
use tollgate::{Agent, http_response};
use tollgate_servers::METHODS;

use crate::contract::{TEXT, contract};
use crate::support::{Answer, Client, Sidecar};

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min }
  - { name: slots, per: [user], quota: 2/10min, algorithm: concurrency }
";

/// Returns an agent with two rules.
pub(crate) fn agent() -> Agent {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 7).unwrap();
    Agent::builder().node("gw-1").rules(rules).start().unwrap()
}

/// Returns the part of a path that is the same in the router and in the description: both `/check/` and `/check/{*path}` are
/// `/check/{path}` there.
fn fixed_part(path: &str) -> &str {
    path.split('{').next().unwrap_or_default()
}

#[tokio::test]
async fn the_description_is_served_as_it_stands_in_the_file() {
    let served = Sidecar::of(agent()).await.client().await.get("/openapi.yaml", &[]).await;
    assert_eq!((served.status, served.header("content-type")), (StatusCode::OK, "application/yaml"));
    assert_eq!(served.body, TEXT);
    assert_eq!(contract().document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

/// By [the published schema](https://spec.openapis.org/oas/3.1/schema/2022-10-07). The schemas inside are compiled,
/// and thereby validated, for the comparison with answers.
#[test]
fn the_description_is_valid_openapi() {
    let schema = serde_json::from_str(include_str!("oas-3.1.schema.json")).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("oas.json", schema).unwrap();
    let schema = compiler.compile("oas.json", &mut schemas).unwrap();
    let valid = schemas.validate(&contract().document, schema);
    valid.unwrap_or_else(|error| panic!("agent/http/openapi.yaml: {error:#}"));
}

/// The router is asked for its paths, which axum shows only in its debug form, and each path for its methods.
#[tokio::test]
async fn every_route_is_described_and_every_description_is_routed() {
    let shown = format!("{:?}", tollgate_http::router(agent()));
    let (routes, _) = shown.split_once("fallback_router").expect("axum shows routes before the fallback");
    let paths: BTreeSet<&str> = routes.split('"').filter(|text| text.starts_with('/')).collect();
    assert!(paths.contains("/check"), "axum shows its routes in another way: {shown}");
    // A client of a gateway, because the answer of a route without a description is no fault yet.
    let sidecar = Sidecar::of(agent()).await;
    let mut client = Client::connect(sidecar.address).await;
    let mut answered = BTreeMap::new();
    for path in paths {
        let answer = client.ask("PROPFIND", &path.replace("{*path}", "x"), &[], "").await;
        let methods: BTreeSet<String> = match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                let (allowed, detail) = (answer.header("allow"), answer.problem(405));
                for method in allowed.split(',') {
                    assert!(
                        detail.contains(method),
                        "add {method} {path} to agent/http/src/unknown_route.rs: {detail}"
                    );
                }
                allowed.to_lowercase().split(',').map(str::to_owned).collect()
            }
            _ => METHODS.map(str::to_owned).into(),
        };
        answered.insert(fixed_part(path), methods);
    }
    let mut described: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, method, _) in contract().operations() {
        let methods = described.entry(fixed_part(path)).or_default();
        methods.insert(method.to_owned());
        methods.extend((method == "get").then(|| "head".to_owned()));
    }
    for (path, methods) in &answered {
        assert_eq!(
            described.get(path),
            Some(methods),
            "the router answers {path} with the methods on the right; describe them in agent/http/openapi.yaml, and add the path to docs/http.md and agent/http/src/unknown_route.rs"
        );
    }
    let unrouted: Vec<_> = described.keys().filter(|path| !answered.contains_key(*path)).collect();
    assert!(unrouted.is_empty(), "agent/http/openapi.yaml has paths that no route answers; remove {unrouted:?}");
}

/// The answer to an unknown path lists the others.
#[tokio::test]
async fn an_unknown_path_is_told_all_others() {
    let mut client = Sidecar::of(agent()).await.client().await;
    let detail = client.get("/", &[]).await.problem(404);
    for path in contract().document["paths"].as_object().unwrap().keys().filter(|path| !path.contains('{')) {
        assert!(detail.contains(path), "add {path} to agent/http/src/unknown_route.rs: {detail}");
    }
}

#[test]
fn every_header_of_a_decision_is_described() {
    let described = contract().document["components"]["headers"].as_object().unwrap();
    for name in http_response::header_names() {
        assert!(described.keys().any(|known| known.eq_ignore_ascii_case(name)), "describe the header {name}");
    }
}

/// The comparison that each answer of the suites passes through.
#[tokio::test]
async fn an_answer_that_is_not_described_is_a_fault() {
    let mut client = Sidecar::of(agent()).await.client().await;
    let answer = client.get("/readyz", &[]).await;
    let with = |change: &dyn Fn(&mut Answer)| {
        let mut changed = Answer { status: answer.status, headers: answer.headers.clone(), body: answer.body.clone() };
        change(&mut changed);
        contract().check("GET", "/readyz", &changed.described()).err().unwrap_or_default()
    };
    assert_eq!(with(&|_| ()), "");
    let faults = [
        (with(&|answer| answer.status = StatusCode::IM_A_TEAPOT), "answers 418"),
        (with(&|answer| answer.body = r#"{"ready": true}"#.into()), "missing properties 'missing', 'problems'"),
        (with(&|answer| answer.body = r#"{"ready": true, "missing": [], "problems": [], "more": 1}"#.into()), "'more'"),
        (with(&|answer| drop(answer.headers.remove("x-gateway-node"))), "answers without x-gateway-node"),
        (
            with(&|answer| {
                answer.headers.insert(HeaderName::from_static("x-more"), HeaderValue::from_static("1"));
            }),
            "sends x-more",
        ),
        (
            with(&|answer| {
                answer.headers.insert("content-type", HeaderValue::from_static("text/html"));
            }),
            "answers 200 with the content type `text/html`",
        ),
    ];
    for (fault, expected) in faults {
        assert!(fault.contains(expected) && fault.contains("agent/http/openapi.yaml"), "{fault}\nwanted: {expected}");
    }
}
