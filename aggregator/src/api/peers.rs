//! Requests to the HTTP of the other aggregators, for the counters of their partitions.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::HOST;
use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

const WAIT: Duration = Duration::from_secs(2);
/// Maximum length of an answer, in bytes.
const ANSWER_LEN_MAX: usize = 256 << 20;

/// Returns the JSON at a path of another aggregator; nothing if it does not answer.
pub(super) async fn ask<T: DeserializeOwned>(http: &str, path: &str) -> Option<T> {
    timeout(WAIT, get(http, path)).await.ok().flatten()
}

async fn get<T: DeserializeOwned>(http: &str, path: &str) -> Option<T> {
    let connection = TokioIo::new(TcpStream::connect(http).await.ok()?);
    let (mut sender, connection) = handshake(connection).await.ok()?;
    let driver = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, http).body(Empty::<Bytes>::new()).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let ok = response.status() == StatusCode::OK;
    let body = Limited::new(response.into_body(), ANSWER_LEN_MAX).collect().await.ok()?.to_bytes();
    driver.abort();
    ok.then(|| serde_json::from_slice(&body).ok()).flatten()
}
