//! How a counter decides: pure state machines, `(state, now, cost) -> verdict`.
//!
//! A store keeps one [`State`] per counter and does for each charge: [`State::advance`] to its own time, [`State::judge`],
//! and, when all counters of the call have room, [`State::charge`]. What is judged by is handed in as a [`Limit`], so a
//! changed quota holds at the next step and a changed algorithm carries the count over ([`State::fit`]).

mod sliding_log;
mod sliding_window;

use crate::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use crate::window::{Estimate, Window};

pub use sliding_log::{QUOTA_MAX as SLIDING_LOG_QUOTA_MAX, SlidingLog};
pub use sliding_window::SlidingWindow;

/// The algorithms, with what only they need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Counts per sub-window: constant space, off by at most the content of one sub-window.
    SlidingWindow(Estimate),
    /// Every admitted timestamp: exact, 4 bytes a unit, for quotas up to [`SLIDING_LOG_QUOTA_MAX`].
    SlidingLog,
}

/// What one step is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How.
    pub algorithm: Algorithm,
    /// How many units fit in a window.
    pub units: u64,
    /// The window.
    pub window: Window,
}

/// What a counter says to a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether there is room.
    pub admitted: bool,
    /// Units that are left, after this charge if it was admitted.
    pub remaining: u64,
    /// The first instant at which the same charge would be admitted if nothing else came; `now` when it is admitted. A
    /// cost above the quota never passes and is told to look again after a whole window.
    pub retry_at: Timestamp,
    /// The first instant at which the whole quota is free again if nothing else came.
    pub reset_at: Timestamp,
}

/// One counter's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of [`Algorithm::SlidingWindow`].
    SlidingWindow(SlidingWindow),
    /// Of [`Algorithm::SlidingLog`].
    SlidingLog(SlidingLog),
}

/// The instant at which a step happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    /// The store's time, never before the counter's last step.
    pub now: Timestamp,
    /// Whether the clock had stepped back so far that the counter was moved with it; worth an alarm.
    pub rebased: bool,
}

impl State {
    /// An untouched counter.
    #[must_use]
    pub fn new(limit: &Limit) -> Self {
        match limit.algorithm {
            Algorithm::SlidingWindow(_) => Self::SlidingWindow(SlidingWindow::new(limit.window)),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::new(limit.window)),
        }
    }

    /// Makes the state one of this algorithm and window. What was admitted is carried over, so no window gets two quotas:
    /// units of a sub-window enter with its end as their time, which is never too early to leave.
    pub fn fit(&mut self, limit: &Limit) {
        let fits = match (&*self, limit.algorithm) {
            (Self::SlidingWindow(state), Algorithm::SlidingWindow(_)) => state.window() == limit.window,
            (Self::SlidingLog(state), Algorithm::SlidingLog) => state.window() == limit.window,
            _ => false,
        };
        if fits {
            return;
        }
        let mut fitting = Self::new(limit);
        for (at, units) in self.admitted() {
            fitting.charge(at, units);
        }
        fitting.move_to(self.last());
        *self = fitting;
    }

    /// Moves to the store's time. A clock that steps back by at most [`CLOCK_ERROR_MAX_MS`] is ignored; further, the
    /// counter is moved with it.
    pub fn advance(&mut self, now: Timestamp) -> Advanced {
        let last = self.last();
        if now >= last {
            self.move_to(now);
            return Advanced { now, rebased: false };
        }
        if last.ms_since(now) <= CLOCK_ERROR_MAX_MS {
            return Advanced { now: last, rebased: false };
        }
        match self {
            Self::SlidingWindow(state) => state.rebase(now),
            Self::SlidingLog(state) => state.rebase(now),
        }
        Advanced { now, rebased: true }
    }

    /// Whether there is room for `cost` at `now`, an instant that [`State::advance`] returned. Charges nothing.
    #[must_use]
    pub fn judge(&self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        match (self, limit.algorithm) {
            (Self::SlidingWindow(state), Algorithm::SlidingWindow(estimate)) => state.judge(limit, estimate, now, cost),
            (Self::SlidingLog(state), _) => state.judge(limit, now, cost),
            // A state that was not fitted reads at its safest.
            (Self::SlidingWindow(state), Algorithm::SlidingLog) => {
                state.judge(limit, Estimate::Conservative, now, cost)
            }
        }
    }

    /// Enters units that were admitted at `at`, whether there is room or not.
    pub fn charge(&mut self, at: Timestamp, units: u64) {
        match self {
            Self::SlidingWindow(state) => state.charge(at, units),
            Self::SlidingLog(state) => state.charge(at, units),
        }
    }

    /// One whole step on one counter: advance, judge, and charge when admitted.
    pub fn step(&mut self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        self.fit(limit);
        let now = self.advance(now).now;
        let verdict = self.judge(limit, now, cost);
        if verdict.admitted {
            self.charge(now, cost);
        }
        verdict
    }

    /// Whether the counter holds nothing that a later step could see.
    #[must_use]
    pub fn is_idle_at(&self, now: Timestamp) -> bool {
        match self {
            Self::SlidingWindow(state) => state.is_idle_at(now),
            Self::SlidingLog(state) => state.is_idle_at(now),
        }
    }

    /// What was admitted and when, oldest first; a sub-window's units at its last instant that is not in the future.
    #[must_use]
    pub fn admitted(&self) -> Vec<(Timestamp, u64)> {
        match self {
            Self::SlidingWindow(state) => state.admitted(),
            Self::SlidingLog(state) => state.admitted(),
        }
    }

    fn last(&self) -> Timestamp {
        match self {
            Self::SlidingWindow(state) => state.last,
            Self::SlidingLog(state) => state.last,
        }
    }

    fn move_to(&mut self, now: Timestamp) {
        match self {
            Self::SlidingWindow(state) => state.move_to(now),
            Self::SlidingLog(state) => state.move_to(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALGORITHMS: [Algorithm; 3] = [
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingLog,
    ];

    fn limit(algorithm: Algorithm, units: u64, width_ms: u64, parts: u32) -> Limit {
        Limit { algorithm, units, window: Window::new(width_ms, parts).unwrap() }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// A12: up to L within W whatever their timing inside it; the next one waits.
    #[test]
    fn a_whole_quota_passes_at_once_and_the_next_call_waits() {
        for algorithm in ALGORITHMS {
            let limit = limit(algorithm, 100, 60_000, 12);
            let mut state = State::new(&limit);
            assert!((0..100).all(|_| state.step(&limit, at(600_500), 1).admitted));
            let refused = state.step(&limit, at(600_500), 1);
            assert!(!refused.admitted && refused.remaining == 0 && refused.retry_at >= at(660_000));
        }
    }

    /// A14: cost 5 of 100 leaves 95; a cost above what is left is denied and takes nothing.
    #[test]
    fn a_cost_is_taken_whole_or_not_at_all() {
        for algorithm in ALGORITHMS {
            let limit = limit(algorithm, 100, 60_000, 12);
            let mut state = State::new(&limit);
            assert_eq!(state.step(&limit, at(1), 5).remaining, 95);
            let refused = state.step(&limit, at(2), 96);
            assert_eq!((refused.admitted, refused.remaining), (false, 95));
            assert_eq!(state.step(&limit, at(3), 95).remaining, 0);
            assert!(!state.step(&limit, at(60_000), 101).admitted, "more than the quota never passes");
        }
    }

    #[test]
    fn a_switch_of_algorithm_in_mid_window_gives_no_second_quota() {
        for from in ALGORITHMS {
            for to in ALGORITHMS {
                let (old, new) = (limit(from, 10, 60_000, 12), limit(to, 10, 60_000, 6));
                let mut state = State::new(&old);
                assert!((0..10).all(|i| state.step(&old, at(600_000 + i), 1).admitted));
                assert!(!state.step(&new, at(630_000), 1).admitted, "{from:?} to {to:?}");
                assert!(!state.step(&new, at(659_999), 1).admitted, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_clock_that_steps_back_opens_nothing() {
        for algorithm in ALGORITHMS {
            let limit = limit(algorithm, 1, 10_000, 10);
            let mut state = State::new(&limit);
            assert!(state.step(&limit, at(100_000), 1).admitted);
            assert_eq!(state.advance(at(99_500)), Advanced { now: at(100_000), rebased: false });
            assert_eq!(state.advance(at(50_000)), Advanced { now: at(50_000), rebased: true });
            assert!(!state.step(&limit, at(50_000), 1).admitted);
            assert!(!state.step(&limit, at(59_999), 1).admitted, "the unit is as old as the clock's step left it");
            assert!(state.step(&limit, at(61_000), 1).admitted);
        }
    }

    #[test]
    fn a_clock_that_steps_back_leaves_every_unit_as_old_as_it_was() {
        for algorithm in ALGORITHMS {
            let limit = limit(algorithm, 1, 10_000, 10);
            let mut state = State::new(&limit);
            assert!(state.step(&limit, at(100_000), 1).admitted);
            assert!(!state.step(&limit, at(106_000), 1).admitted, "six seconds old");
            assert!(state.advance(at(50_000)).rebased);
            assert!(!state.step(&limit, at(53_999), 1).admitted, "not yet ten");
            assert!(state.step(&limit, at(55_000), 1).admitted, "{algorithm:?}");
        }
    }

    proptest! {
        /// A1, A15, never-over: against a plain list of what was admitted. No true window over the quota (exact and
        /// conservative); a denial passes at `retry_at` and not a millisecond before.
        #[test]
        fn verdicts_hold_against_a_list_of_timestamps(
            which in 0_usize..3,
            units in 1_u64..8,
            steps in prop::collection::vec((0_u64..40, 1_u64..4), 1..120),
        ) {
            let algorithm = ALGORITHMS[which];
            let limit = limit(algorithm, units, 60, 6);
            let mut state = State::new(&limit);
            let mut admitted: Vec<(u64, u64)> = Vec::new();
            let mut now = 1_000_000;
            for (wait_ms, cost) in steps {
                now += wait_ms;
                let in_window: u64 = admitted.iter().filter(|(t, _)| *t > now - 60).map(|(_, c)| c).sum();
                let before = state.clone();
                let verdict = state.step(&limit, at(now), cost);
                if algorithm == Algorithm::SlidingLog {
                    prop_assert_eq!(verdict.admitted, in_window + cost <= units);
                }
                if verdict.admitted {
                    admitted.push((now, cost));
                    if algorithm != Algorithm::SlidingWindow(Estimate::Interpolated) {
                        prop_assert!(in_window + cost <= units);
                    }
                } else if cost <= units {
                    prop_assert!(before.judge(&limit, verdict.retry_at, cost).admitted);
                    prop_assert!(!before.judge(&limit, verdict.retry_at.minus_ms(1), cost).admitted);
                }
                prop_assert!(!state.judge(&limit, verdict.reset_at.minus_ms(1), units).admitted || verdict.reset_at <= at(now));
                prop_assert!(state.judge(&limit, verdict.reset_at.max(at(now)), units).admitted);
            }
        }
    }
}
