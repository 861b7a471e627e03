//! Fixed window: one count that restarts at each whole multiple of the window since the epoch (INCR with EXPIRE, as in
//! the Redis documentation's "rate limiter" pattern).
//!
//! Error: up to twice the quota around a window edge, one quota on either side. The state is a ring with a single
//! sub-window, so the previous count is still available when a rule switches to another algorithm.

use super::sliding_window::SlidingWindow;
use super::{Limit, Verdict};
use crate::clock::Timestamp;
use crate::window::Estimate;

pub(super) fn evaluate(counts: &SlidingWindow, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    counts.evaluate(limit, Estimate::Ignored, now, cost)
}
