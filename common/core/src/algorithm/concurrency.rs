//! Concurrency limit: a maximum number of calls in progress (a counting semaphore with leases, as in Gray and Cheriton,
//! "Leases", 1989).
//!
//! A slot is the timestamp of its call in a [sliding log](super::sliding_log). A release frees it; without a release it
//! expires after the quota's duration. Error: none, but a caller that crashes holds its slot for that duration.

use super::sliding_log::SlidingLog;
use super::{Limit, Verdict};
use crate::clock::Timestamp;

pub(super) fn evaluate(slots: &SlidingLog, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    slots.evaluate(limit, now, cost)
}
