//! Error responses in the form `application/problem+json` (RFC 9457), with cause and remedy. Denials are not errors;
//! [`tollgate::http_response`] formats them.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;
use tollgate::http_response::PROBLEM_JSON;

/// Error response to a request without a decision.
#[derive(Debug)]
pub(crate) struct ProblemDetails {
    status: StatusCode,
    detail: String,
}

pub(crate) type HandlerResult = Result<Response, ProblemDetails>;

impl ProblemDetails {
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        (self.status, [(CONTENT_TYPE, PROBLEM_JSON)], body.to_string()).into_response()
    }
}
