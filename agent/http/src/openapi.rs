//! `GET /openapi.yaml`: the description of all routes, for clients and generators of code.
//!
//! The file is written by hand, because types of handlers tell neither statuses nor headers. Tests compare it with the router, and
//! with each answer of the suites.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

const DOCUMENT: &str = include_str!("../openapi.yaml");

pub(crate) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/yaml")], DOCUMENT).into_response()
}
