//! `grpc.health.v1.Health`: the readiness of the agent, as `/readyz` reports it.

use tollgate::Agent;
use tollgate::store::ChargeStore;
use tonic::{Request, Response, Status};

use crate::proto::grpc::health::v1::health_check_response::ServingStatus;
use crate::proto::grpc::health::v1::health_server::Health;
use crate::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};

/// Path of the method of the service.
pub(crate) const ROUTE: &str = "/grpc.health.v1.Health/Check";
/// Names under which the agent reports its readiness; the empty one stands for the whole server.
const SERVICES: [&str; 3] = ["", "envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization"];

pub(crate) struct AgentHealth<S: ChargeStore>(Agent<S>);

impl<S: ChargeStore> AgentHealth<S> {
    pub(crate) fn new(agent: Agent<S>) -> Self {
        Self(agent)
    }
}

#[tonic::async_trait]
impl<S: ChargeStore> Health for AgentHealth<S> {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if !SERVICES.contains(&&*service) {
            let known = SERVICES[1..].join(" or ");
            return Err(Status::not_found(format!("unknown service `{service}`; ask for {known}")));
        }
        let is_ready = self.0.missing_parts().await.is_empty();
        let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}
