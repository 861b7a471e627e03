//! Parameters of requests: an unknown or wrong one is refused with the reason and the known ones.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::responses::problem;

/// Parameters of a request, or a problem that names the wrong one.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|error: QueryRejection| {
            let (path, error) = (parts.uri.path(), error.body_text());
            let detail = format!("{path}: {error}; /api/v1/openapi.yaml describes the parameters");
            problem(StatusCode::BAD_REQUEST, &detail)
        })
    }
}

/// Passes on a request to a path without parameters, and refuses one that has some.
pub(super) async fn without_parameters(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let name = uri.query().and_then(|query| query.split(['&', '=']).find(|name| !name.is_empty()));
    if let Some(name) = name {
        let detail = format!("{}: unknown parameter `{name}`; this path has no parameters", uri.path());
        return problem(StatusCode::BAD_REQUEST, &detail);
    }
    next.run(request).await
}
