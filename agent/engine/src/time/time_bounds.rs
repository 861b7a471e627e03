//! Time bounds: the interval of a server's time that an agent can prove.
//!
//! Every answer of the store carries its time, which was read between sending and receiving; so the difference between
//! the two clocks lies in an interval as wide as the round trip. The same holds for the bus, which stamps the agent's
//! own heartbeats. The agent keeps the narrowest interval, widened by the drift of two quartz clocks since (Cristian,
//! "Probabilistic clock synchronization", 1989). An answer whose time lies outside shows that one of the clocks was
//! set. Counts in the engine's own table have no such interval: their time is the agent's own.

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};

/// Maximum drift between two clocks, in millionths.
pub(crate) const DRIFT_PPM: u64 = 400;

/// An instant of a server's time that is known to lie in `earliest..=latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBounds {
    /// Earliest that the server's time may be.
    pub earliest: Timestamp,
    /// Latest that the server's time may be.
    pub latest: Timestamp,
}

/// The time of a server, of the store or of the bus, as a function of the agent's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    /// The best answer: the agent's instant at which it was received, and the server's time then.
    best: Option<(Timestamp, TimeBounds)>,
    /// The agent's instant at which the last step was noticed.
    stepped_at: Option<Timestamp>,
    /// Latest instant that the clock may have shown before it was set back, by however little. Until the clock has
    /// passed it, instants of before and after cannot be told apart.
    pub(crate) shown: Timestamp,
    /// Latest instant that the clock may have shown before a small step back, for which nothing is re-based. A large
    /// step back clears it.
    pub(crate) shown_by_small_steps: Timestamp,
}

/// Size in ms of a step of the server's clock, against the agent's, by more than [`CLOCK_ERROR_MAX_MS`]; negative if it
/// stepped back.
pub(crate) type ClockStepMs = i64;

impl TimeBounds {
    /// Returns the bounds of exactly one instant.
    #[must_use]
    #[inline]
    pub const fn exactly(at: Timestamp) -> Self {
        Self { earliest: at, latest: at }
    }

    /// Returns true if two instants are more than so many ms apart for certain.
    pub(crate) fn is_apart(self, other: Self, ms: u64) -> bool {
        self.earliest.ms_since(other.latest) > ms || other.earliest.ms_since(self.latest) > ms
    }

    /// Returns the smallest bounds that include these and others.
    pub(crate) fn including(self, other: Self) -> Self {
        Self { earliest: self.earliest.min(other.earliest), latest: self.latest.max(other.latest) }
    }

    /// Returns the instant within the bounds that is nearest to another one.
    pub(crate) fn nearest_to(self, other: Timestamp) -> Timestamp {
        other.min(self.latest).max(self.earliest)
    }

    pub(crate) fn width_ms(self) -> u64 {
        self.latest.ms_since(self.earliest)
    }

    fn middle_ms(self) -> u64 {
        self.earliest.as_ms() + self.width_ms() / 2
    }
}

impl ServerClock {
    /// Returns the bounds of the server's time at the agent's `now`; before the first answer, the agent's own time plus
    /// or minus the maximum clock error.
    pub(crate) fn at(&self, now: Timestamp) -> TimeBounds {
        let Some((received, bounds)) = self.best else {
            return TimeBounds { earliest: now.minus_ms(CLOCK_ERROR_MAX_MS), latest: now.plus_ms(CLOCK_ERROR_MAX_MS) };
        };
        let since_ms = now.ms_since(received);
        let drift_ms = since_ms.saturating_mul(DRIFT_PPM).div_ceil(1_000_000);
        let rounding_ms = u64::from(since_ms > 0);
        TimeBounds {
            earliest: bounds.earliest.plus_ms(since_ms - drift_ms.min(since_ms)).minus_ms(rounding_ms),
            latest: bounds.latest.plus_ms(since_ms + drift_ms + rounding_ms),
        }
    }

    /// Returns true if an answer shows that one of the clocks was set.
    pub(crate) fn contradicts(&self, sent: Timestamp, received: Timestamp, server_now: Timestamp) -> bool {
        let (sample, known) = (sample(sent, received, server_now), self.at(received));
        self.best.is_some() && (sample.latest < known.earliest || sample.earliest > known.latest)
    }

    /// Returns the clock after an answer that was requested at `sent`, received at `received` and given at
    /// `server_now`, and the step that it shows. None if the answer changes nothing.
    pub(crate) fn updated(
        &self,
        sent: Timestamp,
        received: Timestamp,
        server_now: Timestamp,
    ) -> Option<(Self, Option<ClockStepMs>)> {
        // The answer to a request that was sent before a step was noticed may be older than the step.
        if self.stepped_at.is_some_and(|stepped_at| sent <= stepped_at) {
            return None;
        }
        let sample = sample(sent, received, server_now);
        let known = self.at(received);
        // A sample that contradicts the bounds replaces them: one of the clocks was set.
        let contradicts = self.contradicts(sent, received, server_now);
        let is_first = self.best.is_none();
        if !is_first && !contradicts && sample.width_ms() >= known.width_ms() {
            return None;
        }
        let by_ms = sample.middle_ms().wrapping_sub(known.middle_ms()).cast_signed();
        let is_step = !is_first && contradicts && by_ms.unsigned_abs() > CLOCK_ERROR_MAX_MS;
        let stepped_at = if is_step { Some(received) } else { self.stepped_at };
        let is_back = !is_first && sample.latest < known.earliest;
        let shown = if is_back { self.shown.max(known.latest) } else { self.shown };
        let shown_by_small_steps = match (is_back, is_step) {
            (true, true) => Timestamp::default(),
            (true, false) => self.shown_by_small_steps.max(known.latest),
            (false, _) => self.shown_by_small_steps,
        };
        let updated = Self { best: Some((received, sample)), stepped_at, shown, shown_by_small_steps };
        Some((updated, is_step.then_some(by_ms)))
    }
}

/// Returns the bounds of a server's time at the receipt of an answer. Its clock reads whole milliseconds, so they are
/// at least one apart.
fn sample(sent: Timestamp, received: Timestamp, server_now: Timestamp) -> TimeBounds {
    TimeBounds { earliest: server_now, latest: server_now.plus_ms(received.ms_since(sent) + 1) }
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
        assert_eq!(ServerClock::default().at(at(10_000)), TimeBounds { earliest: at(9_000), latest: at(11_000) });
    }

    #[test]
    fn a_store_whose_clock_was_set_is_believed_again() {
        let mut time = ServerClock::default();
        for (sent, received, store_now) in [(100, 101, 50_000), (200, 205, 20_000)] {
            (time, _) = time.updated(at(sent), at(received), at(store_now)).expect("it narrows or contradicts");
        }
        assert!(time.at(at(205)).latest <= at(20_006));
    }

    #[test]
    fn a_step_beyond_the_clock_error_is_noticed_once() {
        let mut time = ServerClock::default();
        // Sent, received, the store's time; the step that is noticed.
        let cases = [
            ("the first answer", 100, 101, 50_000, None),
            ("the clock runs on", 1_100, 1_101, 51_000, None),
            ("a second back is the same clock", 2_100, 2_101, 51_000, None),
            ("an hour forward", 3_100, 3_101, 3_652_000, Some(3_600_000)),
            ("an answer that is older than the step", 3_100, 3_110, 52_000, None),
            ("back again", 4_100, 4_101, 53_000, Some(-3_600_000)),
            ("and once more", 5_100, 5_101, 24_000, Some(-30_000)),
        ];
        for (name, sent, received, store_now, expected) in cases {
            let updated = time.updated(at(sent), at(received), at(store_now));
            let step = updated.and_then(|(_, step)| step);
            assert_eq!(step, expected, "{name}");
            time = updated.map_or(time, |(time, _)| time);
            // A step back within the clock error counts, too.
            let shown = if sent < 2_100 {
                0
            } else if sent < 4_100 {
                52_003
            } else {
                3_653_003
            };
            assert!(time.shown.as_ms().abs_diff(shown) <= 2, "{name}: {:?}", time.shown);
        }
    }

    #[test]
    fn instants_are_apart_only_if_no_two_of_their_bounds_are_near() {
        let bounds = |earliest, latest| TimeBounds { earliest: at(earliest), latest: at(latest) };
        let cases = [
            ((0, 10), (20, 30), true),
            ((0, 15), (20, 30), false),
            ((0, 100), (20, 30), false),
            ((25, 25), (5, 9), true),
        ];
        for (one, other, expected) in cases {
            let (one, other) = (bounds(one.0, one.1), bounds(other.0, other.1));
            assert_eq!((one.is_apart(other, 9), other.is_apart(one, 9)), (expected, expected), "{one:?} {other:?}");
        }
    }

    proptest! {
        /// one-truth-of-time: whatever the offset, the delays and a drift within bounds, the truth is inside.
        #[test]
        fn the_stores_time_always_lies_inside(
            offset_ms in 0_u64..1_000_000,
            drift_ppm in -390_i64..390,
            // In microseconds; both clocks are read in whole milliseconds.
            exchanges in prop::collection::vec((0_u64..5_000_000, 0_u64..60_000, 0_u64..60_000), 1..60),
        ) {
            let own = |us: u64| at(us / 1_000);
            let store = |us: u64| {
                let drifted = us.cast_signed() * drift_ppm / 1_000_000;
                at((us + offset_ms * 1_000).saturating_add_signed(drifted) / 1_000)
            };
            let mut time = ServerClock::default();
            let mut now = 5_000_000_000;
            for (wait_us, there_us, back_us) in exchanges {
                now += wait_us;
                if time.best.is_some() {
                    let (bounds, truth) = (time.at(own(now)), store(now));
                    prop_assert!(bounds.earliest <= truth && truth <= bounds.latest, "{bounds:?} {truth:?}");
                }
                let (sent, read) = (now, now + there_us);
                now = read + back_us;
                let sample = time.updated(own(sent), own(now), store(read));
                prop_assert!(sample.is_none_or(|(_, step)| step.is_none()));
                time = sample.map_or(time, |(time, _)| time);
            }
        }
    }
}
