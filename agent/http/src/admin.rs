//! For those who run an agent: is it alive, can it be relied on, what does it count.
//!
//! `/healthz` is about the process and answers 200 as long as it answers at all: an agent that has lost its store still
//! limits, and must not be restarted for it. `/readyz` is about traffic. Nothing here changes anything.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tollgate::Agent;
use tollgate::store::ChargeStore;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NODE: HeaderName = HeaderName::from_static("x-gateway-node");

/// Names the node on every answer, so that whoever looks into one knows whom to ask.
pub(crate) async fn sign<S: ChargeStore>(State(agent): State<Agent<S>>, mut response: Response) -> Response {
    if let Ok(node) = HeaderValue::from_str(&agent.engine().settings().node) {
        response.headers_mut().insert(NODE, node);
    }
    response
}

/// Alive, and by which rules.
pub(crate) async fn healthz<S: ChargeStore>(State(agent): State<Agent<S>>) -> Response {
    let engine = agent.engine();
    let (generation, rules, origin) = engine.with_rules(|set| (set.generation, set.rules.len(), set.origin.clone()));
    let health = json!({
        "status": "ok",
        "node": *engine.settings().node,
        "version": env!("CARGO_PKG_VERSION"),
        "generation": generation,
        "rules": rules,
        "rules_from": *origin,
        "rules_error": engine.rejection(),
        "keys_error": agent.keys_refusal(),
        "bus_error": engine.bus_error(),
        "agents": engine.fleet_size(),
        "degraded": engine.is_degraded(),
    });
    respond(StatusCode::OK, &health)
}

/// Whether a gateway should ask this agent, and what is missing if not.
pub(crate) async fn readyz<S: ChargeStore>(State(agent): State<Agent<S>>) -> Response {
    let missing = agent.readiness().await.missing;
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    respond(status, &json!({ "ready": missing.is_empty(), "missing": missing }))
}

/// Everything that the process counts.
pub(crate) async fn metrics<S: ChargeStore>(State(agent): State<Agent<S>>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], agent.metrics()).into_response()
}

fn respond(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
