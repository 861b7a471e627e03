//! The trace of a request, as its call carries it into the log of calls and to an exporter of traces.
//!
//! Of a request that is not sampled, only this fact is kept, because tracing systems do not store its spans.

/// Trace of a call, as its gateway tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallTrace {
    /// The gateway tells none.
    #[default]
    Untold,
    /// A trace that is not sampled: no span of it is stored.
    NotSampled,
    /// A sampled trace. It is in memory of its own: few calls are sampled.
    Sampled(Box<TraceContext>),
}

/// Identifiers of a trace and of the span that sent the request, as W3C Trace Context names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext([u8; Self::LEN]);

impl From<TraceContext> for CallTrace {
    fn from(trace: TraceContext) -> Self {
        Self::Sampled(Box::new(trace))
    }
}

impl TraceContext {
    /// Length in bytes: 16 of the trace and 8 of the span.
    pub const LEN: usize = 24;

    /// Takes the identifiers of the trace and of the span.
    #[must_use]
    pub fn new(trace: u128, span: u64) -> Self {
        let mut bytes = [0; Self::LEN];
        let (first, last) = bytes.split_at_mut(size_of::<u128>());
        first.copy_from_slice(&trace.to_be_bytes());
        last.copy_from_slice(&span.to_be_bytes());
        Self(bytes)
    }

    /// Takes the identifier of the trace, then that of the span.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the identifier of the trace, then that of the span.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}
