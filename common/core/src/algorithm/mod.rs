//! Rate limiting algorithms as pure state machines, `(state, now, cost) -> verdict`.
//!
//! A store keeps one [`CounterState`] per counter. For each charge it calls [`CounterState::advance`] with its own
//! time, [`CounterState::evaluate`], and, if all counters of the call have room, [`CounterState::charge`]. The
//! [`Limit`] is a parameter, so a changed quota applies at the next step; a changed algorithm converts the state
//! ([`CounterState::fit`]).
//!
//! Three forms of state serve all algorithms: counts per sub-window, a log of timestamps, and a meter. A new algorithm
//! is a variant of [`Algorithm`] and a branch in `state.rs`; one with another form of state also has a file in this folder.

mod meter;
mod token_bucket;
mod leaky_bucket;
mod reserve;
mod sliding_window;
mod sliding_log;
mod state;
#[cfg(test)]
mod tests;

use crate::clock::Timestamp;
use crate::window::{Estimate, Window};

pub use meter::{LEVEL_MAX, Meter, Rate};
pub use sliding_log::{QUOTA_MAX as SLIDING_LOG_QUOTA_MAX, SlidingLog, WIDTH_MS_MAX as SLIDING_LOG_WIDTH_MS_MAX};
pub use sliding_window::SlidingWindow;
pub use state::CounterState;

/// Algorithm of a rule, with the parameters that only this algorithm has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Counts per sub-window. Constant space; error of at most the content of one sub-window.
    SlidingWindow(Estimate),
    /// Log of admitted timestamps. Exact; 4 bytes per unit, for quotas up to [`SLIDING_LOG_QUOTA_MAX`].
    SlidingLog,
    /// One count that restarts at each whole multiple of the window since the epoch (INCR with EXPIRE, as in the Redis
    /// documentation's "rate limiter" pattern). Admits up to twice the quota around a window edge. The state is a ring
    /// with a single sub-window, so the previous count is still available when a rule switches to another algorithm.
    FixedWindow,
    /// Tokens that accrue at the quota's rate up to the burst. Admits up to burst + quota in a window.
    TokenBucket,
    /// Queue that drains at the quota's rate; the verdict contains the delay.
    LeakyBucket,
    /// Maximum number of calls in progress (a counting semaphore with leases, as in Gray and Cheriton, "Leases", 1989). A
    /// slot is the timestamp of its call in a log; it is released when the call ends, or expires after the quota's duration.
    /// Exact, but a caller that crashes holds its slot for that duration.
    Concurrency,
}

/// Limit that a charge is evaluated against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Quota in units per window.
    pub units: u64,
    /// Window; that of a fixed window has one sub-window.
    pub window: Window,
    /// Maximum units admitted at once after idleness; for a leaky bucket, the queue length. 0 if the rule has no burst.
    pub burst: u64,
}

impl Limit {
    /// Returns the maximum cost that an unused counter admits.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        if self.burst > 0 { self.burst } else { self.units }
    }

    /// Returns true if units may be leased. A log or a bucket would admit units again that their holder spends late,
    /// and a burst would be spent by units that nobody uses.
    #[must_use]
    pub const fn leases(&self) -> bool {
        match self.algorithm {
            Algorithm::SlidingWindow(_) => self.burst == 0,
            Algorithm::FixedWindow => true,
            Algorithm::SlidingLog | Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Concurrency => false,
        }
    }

    /// Returns the time in ms after which a charge has no effect any more: the window, or the time in which a whole bucket
    /// drains if that is longer. For this time, a store knows the ids of requests.
    #[must_use]
    pub fn lasts_ms(&self) -> u64 {
        let width_ms = self.window.width_ms();
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => width_ms.max(Meter::drain_whole_ms(self)),
            _ => width_ms,
        }
    }
}

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
    const fn admission(now: Timestamp, remaining: u64, reset_at: Timestamp) -> Self {
        Self { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 }
    }

    const fn denial(remaining: u64, retry_at: Timestamp, reset_at: Timestamp) -> Self {
        Self { admitted: false, remaining, retry_at, reset_at, delay_ms: 0 }
    }
}
