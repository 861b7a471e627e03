//! Time bounds: the interval of store time that an agent can prove.
//!
//! Every answer carries the store's time, which was read between sending and receiving; so the difference between the two
//! clocks lies in an interval as wide as the round trip. The agent keeps the narrowest interval, widened by the drift of two
//! quartz clocks since (Cristian, "Probabilistic clock synchronization", 1989). Counts in the engine's own table have no such
//! interval: their time is the agent's own.

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};

/// Maximum drift between two clocks, in millionths.
const DRIFT_PPM: u64 = 100;

/// An instant of the store's time that is known to lie in `earliest..=latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBounds {
    /// Earliest that the store's time may be.
    pub earliest: Timestamp,
    /// Latest that the store's time may be.
    pub latest: Timestamp,
}

/// The store's time as a function of the agent's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreClock {
    /// The best answer: the agent's instant at which it was received, and the store's time then.
    best: Option<(Timestamp, TimeBounds)>,
}

impl TimeBounds {
    /// Returns the bounds of exactly one instant.
    #[must_use]
    pub const fn exactly(at: Timestamp) -> Self {
        Self { earliest: at, latest: at }
    }

    fn width_ms(self) -> u64 {
        self.latest.ms_since(self.earliest)
    }
}

impl StoreClock {
    /// Returns the bounds of the store's time at the agent's `now`; before the first answer, the agent's own time plus or minus
    /// the maximum clock error.
    pub(crate) fn at(&self, now: Timestamp) -> TimeBounds {
        let Some((received, bounds)) = self.best else {
            return TimeBounds { earliest: now.minus_ms(CLOCK_ERROR_MAX_MS), latest: now.plus_ms(CLOCK_ERROR_MAX_MS) };
        };
        let since_ms = now.ms_since(received);
        let drift_ms = since_ms.saturating_mul(DRIFT_PPM) / 1_000_000;
        let rounding_ms = u64::from(since_ms > 0);
        TimeBounds {
            earliest: bounds.earliest.plus_ms(since_ms - drift_ms.min(since_ms)).minus_ms(rounding_ms),
            latest: bounds.latest.plus_ms(since_ms + drift_ms + rounding_ms),
        }
    }

    /// Returns the clock after an answer that was requested at `sent`, received at `received` and given at `store_now`; nothing
    /// if it changes nothing.
    pub(crate) fn updated(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) -> Option<Self> {
        // A store's clock reads whole milliseconds, so a sample is at least one wide.
        let sample = TimeBounds { earliest: store_now, latest: store_now.plus_ms(received.ms_since(sent) + 1) };
        let known = self.at(received);
        // A sample that contradicts the bounds replaces them: one of the clocks was set.
        let contradicts = sample.latest < known.earliest || sample.earliest > known.latest;
        let replaces = self.best.is_none() || contradicts || sample.width_ms() < known.width_ms();
        replaces.then_some(Self { best: Some((received, sample)) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn before_the_first_answer_the_own_clock_is_trusted_to_a_second() {
        assert_eq!(StoreClock::default().at(at(10_000)), TimeBounds { earliest: at(9_000), latest: at(11_000) });
    }

    #[test]
    fn a_store_whose_clock_was_set_is_believed_again() {
        let mut time = StoreClock::default();
        for (sent, received, store_now) in [(100, 101, 50_000), (200, 205, 20_000)] {
            time = time.updated(at(sent), at(received), at(store_now)).expect("it narrows or contradicts");
        }
        assert!(time.at(at(205)).latest <= at(20_006));
    }

    proptest! {
        /// one-truth-of-time: whatever the offset, the delays and a drift within bounds, the truth is inside.
        #[test]
        fn the_stores_time_always_lies_inside(
            offset_ms in 0_u64..1_000_000,
            drift_ppm in -90_i64..90,
            exchanges in prop::collection::vec((0_u64..500, 0_u64..60, 0_u64..60), 1..60),
        ) {
            // The store's clock in microseconds, as a function of the agent's in milliseconds.
            let store_us = |own_ms: u64| {
                let drifted = own_ms.cast_signed() * drift_ppm / 1_000;
                (own_ms * 1_000 + offset_ms * 1_000).saturating_add_signed(drifted)
            };
            let mut time = StoreClock::default();
            let mut now = 5_000_000;
            for (wait_ms, there_ms, back_ms) in exchanges {
                now += wait_ms;
                if time.best.is_some() {
                    let bounds = time.at(at(now));
                    let truth = at(store_us(now) / 1_000);
                    prop_assert!(bounds.earliest <= truth && truth <= bounds.latest, "{bounds:?} {truth:?}");
                }
                let (sent, read) = (now, now + there_ms);
                now = read + back_ms;
                time = time.updated(at(sent), at(now), at(store_us(read) / 1_000)).unwrap_or(time);
            }
        }
    }
}
