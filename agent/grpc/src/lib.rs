//! gRPC surface of an agent: Envoy's rate limit service, and its external authorization.
//!
//! The crate makes no decisions: it translates a request into calls, passes them to the agent, and translates the decisions. The
//! messages are generated from trimmed copies of Envoy's schemas (`common/proto`): the crates with all of them have 88,000 lines.
//! Modules are listed in the order of their layers: each one imports only the modules before it, and a test checks this.

#[allow(unreachable_pub, clippy::pedantic, reason = "generated code")]
mod proto;
mod headers;
mod metadata;
mod rate_limit;
mod external_auth;
mod health;
mod reflection;
mod grpc_only;
mod unknown_service;
#[cfg(test)]
mod tests;

use axum::Router;
use tollgate::Agent;
use tollgate::store::ChargeStore;

use grpc_only::GrpcOnly;
use proto::envoy::service::auth::v3::authorization_server::AuthorizationServer;
use proto::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;
use proto::grpc::health::v1::health_server::HealthServer;

/// Default of the maximum length of a request, in bytes.
pub const REQUEST_BYTES_MAX_DEFAULT: u32 = 64 << 10;

/// Returns the services of an agent with the store that its builder chose. Its code is compiled in this crate, and not anew in
/// each program.
pub fn router(agent: Agent) -> Router {
    router_with(REQUEST_BYTES_MAX_DEFAULT, agent)
}

/// Returns the services of an agent whose requests have at most so many bytes.
pub fn router_with(request_bytes_max: u32, agent: Agent) -> Router {
    router_over(request_bytes_max, agent)
}

/// Returns the services of an agent over any store, as routes of an HTTP/2 server.
pub fn router_over<S: ChargeStore>(request_bytes_max: u32, agent: Agent<S>) -> Router {
    let bytes_max = usize::try_from(request_bytes_max).unwrap_or(usize::MAX);
    let health = HealthServer::new(health::AgentHealth::new(agent.clone()));
    let external_auth = AuthorizationServer::new(external_auth::ExternalAuth::new(agent.clone()));
    let rate_limit = RateLimitServiceServer::new(rate_limit::RateLimits::new(agent));
    Router::new()
        .route_service(external_auth::ROUTE, GrpcOnly(external_auth.max_decoding_message_size(bytes_max)))
        .route_service(rate_limit::ROUTE, GrpcOnly(rate_limit.max_decoding_message_size(bytes_max)))
        .route_service(health::ROUTE, GrpcOnly(health.max_decoding_message_size(bytes_max)))
        .merge(reflection::router())
        .fallback(unknown_service::respond)
}
