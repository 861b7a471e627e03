//! Responses to requests for a path or a method that does not exist; they list the existing ones.

use axum::extract::Request;
use http::StatusCode;

use crate::body;
use crate::problem_details::ProblemDetails;

pub(crate) async fn unknown_path(request: Request) -> ProblemDetails {
    let path = request.uri().path().to_owned();
    body::discard(request.into_body()).await;
    let known =
        "/check, /batch, /explain, /json, /settle, /release, /emergency, /healthz, /readyz, /metrics or /openapi.yaml";
    let detail = format!("unknown path `{path}`; use {known}");
    ProblemDetails::new(StatusCode::NOT_FOUND, detail)
}

pub(crate) async fn wrong_method(request: Request) -> ProblemDetails {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    body::discard(request.into_body()).await;
    let supported = match &*path {
        "/check" | "/explain" | "/emergency" => "GET, HEAD or POST",
        "/batch" | "/json" | "/settle" | "/release" => "POST",
        _ => "GET or HEAD",
    };
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not support {method}; use {supported}"))
}
