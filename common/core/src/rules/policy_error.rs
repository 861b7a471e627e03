//! Reasons why no store can enforce a policy, with their remedies.

use std::time::Duration;

use super::Quota;
use crate::algorithm::SLIDING_LOG_QUOTA_MAX;

/// Maximum of the time that a call waits for the store, in ms.
pub const DEADLINE_MS_MAX: u64 = 10_000;

/// Reason why no store can enforce a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// More calls than a log keeps.
    #[error("a `sliding_log` keeps every call, {SLIDING_LOG_QUOTA_MAX} at most; use `sliding_window` for {0}")]
    LogQuota(Quota),
    /// More slots than a store keeps.
    #[error("`concurrency` has at most {SLIDING_LOG_QUOTA_MAX} slots; {0} is more")]
    Slots(u64),
    /// A window longer than the timestamps of a log span.
    #[error("a `sliding_log` remembers 24 days at most; use `sliding_window` for {0}")]
    LogWidth(Quota),
    /// A time longer than the timestamp of a slot spans.
    #[error("a slot of `concurrency` is held 24 days at most; {0} is longer")]
    SlotWidth(Quota),
    /// A burst below the quota.
    #[error(
        "a burst of {1} is below {0}, of which a `sliding_window` lets everything pass at once anyway; write more, or `burst: false` for none"
    )]
    BurstBelow(Quota, u64),
    /// A burst above the quota under `consistency: strict`.
    #[error(
        "a burst lets more pass than the quota, and `consistency: strict` promises that nothing does; write `burst: false` for none, or `consistency: bounded`"
    )]
    BurstOfStrict,
    /// An algorithm whose state is only in the store, under `consistency: eventual`.
    #[error(
        "signals contain the counts of windows only, and under `consistency: eventual` nothing else is known; use `sliding_window` or `fixed_window`, or `consistency: bounded`"
    )]
    AlgorithmOfEventual,
    /// A burst under `consistency: eventual`.
    #[error(
        "signals do not tell which part of a burst is free, and under `consistency: eventual` nothing else is known; write `burst: false` for none, or `consistency: bounded`"
    )]
    BurstOfEventual,
    /// A time for the store that is out of range.
    #[error("`deadline` is `{}ms`; write 1ms to {DEADLINE_MS_MAX}ms", .0.as_millis())]
    Deadline(Duration),
    /// A burst that holds the units of less than a millisecond.
    #[error(
        "a bucket is filled each millisecond, so a burst of {1} admits at most {max}/s of {0}; write a burst of at least {2}",
        max = .1.saturating_mul(1_000)
    )]
    BurstTooSmall(Quota, u64, u64),
    /// Numbers too large for exact arithmetic.
    #[error(
        "{0} with a burst of {1} cannot be counted exactly; write rounder numbers (1000000/d, not 999999/d), or a smaller burst"
    )]
    Inexact(Quota, u64),
}
