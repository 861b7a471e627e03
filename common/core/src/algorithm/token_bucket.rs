//! Token bucket (Turner, "New directions in communications", 1986) on a [meter](super::meter): tokens accrue at the
//! quota's rate up to `burst`, and a call takes as many as it costs.
//!
//! Error: a window may admit burst + quota units, because a full bucket can be spent at once while it refills.

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
            // A level above the capacity drains first.
            retry_at: now.plus_ms(meter.drain_ms(meter.shortfall(now, size))),
            reset_at: now.plus_ms(meter.drain_ms(level)),
            delay_ms: 0,
        },
    }
}
