//! `GET /api/v1/openapi.yaml`: the description of all routes. `/openapi.yaml` is that of an agent, which has the same address under
//! `tollgate up`.
//!
//! The file is written by hand. Tests compare it with the router, and with each answer of the suite.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

const DOCUMENT: &str = include_str!("../../openapi.yaml");

pub(super) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/yaml")], DOCUMENT).into_response()
}
