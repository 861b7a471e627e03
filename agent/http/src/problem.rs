//! What is told to those whose question was none: `application/problem+json` (RFC 9457) that says what is wrong, why,
//! and what to do. Denials are not of this kind; the agent words them.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;
use tollgate::answer::PROBLEM_JSON;

/// A question that got no decision.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// A question that cannot be understood.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }
}

impl IntoResponse for Problem {
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
