//! Calls of one caller: random ones, and those whose count the article predicts.

use fastrand::Rng;
use tollgate_core::clock::Timestamp;

use super::settings::ApproximationSettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS, after_begin, gap_ms};

/// Returns the calls of periods of a random length, each with a random rate, by a Poisson process.
#[expect(clippy::cast_precision_loss, reason = "small times")]
pub(super) fn random(settings: &ApproximationSettings, seed: u64) -> impl Iterator<Item = Timestamp> {
    let ApproximationSettings { hours, period_s: [shortest, longest], calls_per_minute: [slowest, fastest], .. } =
        *settings;
    let (mut rng, end_ms) = (Rng::with_seed(seed), (hours * 60 * MINUTE_MS) as f64);
    let (mut at_ms, mut period_end_ms, mut rate) = (0.0, 0.0, 0.0);
    std::iter::from_fn(move || {
        loop {
            // Without memory, a Poisson process may be drawn anew where its rate changes.
            let next_ms = at_ms + gap_ms(&mut rng, rate);
            if next_ms < period_end_ms {
                at_ms = next_ms;
                return Some(after_begin(at_ms));
            }
            if period_end_ms >= end_ms {
                return None;
            }
            at_ms = period_end_ms;
            period_end_ms = end_ms.min(period_end_ms + (rng.u64(shortest..=longest) * 1_000) as f64);
            rate = slowest as f64 + rng.f64() * (fastest - slowest) as f64;
        }
    })
}

/// Returns ten minutes of calls at equal distances, as many a minute as the limit.
pub(super) fn constant(limit: u64) -> impl Iterator<Item = Timestamp> {
    (0..10 * limit).map(move |call| BEGIN.plus_ms(call * MINUTE_MS / limit))
}

/// Returns the calls of a minute that all come within 10 s, from this second of the minute on.
pub(super) fn burst(limit: u64, from_s: u64) -> impl Iterator<Item = Timestamp> {
    (0..limit).map(move |call| BEGIN.plus_ms(from_s * 1_000 + call * 10_000 / limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_calls_come_in_order_at_the_mean_rate() {
        let settings = ApproximationSettings {
            limit: 100,
            hours: 10,
            shown_minutes: 1,
            period_s: [2, 40],
            calls_per_minute: [0, 200],
        };
        let calls: Vec<Timestamp> = random(&settings, 1).collect();
        assert!(calls.is_sorted());
        let mean = calls.len() / (10 * 60);
        assert!((90..110).contains(&mean), "{mean} calls a minute");
    }
}
