//! The verdict: the evaluation of a charge by one counter.

use crate::clock::Timestamp;

/// Evaluation of a charge by one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True if the counter has room.
    pub admitted: bool,
    /// Units left, after this charge if it is admitted.
    pub remaining: u64,
    /// Earliest instant at which the same charge would be admitted if no other arrives; `now` if it is admitted. A cost
    /// above the quota is never admitted; its `retry_at` is one window later. A store may set it for an admission, too: see
    /// `ChargeResult::verdict`.
    pub retry_at: Timestamp,
    /// Earliest instant at which the whole quota is free again if no other charge arrives.
    pub reset_at: Timestamp,
    /// Delay in ms before the caller may forward the call: its turn in the queue of a leaky bucket.
    pub delay_ms: u64,
}

impl Verdict {
    pub(super) const fn admission(now: Timestamp, remaining: u64, reset_at: Timestamp) -> Self {
        Self { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 }
    }

    pub(super) const fn denial(remaining: u64, retry_at: Timestamp, reset_at: Timestamp) -> Self {
        Self { admitted: false, remaining, retry_at, reset_at, delay_ms: 0 }
    }
}
