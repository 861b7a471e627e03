//! `/healthz`, `/readyz` and `/metrics`, for the operators of an agent.
//!
//! `/healthz` reports on the process and returns 200 whenever it responds: an agent without its store still enforces
//! limits and must not be restarted for it. `/readyz` reports whether gateways should send traffic. These routes change
//! nothing.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};
use tollgate::Agent;
use tollgate::store::ChargeStore;
use tollgate_listen::{CertificateWarning, Tls};
use tollgate_metrics::Exposition;

use crate::administration;
use crate::problem_details::ProblemDetails;

/// `GET /healthz`: the version, the rules in force, and known faults. The status is `degraded` while a part that the agent uses
/// fails; `problems` names each one with its reason.
pub(crate) async fn healthz<S: ChargeStore>(State(agent): State<Agent<S>>, State(tls): State<Option<Tls>>) -> Response {
    let (engine, certificate) = (agent.engine(), tls.as_ref().and_then(Tls::warning));
    let (generation, rules, origin) = engine.with_rules(|set| (set.generation, set.rules.len(), set.origin.clone()));
    let problems = problems(&agent, certificate.as_ref());
    let servers = agent.store_servers().into_iter();
    let redis: Vec<Value> = servers
        .map(|server| json!({ "node": server.node, "connected": server.is_connected, "why": server.trouble }))
        .collect();
    let health = json!({
        "status": if problems.is_empty() { "ok" } else { "degraded" },
        "problems": problems,
        "node": *engine.settings().node,
        "version": env!("CARGO_PKG_VERSION"),
        "generation": generation,
        "rules": rules,
        "rules_from": *origin,
        "redis": redis,
        "rules_error": engine.rejection(),
        "keys_error": agent.keys_refusal(),
        "bus_error": engine.bus_error(),
        "certificate_warning": certificate.map(|CertificateWarning { file, ends_s, why, .. }| {
            json!({ "file": file, "ends_ms": ends_s.saturating_mul(1_000), "why": why })
        }),
        "agents": engine.known_fleet_size(),
        "degraded": engine.is_degraded(),
        "emergency": engine.emergency().is_some_and(|switch| switch.quota.is_some()),
    });
    respond(StatusCode::OK, &health)
}

/// `GET /readyz`: 200 if gateways should use this agent, else 503 with the missing parts. An agent may be ready and have
/// problems, which the body names as `/healthz` does.
pub(crate) async fn readyz<S: ChargeStore>(State(agent): State<Agent<S>>, State(tls): State<Option<Tls>>) -> Response {
    let missing = agent.missing_parts().await;
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let problems = problems(&agent, tls.as_ref().and_then(Tls::warning).as_ref());
    respond(status, &json!({ "ready": missing.is_empty(), "missing": missing, "problems": problems }))
}

/// `GET /metrics`: all metrics of the process, in the format that the client accepts.
pub(crate) async fn metrics<S: ChargeStore>(State(agent): State<Agent<S>>, headers: HeaderMap) -> Response {
    match administration::in_turn(move || Exposition::new(&headers, agent.metrics())).await {
        Ok(Exposition { content_type, text }) => ([(CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => {
            let detail = format!("the metrics cannot be read: {error}; ask again, and report it if it happens again");
            ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response()
        }
    }
}

/// Returns the parts that fail, with the reasons. A certificate fails once it has ended.
fn problems<S: ChargeStore>(agent: &Agent<S>, certificate: Option<&CertificateWarning>) -> Vec<Value> {
    let engine = agent.engine();
    // A server that refuses writes answers pings, so calls ask it again and again.
    let refusal = || agent.store_servers().into_iter().find(|server| server.is_connected && server.trouble.is_some());
    let redis = (engine.is_degraded() || refusal().is_some()).then(|| {
        let trouble = agent.store_servers().into_iter().find_map(|server| server.trouble);
        let why =
            trouble.unwrap_or_else(|| "it does not answer in time; remedy: check its load and the network".to_owned());
        format!("{why}; while it does not decide, signals or `on_failure` do")
    });
    let digest_key = engine.do_digest_keys_differ().then(|| {
        let why = "agents that share this Redis have different digest keys, and each key admits a whole quota; start all with the same --digest-key-file";
        why.to_owned()
    });
    let ended = certificate.filter(|warning| warning.has_ended);
    let parts = [
        ("redis", redis),
        ("kafka", engine.bus_error()),
        ("rules", engine.rejection()),
        ("keys", agent.keys_refusal()),
        ("digest-key", digest_key),
        ("certificate", ended.map(|warning| format!("{}: {}", warning.file, warning.why))),
    ];
    let problem = |(part, why): (&str, Option<String>)| Some(json!({ "part": part, "why": why? }));
    parts.into_iter().filter_map(problem).collect()
}

fn respond(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
