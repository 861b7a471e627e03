//! What a rule asks of one caller: the quota and how it is kept. A rule has several when tiers or single keys differ.

use std::time::Duration;

use super::{DEADLINE_MS_DEFAULT, Quota};
use crate::algorithm::{Algorithm, LEVEL_MAX, Limit, Rate, SLIDING_LOG_QUOTA_MAX, SLIDING_LOG_WIDTH_MS_MAX};
use crate::window::{Estimate, Window};

/// What a rule asks of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    /// How much in which window.
    pub quota: Quota,
    /// The quota's window and its sub-windows.
    pub window: Window,
    /// How it is counted.
    pub algorithm: Algorithm,
    /// How many units pass at once after idleness, or may queue; 0 where there is none.
    pub burst: u64,
    /// How certain an admission must be.
    pub consistency: Consistency,
    /// What to do when neither the store nor a fresh signal can tell.
    pub on_failure: OnFailure,
    /// How long a call waits for the store.
    pub deadline: Duration,
}

/// How certain an admission must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The store is asked for each admission.
    Strict,
    /// A small excess may pass; until allowances exist it is decided as strict.
    Bounded,
}

/// What an agent does when it is on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Admit an equal share of the quota: quota / active agents.
    Share,
    /// Admit all.
    Open,
    /// Deny all.
    Closed,
    /// Admit so much on each agent.
    Limit(Quota),
}

/// Why policy cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// More calls than a log keeps.
    #[error("a `sliding_log` keeps every call, {SLIDING_LOG_QUOTA_MAX} at most; use `sliding_window` for {0}")]
    LogQuota(Quota),
    /// More slots than are kept.
    #[error("`concurrency` keeps every call under way, {SLIDING_LOG_QUOTA_MAX} at most; {0} is more")]
    Slots(Quota),
    /// A longer time than a log's timestamps span.
    #[error("a `sliding_log` remembers 24 days at most; use `sliding_window` for {0}")]
    LogWidth(Quota),
    /// A longer time than a slot's timestamp spans.
    #[error("a slot of `concurrency` is held 24 days at most; {0} is longer")]
    SlotWidth(Quota),
    /// A burst that is none.
    #[error(
        "a burst of {1} is below {0}, of which a `sliding_window` lets everything pass at once anyway; write more, or `burst: false` for none"
    )]
    BurstBelow(Quota, u64),
    /// More than the quota under a promise of not more than the quota.
    #[error(
        "a burst lets more pass than the quota, and `consistency: strict` promises that nothing does; write `burst: false` for none, or `consistency: bounded`"
    )]
    BurstOfStrict,
    /// Numbers too large to be exact.
    #[error(
        "{0} with a burst of {1} cannot be counted exactly; write rounder numbers (1000000/d, not 999999/d), or a smaller burst"
    )]
    Inexact(Quota, u64),
}

impl LimitPolicy {
    /// Sliding window, interpolated, bounded.
    ///
    /// # Panics
    /// Never: a quota's width is always the width of a window.
    #[must_use]
    pub fn of(quota: Quota) -> Self {
        Self {
            quota,
            window: Window::with_default_parts(quota.width_ms()).expect("a quota's width is in range"),
            algorithm: Algorithm::SlidingWindow(Estimate::Interpolated),
            burst: 0,
            consistency: Consistency::Bounded,
            on_failure: OnFailure::Share,
            deadline: Duration::from_millis(DEADLINE_MS_DEFAULT),
        }
    }

    /// The same, counted so. A bucket without a burst holds what its rate gives in a second.
    ///
    /// # Panics
    /// Never: a quota's width is always the width of a window.
    #[must_use]
    pub fn counted_by(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        if algorithm == Algorithm::FixedWindow {
            self.window = Window::new(self.quota.width_ms(), 1).expect("a quota's width is in range");
        }
        if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) && self.burst == 0 {
            self.burst = burst_default(self.quota);
        }
        self
    }

    /// The same for another quota: a burst keeps its ratio to it.
    #[must_use]
    pub fn with_quota(self, quota: Quota) -> Self {
        let burst = u128::from(self.burst) * u128::from(quota.units()) / u128::from(self.quota.units());
        let parts = if quota.width_ms() == self.quota.width_ms() { self.window.parts() } else { 0 };
        let window = Window::new(quota.width_ms(), parts).or_else(|_| Window::with_default_parts(quota.width_ms()));
        let burst = u64::try_from(burst).unwrap_or(u64::MAX).max(u64::from(self.burst > 0));
        Self { quota, window: window.unwrap_or(self.window), burst, ..self }.counted_by(self.algorithm)
    }

    /// Whether a store can keep them.
    ///
    /// # Errors
    /// When they ask for more than the algorithm can count, or contradict each other.
    pub fn check(&self) -> Result<(), PolicyError> {
        let Self { quota, burst, .. } = *self;
        let too_many = quota.units() > SLIDING_LOG_QUOTA_MAX;
        let too_long = quota.width_ms() > SLIDING_LOG_WIDTH_MS_MAX;
        match self.algorithm {
            Algorithm::SlidingLog if too_many => Err(PolicyError::LogQuota(quota)),
            Algorithm::SlidingLog if too_long => Err(PolicyError::LogWidth(quota)),
            Algorithm::Concurrency if too_many => Err(PolicyError::Slots(quota)),
            Algorithm::Concurrency if too_long => Err(PolicyError::SlotWidth(quota)),
            Algorithm::SlidingWindow(_) if burst > 0 && burst < quota.units() => {
                Err(PolicyError::BurstBelow(quota, burst))
            }
            Algorithm::SlidingWindow(_) if burst > 0 && self.consistency == Consistency::Strict => {
                Err(PolicyError::BurstOfStrict)
            }
            _ if !self.is_exact() => Err(PolicyError::Inexact(quota, burst)),
            _ => Ok(()),
        }
    }

    /// Whether what a burst is counted in stays within exact numbers.
    fn is_exact(&self) -> bool {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                Rate::of(self.quota.units(), self.quota.width_ms()).is_exact_for(self.burst)
            }
            _ => self.burst.checked_mul(self.window.parts().into()).is_some_and(|units| units <= LEVEL_MAX),
        }
    }

    /// The most that passes at once.
    #[must_use]
    pub fn at_once(&self) -> u64 {
        if self.burst > 0 { self.burst } else { self.quota.units() }
    }

    /// What a store step is judged by.
    #[must_use]
    pub fn limit(&self) -> Limit {
        Limit { algorithm: self.algorithm, units: self.quota.units(), window: self.window, burst: self.burst }
    }
}

/// What the rate gives in a second, and at least one unit.
#[must_use]
pub fn burst_default(quota: Quota) -> u64 {
    let per_second = u128::from(quota.units()) * 1_000;
    u64::try_from(per_second.div_ceil(u128::from(quota.width_ms()))).unwrap_or(u64::MAX).max(1)
}
