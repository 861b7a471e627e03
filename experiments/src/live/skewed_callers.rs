//! Callers of measurements: a few make most calls.

use fastrand::Rng;

/// Number of callers.
const CALLERS: f64 = 10_000.0;
/// Exponent of their calls by Zipf's law.
const SKEW: f64 = 1.1;

/// Returns the number of a caller, 1 to 10,000, by an approximation of Zipf's law: the inverse of its integral.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of a caller")]
pub fn caller(rng: &mut Rng) -> u32 {
    let exponent = 1.0 - SKEW;
    let area = CALLERS.powf(exponent) - 1.0;
    (1.0 + rng.f64() * area).powf(1.0 / exponent) as u32
}
