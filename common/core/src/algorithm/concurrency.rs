//! Concurrency: so many calls under way at once (a counting semaphore with leases, as in Gray and Cheriton, "Leases", 1989).
//!
//! A slot is the timestamp of its call, in the log that the sliding log keeps; it is given back when the call ends, or lost
//! after the quota's duration when nobody says so. Error: none, but a caller that dies holds its slot that long.

use super::sliding_log::SlidingLog;
use super::{Limit, Verdict};
use crate::clock::Timestamp;

pub(super) fn evaluate(slots: &SlidingLog, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    slots.evaluate(limit, now, cost)
}
