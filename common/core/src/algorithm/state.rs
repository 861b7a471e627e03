//! State of a counter: three forms serve all algorithms. A step advances it, evaluates a charge and, if all counters of the
//! call have room, charges it.

use super::{Algorithm, Limit, Meter, SlidingLog, SlidingWindow, Verdict, leaky_bucket, token_bucket};
use crate::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use crate::window::Estimate;

/// Evaluates an expression for the state in either of its forms.
macro_rules! in_each_form {
    ($state:expr, $form:ident => $value:expr) => {
        match $state {
            Self::Counts($form) => $value,
            Self::Log($form) => $value,
            Self::Meter($form) => $value,
        }
    };
}

/// State of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterState {
    /// Counts per sub-window, for [`Algorithm::SlidingWindow`] and, with a single sub-window,
    /// [`Algorithm::FixedWindow`].
    Counts(SlidingWindow),
    /// Timestamps, for [`Algorithm::SlidingLog`] and, as slots, [`Algorithm::Concurrency`].
    Log(SlidingLog),
    /// Level, for [`Algorithm::TokenBucket`] and [`Algorithm::LeakyBucket`].
    /// It is the largest of the three, and therefore in memory of its own.
    Meter(Box<Meter>),
}

impl CounterState {
    /// Returns the state of an unused counter.
    #[must_use]
    pub fn new(limit: &Limit) -> Self {
        match limit.algorithm {
            Algorithm::SlidingWindow(_) | Algorithm::FixedWindow => Self::Counts(SlidingWindow::new(limit)),
            Algorithm::SlidingLog | Algorithm::Concurrency => Self::Log(SlidingLog::new(limit.window)),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Self::Meter(Box::new(Meter::new(limit))),
        }
    }

    /// Converts the state to the form of `limit` if it has another one. Admitted units are carried over, so that no
    /// window gets two quotas: the units of a sub-window are entered at its end, and those of a bucket at their latest
    /// possible times, so that neither leaves the window too early. A bucket takes over the units of other forms as
    /// spent; if only its quota changes, it keeps its tokens.
    pub fn fit(&mut self, limit: &Limit) {
        match (&mut *self, limit.algorithm) {
            (Self::Counts(state), Algorithm::SlidingWindow(_) | Algorithm::FixedWindow)
                if state.window() == limit.window =>
            {
                return state.set_spent(limit, state.spent());
            }
            (Self::Log(state), Algorithm::SlidingLog | Algorithm::Concurrency) if state.window() == limit.window => {
                return;
            }
            (Self::Meter(meter), Algorithm::TokenBucket | Algorithm::LeakyBucket) => return meter.fit(limit),
            _ => {}
        }
        let (mut fitting, last) = (Self::new(limit), self.last());
        let is_bucket = matches!(fitting, Self::Meter(_));
        let carried = if is_bucket { vec![(last, self.held())] } else { self.admitted() };
        for (at, units) in carried {
            fitting.charge(at, units);
        }
        fitting.move_to(last);
        *self = fitting;
    }

    /// Advances the state to `now`. A step back of at most [`CLOCK_ERROR_MAX_MS`] is ignored; after a larger one the
    /// counter is re-based to `now`, so that no unit leaves early. Returns the instant of the step.
    #[inline]
    pub fn advance(&mut self, limit: &Limit, now: Timestamp) -> Timestamp {
        let last = self.last();
        if now >= last {
            self.move_to(now);
            return now;
        }
        if last.ms_since(now) <= CLOCK_ERROR_MAX_MS {
            return last;
        }
        match self {
            Self::Counts(state) => state.rebase(limit, now),
            Self::Log(state) => state.rebase(now),
            Self::Meter(state) => state.rebase(now),
        }
        now
    }

    /// Evaluates a charge of `cost` at `now`, an instant that [`CounterState::advance`] returned. Does not charge.
    #[must_use]
    #[inline]
    pub fn evaluate(&self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        match (self, limit.algorithm) {
            (Self::Counts(state), Algorithm::SlidingWindow(estimate)) => state.evaluate(limit, estimate, now, cost),
            (Self::Counts(state), Algorithm::FixedWindow) => state.evaluate(limit, Estimate::Ignored, now, cost),
            // Counts that were not fitted to the limit use the conservative estimate.
            (Self::Counts(state), _) => state.evaluate(limit, Estimate::Conservative, now, cost),
            (Self::Log(state), _) => state.evaluate(limit, now, cost),
            (Self::Meter(meter), Algorithm::LeakyBucket) => leaky_bucket::evaluate(meter, limit, now, cost),
            (Self::Meter(meter), _) => token_bucket::evaluate(meter, limit, now, cost),
        }
    }

    /// Charges units that were admitted at `at`, without checking for room.
    #[inline]
    pub fn charge(&mut self, at: Timestamp, units: u64) {
        in_each_form!(self, form => form.charge(at, units));
    }

    /// Refunds units that were charged at `at`, up to the units that are still counted. A log refunds only entries with
    /// exactly that timestamp.
    pub fn refund(&mut self, at: Timestamp, units: u64) {
        in_each_form!(self, form => form.refund(at, units));
    }

    /// Removes all units. The instant of the last step stays.
    pub fn empty(&mut self, limit: &Limit) {
        let last = self.last();
        *self = Self::new(limit);
        self.move_to(last);
    }

    /// Performs one whole step on one counter: fits, advances, evaluates, and charges if admitted.
    pub fn step(&mut self, limit: &Limit, now: Timestamp, cost: u64) -> Verdict {
        self.fit(limit);
        let now = self.advance(limit, now);
        let verdict = self.evaluate(limit, now, cost);
        if verdict.admitted {
            self.charge(now, cost);
        }
        verdict
    }

    /// Returns true if the state has no effect on later steps and may be dropped.
    #[must_use]
    pub fn is_idle_at(&self, now: Timestamp) -> bool {
        in_each_form!(self, form => form.is_idle_at(now))
    }

    /// Returns the admitted units and their times, oldest first. The units of a sub-window are dated at its last
    /// instant, or at the last step if that is earlier; those of a bucket at their latest possible times and in their
    /// maximum number.
    #[must_use]
    pub fn admitted(&self) -> Vec<(Timestamp, u64)> {
        in_each_form!(self, form => form.admitted())
    }

    /// Returns the counted units of the sub-window of `at`; for a bucket, the units of its level then.
    #[must_use]
    pub fn held_around(&self, at: Timestamp) -> u64 {
        in_each_form!(self, form => form.held_around(at))
    }

    /// Returns the counted units; for a bucket, the units of its level.
    fn held(&self) -> u64 {
        in_each_form!(self, form => form.held())
    }

    /// Returns the instant of the last step.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Timestamp {
        in_each_form!(self, form => form.last)
    }

    #[inline]
    fn move_to(&mut self, now: Timestamp) {
        in_each_form!(self, form => form.move_to(now));
    }
}
