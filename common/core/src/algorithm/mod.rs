//! How a counter decides: pure state machines, `(state, now, cost) -> verdict`.
//!
//! A store keeps one [`CounterState`] per counter and does for each charge: [`CounterState::advance`] to its own time, [`CounterState::evaluate`],
//! and, when all counters of the call have room, [`CounterState::charge`]. What is judged by is handed in as a [`Limit`], so a
//! changed quota holds at the next step and a changed algorithm carries the count over ([`CounterState::fit`]).
//!
//! Three kinds of memory serve all algorithms: counts per sub-window, a log of timestamps, a meter.

mod meter;
mod token_bucket;
mod leaky_bucket;
mod reserve;
mod sliding_window;
mod fixed_window;
mod sliding_log;
mod concurrency;
#[cfg(test)]
mod tests;

use crate::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use crate::window::{Estimate, Window};

pub use meter::{LEVEL_MAX, Meter, Rate};
pub use sliding_log::{QUOTA_MAX as SLIDING_LOG_QUOTA_MAX, SlidingLog, WIDTH_MS_MAX as SLIDING_LOG_WIDTH_MS_MAX};
pub use sliding_window::SlidingWindow;

/// The algorithms, with what only they need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Counts per sub-window: constant space, off by at most the content of one sub-window.
    SlidingWindow(Estimate),
    /// Every admitted timestamp: exact, 4 bytes a unit, for quotas up to [`SLIDING_LOG_QUOTA_MAX`].
    SlidingLog,
    /// One count that starts anew: up to twice the quota around an edge.
    FixedWindow,
    /// Tokens at the quota's rate, up to the burst: up to burst + quota in a window.
    TokenBucket,
    /// A queue that drains at the quota's rate; the verdict carries the delay.
    LeakyBucket,
    /// Slots, given back when the call ends or lost after the quota's duration.
    Concurrency,
}

/// What one step is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How.
    pub algorithm: Algorithm,
    /// How many units fit in a window.
    pub units: u64,
    /// The window; that of a fixed window has one part.
    pub window: Window,
    /// How many units pass at once after idleness; of a leaky bucket, how many may queue. 0 where there is none.
    pub burst: u64,
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
    /// How long the call must be held back before it goes on, in ms: its turn in the queue of a leaky bucket.
    pub delay_ms: u64,
}

/// One counter's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// Counts per sub-window: of [`Algorithm::SlidingWindow`], and as a single one of [`Algorithm::FixedWindow`].
    Counts(SlidingWindow),
    /// Timestamps: of [`Algorithm::SlidingLog`], and as slots of [`Algorithm::Concurrency`].
    Log(SlidingLog),
    /// A level: of [`Algorithm::TokenBucket`] and [`Algorithm::LeakyBucket`].
    Meter {
        /// The level.
        meter: Meter,
        /// The counter's last step.
        last: Timestamp,
    },
}

/// The instant at which a step happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepInstant {
    /// The store's time, never before the counter's last step.
    pub now: Timestamp,
    /// Whether the clock had stepped back so far that the counter was moved with it; worth an alarm.
    pub rebased: bool,
}

impl Limit {
    /// How a sliding window with a burst estimates; none where there is no burst beyond the quota.
    fn reserve_estimate(&self) -> Option<Estimate> {
        match self.algorithm {
            Algorithm::SlidingWindow(estimate) if self.burst > 0 => Some(estimate),
            _ => None,
        }
    }
}

impl CounterState {
    /// An untouched counter.
    #[must_use]
    pub fn new(limit: &Limit) -> Self {
        match limit.algorithm {
            Algorithm::SlidingWindow(_) | Algorithm::FixedWindow => Self::Counts(SlidingWindow::new(limit)),
            Algorithm::SlidingLog | Algorithm::Concurrency => Self::Log(SlidingLog::new(limit.window)),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                Self::Meter { meter: Meter::new(limit), last: Timestamp::default() }
            }
        }
    }

    /// A bucket as a store tells of it: its level as of its last charge.
    #[must_use]
    pub fn with_meter(self, limit: &Limit, at: Timestamp, level: u64) -> Self {
        match self {
            Self::Meter { last, .. } => Self::Meter { meter: Meter::of(limit, at, level), last },
            other => other,
        }
    }

    /// A sliding window with a burst as a store tells of it: what is spent of the reserve, in units times sub-windows.
    #[must_use]
    pub fn with_spent(mut self, limit: &Limit, spent: u64) -> Self {
        if let Self::Counts(state) = &mut self {
            state.set_spent(limit, spent);
        }
        self
    }

    /// Last charge and level of a bucket; `None` for other states.
    #[must_use]
    pub fn meter(&self) -> Option<(Timestamp, u64)> {
        match self {
            Self::Meter { meter, .. } => Some(meter.charged()),
            _ => None,
        }
    }

    /// Spent part of the reserve of a sliding window with a burst, in units times sub-windows; 0 for other states.
    #[must_use]
    pub fn spent(&self) -> u64 {
        match self {
            Self::Counts(state) => state.spent(),
            _ => 0,
        }
    }

    /// Makes the state one of this limit. What was admitted is carried over, so no window gets two quotas: units of a
    /// sub-window enter with its end as their time, and a bucket's as late as they may have been; neither is ever too early
    /// to leave. A bucket takes over what others hold as spent, and keeps its own tokens when only its quota changes.
    pub fn fit(&mut self, limit: &Limit) {
        let last = self.last();
        match (&mut *self, limit.algorithm) {
            (Self::Counts(state), Algorithm::SlidingWindow(_) | Algorithm::FixedWindow)
                if state.window() == limit.window =>
            {
                state.fit_reserve(limit);
            }
            (Self::Log(state), Algorithm::SlidingLog | Algorithm::Concurrency) if state.window() == limit.window => {}
            (Self::Meter { meter, .. }, Algorithm::TokenBucket | Algorithm::LeakyBucket) => {
                if !meter.fits(limit) {
                    *meter = meter.refitted(limit, last);
                }
            }
            (state, Algorithm::TokenBucket | Algorithm::LeakyBucket) => {
                *self = Self::Meter { meter: Meter::filled(limit, last, state.held()), last };
            }
            _ => {
                let mut fitting = Self::new(limit);
                for (at, units) in self.admitted() {
                    fitting.charge(at, units);
                }
                fitting.move_to(last);
                *self = fitting;
            }
        }
    }

    /// Moves to the store's time. A clock that steps back by at most [`CLOCK_ERROR_MAX_MS`] is ignored; further, the
    /// counter is moved with it.
    pub fn advance(&mut self, now: Timestamp) -> StepInstant {
        let last = self.last();
        if now >= last {
            self.move_to(now);
            return StepInstant { now, rebased: false };
        }
        if last.ms_since(now) <= CLOCK_ERROR_MAX_MS {
            return StepInstant { now: last, rebased: false };
        }
        match self {
            Self::Counts(state) => state.rebase(now),
            Self::Log(state) => state.rebase(now),
            Self::Meter { meter, last } => {
                meter.rebase(last.ms_since(now));
                *last = now;
            }
        }
        StepInstant { now, rebased: true }
    }

    /// Whether there is room for `cost` at `now`, an instant that [`CounterState::advance`] returned. Charges nothing.
    #[must_use]
    pub fn evaluate(&self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        match (self, limit.algorithm) {
            (Self::Counts(state), Algorithm::SlidingWindow(estimate)) => state.evaluate(limit, estimate, now, cost),
            (Self::Counts(state), Algorithm::FixedWindow) => fixed_window::evaluate(state, limit, now, cost),
            (Self::Log(state), Algorithm::Concurrency) => concurrency::evaluate(state, limit, now, cost),
            (Self::Log(state), _) => state.evaluate(limit, now, cost),
            (Self::Meter { meter, .. }, Algorithm::LeakyBucket) => leaky_bucket::evaluate(meter, limit, now, cost),
            (Self::Meter { meter, .. }, _) => token_bucket::evaluate(meter, limit, now, cost),
            // A state that was not fitted reads at its safest.
            (Self::Counts(state), _) => state.evaluate(limit, Estimate::Conservative, now, cost),
        }
    }

    /// Enters units that were admitted at `at`, whether there is room or not.
    pub fn charge(&mut self, at: Timestamp, units: u64) {
        match self {
            Self::Counts(state) => state.charge(at, units),
            Self::Log(state) => state.charge(at, units),
            Self::Meter { meter, last } => {
                meter.charge(at, units);
                *last = (*last).max(at);
            }
        }
    }

    /// Takes back units that were charged at `at`, as far as they are still there; of a log only those of that very
    /// instant.
    pub fn refund(&mut self, at: Timestamp, units: u64) {
        match self {
            Self::Counts(state) => state.refund(at, units),
            Self::Log(state) => state.refund(at, units),
            Self::Meter { meter, .. } => meter.refund(units),
        }
    }

    /// One whole step on one counter: advance, evaluate, and charge when admitted.
    pub fn step(&mut self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        self.fit(limit);
        let now = self.advance(now).now;
        let verdict = self.evaluate(limit, now, cost);
        if verdict.admitted {
            self.charge(now, cost);
        }
        verdict
    }

    /// Whether the counter holds nothing that a later step could see.
    #[must_use]
    pub fn is_idle_at(&self, now: Timestamp) -> bool {
        match self {
            Self::Counts(state) => state.is_idle_at(now),
            Self::Log(state) => state.is_idle_at(now),
            Self::Meter { meter, .. } => meter.is_idle_at(now),
        }
    }

    /// What was admitted and when, oldest first: a sub-window's units at its last instant that is not in the future, a
    /// bucket's as late and as many as they may have been.
    #[must_use]
    pub fn admitted(&self) -> Vec<(Timestamp, u64)> {
        match self {
            Self::Counts(state) => state.admitted(),
            Self::Log(state) => state.admitted(),
            Self::Meter { meter, last } => meter.admitted(*last),
        }
    }

    /// How many units it holds; of a bucket, how many are missing.
    fn held(&self) -> u64 {
        match self {
            Self::Counts(state) => state.held(),
            Self::Log(state) => state.held(),
            Self::Meter { meter, last } => meter.units_in(meter.level_at(*last)),
        }
    }

    fn last(&self) -> Timestamp {
        match self {
            Self::Counts(state) => state.last,
            Self::Log(state) => state.last,
            Self::Meter { last, .. } => *last,
        }
    }

    fn move_to(&mut self, now: Timestamp) {
        match self {
            Self::Counts(state) => state.move_to(now),
            Self::Log(state) => state.move_to(now),
            Self::Meter { last, .. } => *last = now,
        }
    }
}
