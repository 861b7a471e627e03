//! HTTP server of an agent, for gateways that run beside it.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = tollgate::Agent::builder()
//!     .rule(tollgate::Rule::per("per-key", &["api_key"], "100/min".parse()?))
//!     .start()?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! tollgate_listen::serve(listener, tollgate_http::router(agent), std::future::pending()).await;
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
mod http_settings;
mod forwarded_request;
mod http_state;
mod check;
mod batch;
mod explain;
mod settle_release;
mod reset;
mod json;
mod administration;
mod admin;
mod emergency;
mod openapi;
mod unknown_route;
mod common_headers;

use axum::Router;
use axum::extract::{FromRef, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};
use tollgate::Agent;
use tollgate::store::ChargeStore;
use tower::util::MapResponseLayer;

pub use body::BODY_BYTES_MAX_DEFAULT;
pub use gateway::Gateway;
pub use http_settings::HttpSettings;
pub use operator::{OperatorToken, TOKEN_LEN_MIN};

use http_state::HttpState;
use unknown_route::{ADMIN, TRAFFIC};

/// Routes of an agent on two sockets.
pub struct SplitRoutes {
    /// Decisions and readiness, for gateways.
    pub traffic: Router,
    /// All others, for operators.
    pub admin: Router,
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
    let state = HttpState::new(settings, agent);
    let known = || TRAFFIC.iter().chain(ADMIN).copied().collect();
    complete(traffic().merge(admin(&state)), state, known(), "")
}

/// Returns the routes of an agent for two sockets.
pub fn split_routes(settings: HttpSettings, agent: Agent) -> SplitRoutes {
    let state = HttpState::new(settings, agent);
    let of_traffic = TRAFFIC.iter().chain(&["/readyz"]).copied().collect();
    let traffic = traffic().route("/readyz", get(admin::readyz));
    SplitRoutes {
        traffic: complete(traffic, state.clone(), of_traffic, "; the paths of operators are on the address of --admin"),
        admin: complete(admin(&state), state, ADMIN.to_vec(), "; the paths of gateways are on the address of --http"),
    }
}

/// Returns routes of operators that other crates add. Like those of this crate, they give way to decisions.
///
/// # Panics
/// Panics if there are no routes.
pub fn as_administration(routes: Router) -> Router {
    routes.route_layer(from_fn(administration::give_way))
}

/// Returns routes that other crates add and that change what is admitted: only operators may send them anything but GET, as with
/// `/settle`. They give way to decisions, too.
///
/// # Panics
/// Panics if there are no routes.
pub fn for_operators(settings: &HttpSettings, routes: Router) -> Router {
    as_administration(routes.route_layer(from_fn_with_state(settings.token.clone(), operator::only_operators)))
}

/// Returns the routes for gateways.
fn traffic<S: ChargeStore>() -> Router<HttpState<S>> {
    Router::new()
        .route(check::CHECK_PATH, get(check::check_request::<S>).post(check::check_call::<S>))
        .route("/check/", any(check::check_prefixed::<S>))
        .route("/check/{*path}", any(check::check_prefixed::<S>))
        .route("/batch", post(batch::check::<S>))
        .route("/json", post(json::check::<S>))
}

/// Returns the routes for operators.
fn admin<S: ChargeStore>(state: &HttpState<S>) -> Router<HttpState<S>> {
    let operators = Router::new()
        .route(operator::SETTLE_PATH, post(settle_release::settle::<S>))
        .route(operator::RELEASE_PATH, post(settle_release::release::<S>))
        .route(operator::RESET_PATH, post(reset::reset::<S>))
        .route(operator::EMERGENCY, get(emergency::show::<S>).post(emergency::switch::<S>))
        .route_layer(from_fn_with_state(state.clone(), operator::only_operators));
    Router::new()
        .route(explain::EXPLAIN_PATH, get(explain::explain_request::<S>).post(explain::explain_call::<S>))
        .route("/explain/", any(explain::explain_prefixed::<S>))
        .route("/explain/{*path}", any(explain::explain_prefixed::<S>))
        .route("/healthz", get(admin::healthz::<S>))
        .route("/readyz", get(admin::readyz::<S>))
        .route("/metrics", get(admin::metrics::<S>))
        .route("/openapi.yaml", get(openapi::openapi))
        .merge(operators)
        .route_layer(from_fn(administration::give_way))
}

/// Adds what all sockets have: answers to unknown paths, which name the known ones, and the header of the node.
fn complete<S: ChargeStore>(
    routes: Router<HttpState<S>>,
    state: HttpState<S>,
    known: Vec<&'static str>,
    elsewhere: &'static str,
) -> Router {
    let unknown_path = async move |request: Request| unknown_route::unknown_path(request, &known, elsewhere).await;
    routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_route::wrong_method)
        .layer(MapResponseLayer::new(common_headers::add_to(Agent::from_ref(&state))))
        .with_state(state)
}
