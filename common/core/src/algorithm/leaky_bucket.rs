//! The leaky bucket as a queue (Turner, "New directions in communications", 1986; nginx `limit_req` with a burst): calls
//! leave at the quota's constant rate, and up to `burst` of them are in the queue at once.
//!
//! The queue is not kept anywhere: the verdict says how long the call must wait for its turn, and whoever holds it waits.
//! Error: none; turns are exactly window / quota apart, and a full queue denies.

use super::meter::Meter;
use super::{Limit, Verdict, token_bucket};
use crate::clock::Timestamp;

pub(super) fn evaluate(meter: &Meter, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    let verdict = token_bucket::evaluate(meter, limit, now, cost);
    // Its turn comes when all that is before it has drained.
    let delay_ms = if verdict.admitted && cost > 0 { meter.drain_ms(meter.level_at(now)) } else { 0 };
    Verdict { delay_ms, ..verdict }
}
