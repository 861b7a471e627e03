//! The token bucket (Turner, "New directions in communications", 1986), by the [meter](super::meter): tokens come at the
//! quota's rate up to `burst` of them, and a call takes as many as it costs.
//!
//! Error: a window may hold burst + quota units, for a full bucket is spent at once and filled meanwhile.

use super::meter::Meter;
use super::{Limit, Verdict};
use crate::clock::Timestamp;

pub(super) fn evaluate(meter: &Meter, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    let (room, level) = (meter.room(now), meter.level_at(now));
    let Some(size) = meter.size(cost) else {
        let retry_at = now.plus_ms(limit.window.width_ms());
        let reset_at = now.plus_ms(meter.drain_ms(level));
        return Verdict { admitted: false, remaining: meter.units_in(room), retry_at, reset_at, delay_ms: 0 };
    };
    match room.checked_sub(size) {
        Some(left) => Verdict {
            admitted: true,
            remaining: meter.units_in(left),
            retry_at: now,
            reset_at: now.plus_ms(meter.drain_ms(level + size)),
            delay_ms: 0,
        },
        None => Verdict {
            admitted: false,
            remaining: meter.units_in(room),
            // What is lacking must drain; a level above the brim drains first.
            retry_at: now.plus_ms(meter.drain_ms(meter.lacks(now, size))),
            reset_at: now.plus_ms(meter.drain_ms(level)),
            delay_ms: 0,
        },
    }
}
