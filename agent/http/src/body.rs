//! Request bodies, read to the end within limits of size and time.
//!
//! Unwanted bodies are read as well, because unread data would force the server to close the connection.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use http::StatusCode;
use http_body_util::BodyExt;

use crate::problem_details::ProblemDetails;

/// Default of [`HttpSettings::body_bytes_max`](crate::HttpSettings::body_bytes_max).
pub const BODY_BYTES_MAX_DEFAULT: u32 = 64 << 10;
/// Maximum length, in bytes, up to which a longer body is read and discarded. Beyond it the connection is closed.
const DISCARD_LEN_MAX: usize = 1 << 20;
const BODY_WAIT: Duration = Duration::from_secs(5);

/// Maximum length of a body in bytes.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) u32);

impl BodyLimit {
    pub(crate) async fn read(self, body: Body) -> Result<Vec<u8>, ProblemDetails> {
        let len_max = usize::try_from(self.0).unwrap_or(usize::MAX);
        tokio::time::timeout(BODY_WAIT, read_to_end(body, len_max)).await.unwrap_or_else(|_| {
            let detail = format!("the body did not arrive within {} s; send it without delay", BODY_WAIT.as_secs());
            Err(ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, detail))
        })
    }
}

/// Reads and discards a body, so that the connection can be reused.
pub(crate) async fn discard(body: Body) {
    if body.is_end_stream() {
        return;
    }
    // Errors are ignored, because the response does not depend on the body.
    let _ = BodyLimit(0).read(body).await;
}

async fn read_to_end(mut body: Body, len_max: usize) -> Result<Vec<u8>, ProblemDetails> {
    let too_long = || {
        let detail = format!("the body is longer than {len_max} bytes; send one call, with its descriptors only");
        ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let mut content = Vec::new();
    let mut len = 0;
    let discard_len_max = DISCARD_LEN_MAX.max(len_max);
    // An announced length above the limit is rejected before the client sends the body.
    if body.size_hint().lower() > discard_len_max as u64 {
        return Err(too_long());
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!(
                "the body cannot be read: {error}; send as many bytes as Content-Length announces, or valid chunks"
            );
            ProblemDetails::new(StatusCode::BAD_REQUEST, detail)
        })?;
        let Some(data) = frame.data_ref() else { continue };
        len += data.len();
        if len <= len_max {
            content.extend_from_slice(data);
        } else if len <= discard_len_max {
            content.clear();
        } else {
            return Err(too_long());
        }
    }
    if len > len_max { Err(too_long()) } else { Ok(content) }
}
