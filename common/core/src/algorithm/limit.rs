//! Algorithms, and the limit against which a charge is evaluated.

use crate::window::{Estimate, Window};

/// Algorithm of a rule, with the parameters that only this algorithm has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Counts per sub-window. Constant space; error of at most the content of one sub-window.
    SlidingWindow(Estimate),
    /// Log of admitted timestamps. Exact; 4 bytes per unit, for quotas up to `SLIDING_LOG_QUOTA_MAX`.
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

impl Algorithm {
    /// Returns the estimate by which counts per sub-window come nearest to the use of a counter.
    #[must_use]
    pub const fn estimate(self) -> Estimate {
        match self {
            Self::SlidingWindow(estimate) => estimate,
            Self::FixedWindow => Estimate::Ignored,
            Self::TokenBucket | Self::LeakyBucket => Estimate::Interpolated,
            Self::SlidingLog | Self::Concurrency => Estimate::Conservative,
        }
    }
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
}
