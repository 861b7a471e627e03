//! HTTP server of an agent, for gateways that run beside it.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = tollgate::Agent::builder()
//!     .rule(tollgate::Rule::per("per-key", &["api_key"], "100/min".parse()?))
//!     .start()?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! tollgate_listen::serve(listener, tollgate_http::router(agent), std::future::pending()).await?;
//! # Ok(()) }
//! ```
//!
//! The crate makes no decisions: it parses a request into a call, passes it to the agent, and formats the decision. TLS is
//! the task of `tollgate_listen`. Modules are listed in the order of their layers: each one imports
//! only the modules before it, and a test checks this.

mod problem_details;
mod body;
mod operator;
mod call_request;
mod gateway;
mod forwarded_request;
mod check;
mod batch;
mod explain;
mod settle_release;
mod json;
mod admin;
mod emergency;
mod openapi;
mod unknown_route;

use axum::middleware::{from_fn_with_state, map_response_with_state};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use tollgate::Agent;
use tollgate::store::ChargeStore;

pub use body::BODY_LEN_MAX;
pub use gateway::Gateway;
pub use operator::{OperatorToken, TOKEN_LEN_MIN};

use forwarded_request::ForwardedRequests;

/// Settings of the routes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Gateway whose headers are believed.
    pub gateway: Gateway,
    /// Token of operators on other machines; without one, only peers on the agent's own machine may change counts or limits.
    pub token: Option<OperatorToken>,
}

impl HttpSettings {
    /// Returns the default settings behind a gateway.
    #[must_use]
    pub fn behind(gateway: Gateway) -> Self {
        Self { gateway, ..Self::default() }
    }
}

/// Returns the routes of an agent with the store that its builder chose, behind any gateway. Its code is compiled in this crate,
/// and not anew in each program.
pub fn router(agent: Agent) -> Router {
    router_with(HttpSettings::default(), agent)
}

/// Returns the routes of an agent with these settings.
pub fn router_with(settings: HttpSettings, agent: Agent) -> Router {
    router_over(settings, agent)
}

/// Returns the routes of an agent over any store.
pub fn router_over<S: ChargeStore>(settings: HttpSettings, agent: Agent<S>) -> Router {
    let operators = Router::new()
        .route("/settle", post(settle_release::settle::<S>))
        .route("/release", post(settle_release::release::<S>))
        .route(operator::EMERGENCY, get(emergency::show::<S>).post(emergency::switch::<S>))
        .route_layer(from_fn_with_state(settings.token, operator::only_operators));
    Router::new()
        .route(check::CHECK_PATH, get(check::check_request::<S>).post(check::check_call::<S>))
        .route("/check/", any(check::check_prefixed::<S>))
        .route("/check/{*path}", any(check::check_prefixed::<S>))
        .route(explain::EXPLAIN_PATH, get(explain::explain_request::<S>).post(explain::explain_call::<S>))
        .route("/explain/", any(explain::explain_prefixed::<S>))
        .route("/explain/{*path}", any(explain::explain_prefixed::<S>))
        .route("/batch", post(batch::check::<S>))
        .route("/json", post(json::check::<S>))
        .merge(operators)
        .route("/healthz", get(admin::healthz::<S>))
        .route("/readyz", get(admin::readyz::<S>))
        .route("/metrics", get(admin::metrics::<S>))
        .route("/openapi.yaml", get(openapi::openapi))
        .fallback(unknown_route::unknown_path)
        .method_not_allowed_fallback(unknown_route::wrong_method)
        .layer(Extension(ForwardedRequests::of(settings.gateway)))
        .layer(map_response_with_state(agent.clone(), admin::add_node_header::<S>))
        .with_state(agent)
}
