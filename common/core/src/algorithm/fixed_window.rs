//! The fixed window: one count, which starts anew at each whole multiple of the window since the epoch (INCR with EXPIRE, as
//! in the Redis documentation's "rate limiter" pattern).
//!
//! Error: up to twice the quota around an edge, half a window's worth on either side. It is kept as a ring of a single
//! sub-window, so the count before this one is still there when a rule is switched to another algorithm.

use super::sliding_window::SlidingWindow;
use super::{Limit, Verdict};
use crate::clock::Timestamp;
use crate::window::Estimate;

pub(super) fn evaluate(counts: &SlidingWindow, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    counts.evaluate(limit, Estimate::Ignored, now, cost)
}
