//! The HTTP interface of an aggregator: health, readiness, metrics, counters and dead letters.
//!
//! It only reads: everything comes from [`Queries`], which the event loop answers. Counters of the partitions of other
//! aggregators come from their HTTP (`peers`).

mod responses;
mod params;
mod peers;
mod counters;
mod regions;
mod page;
mod openapi;
mod v1;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_aggregator_engine::worker::AssignedPartition;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_listen::{CertificateWarning, Tls};
use tollgate_metrics::Exposition;

use crate::analytics::Analytics;
use crate::dead_letters::KeptDeadLetter;
use crate::fault::{Fault, problems};
use crate::queries::{AggregatorState, AskError, Queries};
use crate::regions::RegionQueries;

pub use counters::counters_router;
use params::without_parameters;
pub use regions::regions_router;
use responses::{problem, respond, wrong_method};
pub use v1::analytics_router;

#[derive(Clone)]
struct ApiState {
    id: Arc<str>,
    queries: Queries,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    tls: Option<Tls>,
}

/// Returns the routes of an aggregator of this name, with those of the regions in which it takes part. `metrics` returns all metrics of
/// the process as OpenMetrics text. `/healthz` reports the certificate of `tls`.
pub fn router(
    id: Arc<str>,
    (queries, analytics): (Queries, Analytics),
    regions: Option<RegionQueries>,
    metrics: impl Fn() -> String + Send + Sync + 'static,
    tls: Option<Tls>,
) -> Router {
    let of_analytics = analytics_router(id.clone(), true, queries.clone(), analytics, regions.clone());
    let of_counters = counters_router(queries.clone(), regions.clone());
    let of_regions = regions.map_or_else(Router::new, |regions| regions_router(regions, queries.clone()));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .route("/dead-letters", get(dead_letters))
        .route_layer(from_fn(without_parameters))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(ApiState { id, queries, metrics: Arc::new(metrics), tls })
        .merge(of_analytics)
        .merge(of_counters)
        .merge(of_regions)
}

/// Answers as long as the event loop runs, with the state of each partition. The status is `degraded` while the bus cannot be used;
/// `problems` names the reason, as `/healthz` of an agent does.
async fn healthz(State(api): State<ApiState>) -> Result<Response, AskError> {
    let partition = |(partition, assigned): (Partition, &AssignedPartition)| {
        let counting = &assigned.counting;
        json!({
            "partition": partition,
            "read": counting.read.map(|(offset, _)| offset),
            "appended_ms": counting.read.map(|(_, appended)| appended.as_ms()),
            "watermark_ms": counting.watermark.map(Timestamp::as_ms),
            "restored": counting.restored,
            "owned": assigned.is_owned(),
        })
    };
    let certificate = api.tls.as_ref().and_then(Tls::warning);
    let health = move |state: &AggregatorState<'_>| {
        let ended = certificate.as_ref().filter(|warning| warning.has_ended).map(|warning| Fault {
            why: format!("{}: {}", warning.file, warning.why),
            since: Timestamp::from_ms(warning.ends_s.saturating_mul(1_000)),
        });
        let bus_error = state.bus_fault.as_ref().map(|problem| problem.why.clone());
        let problems = problems([("kafka", state.bus_fault.clone()), ("certificate", ended)]);
        let certificate = certificate.map(|CertificateWarning { file, ends_s, why, .. }| {
            json!({ "file": file, "ends_ms": ends_s.saturating_mul(1_000), "why": why })
        });
        json!({
            "status": if problems.is_empty() { "ok" } else { "degraded" },
            "problems": problems,
            "aggregator": *api.id,
            "version": env!("CARGO_PKG_VERSION"),
            "aggregators": state.worker.members(),
            "bus_error": bus_error,
            "certificate_warning": certificate,
            "partitions": state.worker.assigned().map(partition).collect::<Vec<_>>(),
        })
    };
    Ok(respond(StatusCode::OK, &api.queries.ask(health).await?))
}

/// Answers 200 once all own partitions are restored, otherwise the reasons why not.
async fn readyz(State(api): State<ApiState>) -> Result<Response, AskError> {
    let missing = api.queries.ask(missing).await?;
    let code = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(respond(code, &json!({ "ready": missing.is_empty(), "missing": missing })))
}

async fn show_metrics(State(api): State<ApiState>, headers: HeaderMap) -> Response {
    let text = tollgate_metrics::join([tollgate_metrics::build_info(), (api.metrics)()]);
    let Exposition { content_type, text } = Exposition::new(&headers, text);
    ([(CONTENT_TYPE, content_type)], text).into_response()
}

async fn dead_letters(State(api): State<ApiState>) -> Result<Response, AskError> {
    let dead_letter = |kept: &KeptDeadLetter| {
        json!({
            "topic": kept.letter.topic.as_str(),
            "partition": kept.letter.partition,
            "offset": kept.letter.offset,
            "appended_ms": kept.letter.appended.as_ms(),
            "bytes": kept.len,
            "reason": kept.letter.reason,
            "file": kept.file.as_ref().map(|file| file.display().to_string()),
        })
    };
    let list = move |state: &AggregatorState<'_>| json!({ "dead_letters": state.dead_letters.newest.iter().map(dead_letter).collect::<Vec<_>>() });
    Ok(respond(StatusCode::OK, &api.queries.ask(list).await?))
}

async fn unknown_path(request: Request) -> Response {
    let path = request.uri().path();
    let detail = format!(
        "unknown path `{path}`; use /api/v1/status, /series, /rules, /callers, /agents and the others of /api/v1/openapi.yaml, or /healthz, /readyz, /metrics, /counters, /dead-letters, or /regions with --ledger"
    );
    problem(StatusCode::NOT_FOUND, &detail)
}

fn missing(state: &AggregatorState<'_>) -> Vec<String> {
    let worker = state.worker;
    let mut missing = Vec::new();
    if let Some(problem) = &state.bus_fault {
        missing.push(problem.why.clone());
    } else if !worker.membership().is_none_or(Membership::is_settled) {
        missing.push("it waits for one second for the heartbeats of other aggregators".to_owned());
    }
    let is_restoring = |(_, assigned): &(_, &AssignedPartition)| assigned.is_owned() && !assigned.counting.restored;
    let restoring = worker.unassigned() + worker.assigned().filter(is_restoring).count();
    if restoring > 0 {
        missing.push(format!("{restoring} partitions are being restored from the log"));
    }
    missing
}
