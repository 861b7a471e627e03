//! The trace of a request, as its call carries it into the log of calls.
//!
//! Requests that are not sampled have none, because tracing systems do not store them.

/// Identifiers of a trace and of the span that sent the request, as W3C Trace Context names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext([u8; Self::LEN]);

impl TraceContext {
    /// Length in bytes: 16 of the trace and 8 of the span.
    pub const LEN: usize = 24;

    /// Takes the identifier of the trace, then that of the span.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the identifier of the trace, then that of the span.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}
