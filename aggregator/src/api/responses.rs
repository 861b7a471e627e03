//! JSON responses, and the problem details of errors.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::queries::AskError;

const PROBLEM_JSON: &str = "application/problem+json";

impl IntoResponse for AskError {
    fn into_response(self) -> Response {
        problem(StatusCode::SERVICE_UNAVAILABLE, self.detail())
    }
}

/// Answers a method that a path does not have: all paths only read.
pub(super) async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    problem(StatusCode::METHOD_NOT_ALLOWED, &format!("{path} does not support {method}; use GET or HEAD"))
}

pub(super) fn respond(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(super) fn problem(status: StatusCode, detail: &str) -> Response {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
    });
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], body.to_string()).into_response()
}
