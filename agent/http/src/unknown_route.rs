//! Responses to requests for a path or a method that does not exist; they list the existing ones.

use axum::extract::Request;
use http::StatusCode;

use crate::body;
use crate::problem_details::ProblemDetails;

/// Paths of the routes for gateways.
pub(crate) const TRAFFIC: &[&str] = &["/check", "/batch", "/json"];
/// Paths of the routes for operators.
pub(crate) const ADMIN: &[&str] =
    &["/explain", "/settle", "/release", "/reset", "/emergency", "/healthz", "/readyz", "/metrics", "/openapi.yaml"];

/// Answers a path that is not among these.
pub(crate) async fn unknown_path(request: Request, known: &[&str], elsewhere: &str) -> ProblemDetails {
    let path = request.uri().path().to_owned();
    body::discard(request.into_body()).await;
    let (last, others) = known.split_last().expect("a router has routes");
    let page = if path == "/" { "; the page is that of `tollgate aggregator` or `tollgate up`" } else { "" };
    let detail = format!("unknown path `{path}`; use {} or {last}{elsewhere}{page}", others.join(", "));
    ProblemDetails::new(StatusCode::NOT_FOUND, detail)
}

pub(crate) async fn wrong_method(request: Request) -> ProblemDetails {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    body::discard(request.into_body()).await;
    let supported = match &*path {
        "/check" | "/explain" | "/emergency" => "GET, HEAD or POST",
        "/batch" | "/json" | "/settle" | "/release" | "/reset" => "POST",
        _ => "GET or HEAD",
    };
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not support {method}; use {supported}"))
}
