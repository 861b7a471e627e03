//! Leaky bucket as a queue (Turner, "New directions in communications", 1986; nginx `limit_req` with a burst): calls
//! leave at the quota's constant rate, and at most `burst` of them are queued at once.
//!
//! The queue itself is not stored: the verdict contains the delay until the call's turn, and the caller waits. Error:
//! none; turns are exactly window / quota apart, and a full queue denies.

use super::limit::Limit;
use super::meter::Meter;
use super::token_bucket;
use super::verdict::Verdict;
use crate::clock::Timestamp;

pub(super) fn evaluate(meter: &Meter, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    let verdict = token_bucket::evaluate(meter, limit, now, cost);
    // The call's turn comes after the units before it have drained.
    let delay_ms = if verdict.admitted && cost > 0 { meter.drain_ms(meter.level_at(now)) } else { 0 };
    Verdict { delay_ms, ..verdict }
}
