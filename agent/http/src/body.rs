//! Bodies of requests, read whole, within caps of size and time.
//!
//! A body is read to its end even when nobody wants it: what is left unread would cost the client its connection.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use http::StatusCode;
use http_body_util::BodyExt;

use crate::problem::Problem;

/// The longest body that is looked at, in bytes.
pub const BODY_LEN_MAX: usize = 64 << 10;
/// How much of a longer one is read and thrown away, in bytes, before the connection is given up.
const DISCARD_LEN_MAX: usize = 1 << 20;
/// How long a client may take to send it.
const BODY_WAIT: Duration = Duration::from_secs(5);

/// The whole body.
pub(crate) async fn read(body: Body) -> Result<Vec<u8>, Problem> {
    tokio::time::timeout(BODY_WAIT, read_to_end(body)).await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {} s; send it at once", BODY_WAIT.as_secs());
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
    })
}

/// Reads a body that is not wanted, so that the connection can be used again.
pub(crate) async fn discard(body: Body) {
    // Whatever is wrong with it, the answer is not about the body.
    let _ = read(body).await;
}

async fn read_to_end(mut body: Body) -> Result<Vec<u8>, Problem> {
    let too_long = || {
        let detail = format!("the body is longer than {BODY_LEN_MAX} bytes; send one call, with its descriptors only");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let mut content = Vec::new();
    let mut len = 0;
    // Told beforehand, the client may not even begin to send it.
    if body.size_hint().lower() > DISCARD_LEN_MAX as u64 {
        return Err(too_long());
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("the body cannot be read: {error}; send it whole, as long as Content-Length says");
            Problem::new(StatusCode::BAD_REQUEST, detail)
        })?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        len += data.len();
        match len {
            0..=BODY_LEN_MAX => content.extend_from_slice(data),
            _ if len > DISCARD_LEN_MAX => return Err(too_long()),
            _ => content.clear(),
        }
    }
    if len > BODY_LEN_MAX { Err(too_long()) } else { Ok(content) }
}
