//! Response to requests for a service that does not exist, and to clients that do not speak gRPC.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tonic::Status;

pub(crate) async fn respond(request: Request) -> Response {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|kind| kind.starts_with("application/grpc")) {
        let detail = format!(
            "unknown method `{}`; this agent has envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit, envoy.service.auth.v3.Authorization/Check and grpc.health.v1.Health/Check",
            request.uri().path()
        );
        return Status::unimplemented(detail).into_http();
    }
    let text = "this address speaks gRPC; HTTP is on the address of --http\n";
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response()
}
