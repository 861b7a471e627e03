//! One request over HTTP on a connection of its own, and its answer.

use anyhow::anyhow;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Longest answer that is read, in bytes.
const ANSWER_LEN_MAX: usize = 8 << 20;

/// Sends a request, and returns status, headers and body of the answer.
///
/// # Errors
/// If the connection breaks, or the answer is too long.
pub(crate) async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
    let (mut client, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (parts, body) = client.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok((parts.status, parts.headers, body))
}
