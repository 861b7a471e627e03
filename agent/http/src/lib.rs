//! An agent beside its gateway: the same limiter, asked over HTTP.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = tollgate::Agent::builder()
//!     .rule(tollgate::Rule::per("per-key", &["api_key"], "100/min".parse()?))
//!     .start()?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! tollgate_http::serve(listener, tollgate_http::router(agent), std::future::pending()).await?;
//! # Ok(()) }
//! ```
//!
//! It decides nothing: a request becomes a call, the agent answers it, and the answer becomes a response. TLS and access
//! control are left to what stands in front of it. Modules stand in the order of their layers: each imports only what
//! stands before it.

mod problem;
mod body;
mod call;
mod http;
mod amend;
mod json;
mod admin;
mod serve;

use axum::Router;
use axum::middleware::map_response_with_state;
use axum::routing::{get, post};
use tollgate::Agent;
use tollgate::store::ChargeStore;

pub use body::BODY_LEN_MAX;
pub use call::COST_MAX;
pub use serve::{DRAIN_WAIT, serve};

/// Everything that an agent answers over HTTP.
pub fn router<S: ChargeStore>(agent: Agent<S>) -> Router {
    Router::new()
        .route("/check", get(http::check_request::<S>).post(http::check_call::<S>))
        .route("/settle", post(amend::settle::<S>))
        .route("/release", post(amend::release::<S>))
        .route("/explain", post(http::explain_call::<S>))
        .route("/json", post(json::check::<S>))
        .route("/healthz", get(admin::healthz::<S>))
        .route("/readyz", get(admin::readyz::<S>))
        .route("/metrics", get(admin::metrics::<S>))
        .fallback(http::unknown_path)
        .method_not_allowed_fallback(http::wrong_method)
        .layer(map_response_with_state(agent.clone(), admin::sign::<S>))
        .with_state(agent)
}
