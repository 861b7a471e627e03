//! gRPC service that answers every request with the same bytes.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, HeaderName};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use tokio::net::TcpListener;

/// Starts the service in this process, for the rest of it.
pub(super) async fn start(answer: Bytes) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().fallback(async move |request: Request| respond(request, answer).await);
    tokio::spawn(tollgate_listen::serve(listener, router, std::future::pending()));
    Ok(address)
}

async fn respond(request: Request, answer: Bytes) -> Response {
    // A request is read to its end, as by a service that decodes it.
    let _ = request.into_body().collect().await;
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    let body = Full::new(answer).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
