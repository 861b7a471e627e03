//! `/check` and `/explain`: decisions about single calls.
//!
//! `GET /check` decides about the request itself, or about the client's request that a gateway forwards in headers
//! ([`crate::forwarded_request`]). `/check/PATH` decides about the client's request that Envoy's `ext_authz` forwards:
//! with its method, and its path behind a prefix. It ignores `X-Forwarded-Uri`, because a client of Envoy may send
//! the headers of other gateways. `POST /check` decides about a call whose descriptors are in the body.
//! Several Envoy descriptors at once are the task of `json`.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use tollgate::explain::explain;
use tollgate::http_response::{self, PROBLEM_JSON};
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, request};

use crate::body;
use crate::call_request::{self, CHECK, EXPLAIN};
use crate::forwarded_request;
use crate::problem_details::{HandlerResult, ProblemDetails};

pub(crate) const CHECK_PATH: &str = "/check";

/// `GET /check`: decides the request itself, by the descriptors that the rules declare.
pub(crate) async fn check_request<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    let (method, path) = forwarded_request::method_and_path(&parts)?;
    Ok(decide_request(&agent, &parts, method, &path).await)
}

/// `/check/PATH`: decides a request of the same method to `/PATH`. Headers with another path are from the client.
pub(crate) async fn check_prefixed<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    let path = forwarded_request::path_and_query(&parts.uri);
    decide_request(&agent, &parts, parts.method.as_str(), path.strip_prefix(CHECK_PATH).unwrap_or(path)).await
}

/// `POST /check`: decides the call in the body.
pub(crate) async fn check_call<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let body = body::read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &CHECK).map_err(ProblemDetails::bad_request)?;
    Ok(decide(&agent, &parsed.call).await)
}

/// `POST /explain`: explains how the rules apply to the call in the body, and for which of them this agent
/// holds an answer, without counting it.
pub(crate) async fn explain_call<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let body = body::read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &EXPLAIN).map_err(ProblemDetails::bad_request)?;
    let engine = agent.engine();
    let mut explanation = engine.with_rules(|rules| explain(rules, &engine.settings().digest_key, &parsed.call));
    let (answers, budgets) = (agent.local_answers(&parsed.call), agent.budgets(&parsed.call).await);
    for rule in explanation["rules"].as_array_mut().into_iter().flatten() {
        let held = answers.iter().find(|(name, _)| rule["rule"].as_str() == Some(&**name));
        if rule["applies"] == true {
            rule["by"] = held.map(|(_, answer)| answer.as_str()).into();
        }
        if let Some(budget) = budgets.iter().find(|budget| rule["rule"].as_str() == Some(&*budget.rule)) {
            rule["budget"] = budget.units.into();
            // Without granted units the record is not renewed, and its demand is an old one.
            let renewed = budget.view.filter(|view| view.age_ms.is_some());
            rule["demand"] = renewed.map(|view| view.shown.wants).into();
            rule["budget_moves"] = budget.view.map(|view| view.shown.moves).into();
            rule["budget_age_ms"] = renewed.and_then(|view| view.age_ms).into();
        }
    }
    // While it is on, its quota decides in place of the rules that follow.
    let quota = engine.emergency().and_then(|switch| switch.quota);
    explanation["emergency"] = quota.map(|quota| quota.to_string()).into();
    Ok(([(CONTENT_TYPE, "application/json")], explanation.to_string()).into_response())
}

async fn decide_request<S: ChargeStore>(agent: &Agent<S>, parts: &Parts, method: &str, path: &str) -> Response {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let request = request::Request { method, path, peer, headers: &parts.headers };
    decide(agent, &agent.describe(&request)).await
}

async fn decide<S: ChargeStore>(agent: &Agent<S>, call: &Call<'_>) -> Response {
    let decision = agent.decide(call).await;
    let content_type = if decision.allowed { "application/json" } else { PROBLEM_JSON };
    // A cached response would be repeated without being counted.
    let fixed = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    let headers = http_response::headers(&decision, &agent.engine().settings().node);
    (
        http_response::status_code(&decision),
        fixed,
        headers,
        http_response::body(&decision, &agent.decision_id(call, &decision)),
    )
        .into_response()
}
