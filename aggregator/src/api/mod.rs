//! What an aggregator answers over HTTP: whether it lives and is ready, what it measures, and its counts.
//!
//! It only looks: everything comes from the pump's [`Window`], which is asked and never locked.

mod others;
mod counters;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::pump::{Status, Window};

/// How long the pump is waited for; a round takes far less.
const PUMP_WAIT: Duration = Duration::from_secs(5);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROBLEM_JSON: &str = "application/problem+json";

#[derive(Clone)]
struct Shared {
    id: Arc<str>,
    window: Window,
    registry: Arc<Mutex<Registry>>,
}

/// Everything that an aggregator of this name answers.
pub fn router(id: Arc<str>, window: Window, registry: Registry) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/counters", get(counters::counters))
        .route("/poisoned", get(poisoned))
        .fallback(unknown_path)
        .with_state(Shared { id, window, registry: Arc::new(Mutex::new(registry)) })
}

/// Whether the pump still turns.
async fn healthz(State(shared): State<Shared>) -> Response {
    let Some(status) = within(shared.window.status()).await else { return busy() };
    let partitions: Vec<Value> = status
        .partitions
        .iter()
        .map(|part| {
            json!({
                "partition": part.partition,
                "read": part.read.map(|(offset, _)| offset),
                "appended_ms": part.read.map(|(_, appended)| appended.as_ms()),
                "watermark_ms": part.watermark.map(tollgate_core::clock::Timestamp::as_ms),
                "restored": part.restored,
                "owned": part.owned,
            })
        })
        .collect();
    let health = json!({
        "status": "ok",
        "aggregator": *shared.id,
        "version": env!("CARGO_PKG_VERSION"),
        "aggregators": status.members,
        "bus_error": status.bus_error,
        "partitions": partitions,
    });
    respond(StatusCode::OK, &health)
}

/// Whether what it says may be relied on, and what is missing if not.
async fn readyz(State(shared): State<Shared>) -> Response {
    let Some(status) = within(shared.window.status()).await else { return busy() };
    let missing = missing(&status);
    let code = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    respond(code, &json!({ "ready": missing.is_empty(), "missing": missing }))
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shared.registry.lock()) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written as text"),
    }
}

/// The records that were set aside last.
async fn poisoned(State(shared): State<Shared>) -> Response {
    let Some(asides) = within(shared.window.asides()).await else { return busy() };
    let asides: Vec<Value> = asides
        .iter()
        .map(|aside| {
            json!({
                "topic": "calls",
                "partition": aside.partition,
                "offset": aside.offset,
                "appended_ms": aside.appended.as_ms(),
                "bytes": aside.len,
                "reason": aside.reason,
                "file": aside.file,
            })
        })
        .collect();
    respond(StatusCode::OK, &json!({ "poisoned": asides }))
}

async fn unknown_path(request: Request) -> Response {
    let path = request.uri().path();
    let detail = format!("there is no `{path}` here; ask /healthz, /readyz, /metrics, /counters or /poisoned");
    problem(StatusCode::NOT_FOUND, &detail)
}

fn missing(status: &Status) -> Vec<String> {
    let mut missing = Vec::new();
    if let Some(error) = &status.bus_error {
        missing.push(error.clone());
    } else if !status.settled {
        missing.push("it listens who else is there, for a second".to_owned());
    }
    let restoring = status.waiting + status.partitions.iter().filter(|part| part.owned && !part.restored).count();
    if restoring > 0 {
        missing.push(format!("{restoring} partitions are being restored from the log"));
    }
    missing
}

async fn within<T>(answer: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PUMP_WAIT, answer).await.ok().flatten()
}

fn busy() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "the pump does not answer; if this lasts, restart this aggregator")
}

fn respond(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn problem(status: StatusCode, detail: &str) -> Response {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
    });
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], body.to_string()).into_response()
}
