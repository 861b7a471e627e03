//! The bytes of a connection to the server, with a cap on each answer.
//!
//! The library keeps an answer in memory until it is complete, and knows no cap. A server that is no Redis, or one behind a
//! broken proxy, may send an answer without end. So the bytes since the last complete answer are counted here, where they
//! arrive. Callers count their answers a little later than the bytes come, so the cap is far above what all requests in flight
//! can get.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::server_stream::ServerStream;
use crate::remedy::ANSWER_TOO_LONG;

/// Maximum number of bytes that arrive between two complete answers: the text of [`ANSWER_TOO_LONG`] names it. Published rules
/// are the longest answer, and those to thousands of requests in flight have less than a kilobyte each.
pub(super) const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Stream that fails when an answer is too long.
pub(super) struct CappedStream {
    stream: Box<dyn ServerStream>,
    /// Number of the newest request that was answered.
    answered: Arc<AtomicU64>,
    answered_known: u64,
    /// Number of bytes that were read since then.
    bytes: usize,
}

impl CappedStream {
    /// `answered` is the number of the newest request that was answered.
    pub(super) fn new(stream: Box<dyn ServerStream>, answered: Arc<AtomicU64>) -> Self {
        Self { stream, answered, answered_known: 0, bytes: 0 }
    }

    /// Counts bytes that were read; returns false if an answer is too long.
    fn count(&mut self, bytes: usize) -> bool {
        let answered = self.answered.load(Ordering::Relaxed);
        if answered != self.answered_known {
            (self.answered_known, self.bytes) = (answered, 0);
        }
        self.bytes += bytes;
        self.bytes <= ANSWER_BYTES_MAX
    }
}

impl AsyncRead for CappedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if self.count(into.filled().len() - before) {
            return read;
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, ANSWER_TOO_LONG)))
    }
}

impl AsyncWrite for CappedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
