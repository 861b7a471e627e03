//! Arrivals of calls: a Poisson process, whose calls are independent of each other.

use fastrand::Rng;
use tollgate_core::clock::Timestamp;

pub(super) const MINUTE_MS: u64 = 60_000;
/// Beginning of all calls: a whole minute.
pub(super) const BEGIN: Timestamp = Timestamp::from_ms(1_000 * MINUTE_MS);

/// Returns the time to the next call at a mean rate per minute, in ms; infinite at rate 0.
#[expect(clippy::cast_precision_loss, reason = "a minute")]
pub(super) fn gap_ms(rng: &mut Rng, per_minute: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * MINUTE_MS as f64 / per_minute
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times after the beginning")]
pub(super) fn after_begin(ms: f64) -> Timestamp {
    BEGIN.plus_ms(ms as u64)
}
