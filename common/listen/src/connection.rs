//! One connection, which ends itself when it is too slow or idle for too long.
//!
//! Time is counted in periods of half the header timeout, by a timer of the connection's own, so that reading and writing need no
//! clock. A connection waits for its client from the first byte of a request, or from its start, until the server writes. After two
//! whole periods of waiting it is closed. HTTP/2 is different: a client may send frames that need no response, so only its first
//! bytes are timed, and the time without requests. The bytes are those of HTTP, also under TLS.
//!
//! A connection that must close tells the server that the client has ended it. The server then closes it as politely as any other.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::connections::ConnectionEntry;
use crate::listen_settings::ListenSettings;
use crate::stream::Stream;

/// First bytes of an HTTP/2 connection, which no HTTP/1 request has.
const HTTP2_START: &[u8] = b"PRI";
/// Whole periods after which a waiting connection is closed.
const WAIT_PERIODS: u32 = 2;

/// One connection, which a server reads and writes.
pub(crate) struct Connection {
    stream: Stream,
    entry: ConnectionEntry,
    timer: Pin<Box<Sleep>>,
    period: Duration,
    idle_periods_max: u32,
    /// True while the client must send or take something before the server can go on.
    waits: bool,
    /// Number of ticks since the connection waits.
    waited: u32,
    /// True while written bytes wait for the client in a buffer of TLS.
    is_flushing: bool,
    /// True if the server has written since the last tick.
    has_written: bool,
    /// Protocol by the first bytes; none before them. Later bytes do not change it, so no client can choose other rules.
    is_http2: Option<bool>,
}

impl Connection {
    pub(crate) fn new(stream: Stream, entry: ConnectionEntry, settings: &ListenSettings) -> Self {
        let period = settings.header_timeout / WAIT_PERIODS;
        let idle_periods = settings.idle_timeout.as_nanos().div_ceil(period.as_nanos().max(1));
        Self {
            stream,
            entry,
            timer: Box::pin(sleep(period)),
            period,
            idle_periods_max: u32::try_from(idle_periods).unwrap_or(u32::MAX),
            waits: true,
            waited: 0,
            is_flushing: false,
            has_written: false,
            is_http2: None,
        }
    }

    /// Returns true if the connection must end. Else the task is woken at the next tick, or when it must make room.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_over = false;
        self.entry.activity.waker.register(cx.waker());
        while self.timer.as_mut().poll(cx).is_ready() {
            // Ticks that a suspended process has missed are not made up for.
            self.timer.set(sleep(self.period));
            is_over |= self.tick();
        }
        is_over || self.entry.activity.is_evicted.load(Ordering::Acquire)
    }

    /// Ends a period; returns true if the connection must end.
    fn tick(&mut self) -> bool {
        let idle = &self.entry.activity.idle_periods;
        let periods = if self.has_written { 0 } else { idle.load(Ordering::Relaxed).saturating_add(1) };
        idle.store(periods, Ordering::Relaxed);
        self.has_written = false;
        self.waited = if self.waits { self.waited + 1 } else { 0 };
        self.waited > WAIT_PERIODS || periods > self.idle_periods_max
    }

    fn received(&mut self, bytes: &[u8]) {
        let is_http2 = *self.is_http2.get_or_insert_with(|| bytes.starts_with(HTTP2_START));
        self.waits |= !is_http2;
    }

    /// Takes the result of a write.
    fn written<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            (self.waits, self.waited, self.has_written) = (false, 0, true);
            return result;
        }
        self.blocked(cx)
    }

    /// Waits for a client that takes nothing.
    fn blocked<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.waits = true;
        if self.is_over(cx) { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }

    fn stream(&mut self) -> Pin<&mut Stream> {
        Pin::new(&mut self.stream)
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.stream().poll_read(cx, buffer)?.is_ready() {
            if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
                self.received(bytes);
            }
            return Poll::Ready(Ok(()));
        }
        if self.is_over(cx) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = self.stream().poll_write(cx, bytes);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.stream().poll_write_vectored(cx, bytes);
        self.written(cx, result)
    }

    /// Writes of HTTP/2 are not vectored. Then it copies answers of up to 1 KiB into one buffer, and writes those of several requests at
    /// once. Otherwise each answer above 256 bytes would be a write of its own, which costs more than all the rest of a decision. HTTP/1
    /// would keep a buffer as large as its largest answer.
    fn is_write_vectored(&self) -> bool {
        self.is_http2 == Some(false)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.stream().poll_flush(cx);
        // The HTTP library also flushes where nothing is left.
        if std::mem::replace(&mut self.is_flushing, result.is_pending()) || result.is_pending() {
            self.written(cx, result)
        } else {
            result
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.stream().poll_shutdown(cx);
        if result.is_pending() { self.blocked(cx) } else { result }
    }
}
