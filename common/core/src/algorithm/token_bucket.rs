//! Token bucket (Turner, "New directions in communications", 1986) on a [meter](super::meter): tokens accrue at the
//! quota's rate up to `burst`, and a call takes as many as it costs.
//!
//! Error: a window may admit burst + quota units, because a full bucket can be spent at once while it refills.

use super::limit::Limit;
use super::meter::Meter;
use super::verdict::Verdict;
use crate::clock::Timestamp;

pub(super) fn evaluate(meter: &Meter, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
    let (room, level, size) = (meter.room(now), meter.level_at(now), meter.size(cost));
    let drained_at = |level| now.plus_ms(meter.drain_ms(level));
    if let Some(size) = size.filter(|size| *size <= room) {
        return Verdict::admission(now, meter.units_in(room - size), drained_at(level + size));
    }
    // A level above the capacity drains first.
    let retry_at = size.map(|size| drained_at(meter.shortfall(now, size)));
    Verdict::denial(
        meter.units_in(room),
        retry_at.unwrap_or_else(|| now.plus_ms(limit.window.width_ms())),
        drained_at(level),
    )
}
