//! Response to a denied request: as `/check` answers, or a status of gRPC.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollgate::{Agent, Call, Denial, http_response};

/// Status `RESOURCE_EXHAUSTED` of gRPC.
const RESOURCE_EXHAUSTED: &str = "8";
/// Status `PERMISSION_DENIED` of gRPC, which clients do not retry.
const PERMISSION_DENIED: &str = "7";
/// Characters that a message of gRPC has in escaped form, apart from those outside of ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Response without the types of the server's own responses.
pub(crate) type DeniedResponse = Response<Full<Bytes>>;

/// Content type of a gRPC request; none of any other request.
pub(crate) type GrpcType = Option<HeaderValue>;

pub(crate) fn grpc_type(headers: &HeaderMap) -> GrpcType {
    headers.get(CONTENT_TYPE).filter(|value| value.as_bytes().starts_with(b"application/grpc")).cloned()
}

pub(crate) fn response(agent: &Agent, call: &Call<'_>, denial: &Denial, grpc_type: GrpcType) -> DeniedResponse {
    let decision = &denial.decision;
    let Some(grpc_type) = grpc_type else {
        let id = agent.decision_id(call, decision);
        return http_response::response(decision, agent.node(), &id).map(Full::from);
    };
    let status = if http_response::may_pass_later(decision) { RESOURCE_EXHAUSTED } else { PERMISSION_DENIED };
    let message = utf8_percent_encode(&denial.to_string(), ESCAPED).to_string();
    let mut headers = http_response::headers(decision, agent.node());
    headers.insert(CONTENT_TYPE, grpc_type);
    headers.insert("grpc-status", HeaderValue::from_static(status));
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert("grpc-message", message);
    }
    let mut response = DeniedResponse::default();
    *response.headers_mut() = headers;
    response
}
