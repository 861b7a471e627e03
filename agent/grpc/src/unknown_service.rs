//! Response to requests for a service that does not exist, and to clients that do not speak gRPC.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tonic::Status;

use crate::grpc_only::{NO_GRPC, is_grpc};

pub(crate) async fn respond(request: Request) -> Response {
    if is_grpc(request.headers()) {
        let detail = format!(
            "unknown method `{}`; this agent has envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit, envoy.service.auth.v3.Authorization/Check and grpc.health.v1.Health/Check",
            request.uri().path()
        );
        return Status::unimplemented(detail).into_http();
    }
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, NO_GRPC).into_response()
}
