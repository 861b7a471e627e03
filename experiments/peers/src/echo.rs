//! HTTP server that reads each request and answers with the headers and the body of a decision, which it does not make.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

/// Allocator of `tollgate`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BODY: &str = r#"{"allowed":true,"at_ms":1795342447235,"id":"agent-0b32be11-1a202bfaa9a-0-1a202bfb283-1-0-b6c9fb5e0906345f","limit":100,"remaining":99,"reset_ms":62765,"retry_after_ms":0,"rule":"per-key","source":"store"}"#;
const HEADERS: [(HeaderName, HeaderValue); 8] = [
    (HeaderName::from_static("x-gateway-node"), HeaderValue::from_static("agent-0b32be11")),
    (HeaderName::from_static("x-ratelimit-limit"), HeaderValue::from_static("100")),
    (HeaderName::from_static("x-ratelimit-remaining"), HeaderValue::from_static("99")),
    (HeaderName::from_static("x-ratelimit-reset"), HeaderValue::from_static("1795342447")),
    (HeaderName::from_static("ratelimit-policy"), HeaderValue::from_static("\"per-key\";q=100;w=60")),
    (HeaderName::from_static("ratelimit"), HeaderValue::from_static("\"per-key\";r=99;t=60")),
    (CONTENT_TYPE, HeaderValue::from_static("application/json")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, Router::new().route("/check", any(answer))).await
}

/// Reads the request to its end, as a service that decodes it does.
async fn answer(_request: Bytes) -> (StatusCode, HeaderMap, String) {
    (StatusCode::OK, HeaderMap::from_iter(HEADERS), BODY.to_owned())
}
