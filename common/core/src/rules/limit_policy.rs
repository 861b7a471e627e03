//! Limit policy: the requirements of a rule for one caller, after tiers, keys and claims are resolved.
//!
//! A rule has several policies when tiers or single keys differ. `match_rules` selects one; `algorithm` evaluates it.

use std::num::NonZeroU64;
use std::time::Duration;

use super::Quota;
use super::policy_error::{DEADLINE_MS_MAX, PolicyError};
use crate::algorithm::{Algorithm, LEVEL_MAX, Limit, Rate, SLIDING_LOG_QUOTA_MAX, SLIDING_LOG_WIDTH_MS_MAX};
use crate::window::{Estimate, Window};

/// Default of the time that a call waits for the store, in ms.
pub const DEADLINE_MS_DEFAULT: u64 = 15;
/// Requirements of a rule for one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitPolicy {
    /// Quota: units per window.
    pub quota: Quota,
    /// Window of the quota, with its sub-windows.
    pub window: Window,
    /// Algorithm that counts.
    pub algorithm: Algorithm,
    /// Units that pass at once after idleness, or that may queue; 0 without a burst.
    pub burst: u64,
    /// Required certainty of an admission.
    pub consistency: Consistency,
    /// Behaviour while neither the store nor a fresh signal can decide.
    pub on_failure: OnFailure,
    /// Maximum time that a call waits for the store.
    pub deadline: Duration,
    /// True if agents may lease units, and spend them without asking the store.
    pub leases: bool,

    /// Units of a counter per window over all regions, of a rule with a global scope in one region: `quota` is the region's floor
    /// then, and the store adds the units that the region has been granted.
    #[doc(hidden)]
    pub global_quota: Option<NonZeroU64>,
}

/// Required certainty of an admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The store decides each admission.
    Strict,
    /// The store decides each admission, as long as it answers in time. Late calls are decided by `on_failure`.
    Bounded,
    /// No store decides or counts. Each agent decides by the signals of the aggregator and by its own admissions that
    /// they do not contain yet; without fresh signals, by `on_failure`.
    Eventual,
}

/// Behaviour of an agent while neither the store nor a fresh signal can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Admit an equal share of the quota: quota / active agents.
    Share,
    /// Admit all.
    Open,
    /// Deny all.
    Closed,
    /// Admit this quota on each agent.
    Limit(Quota),
}

impl LimitPolicy {
    /// Creates the default policy of a quota: sliding window, interpolated, bounded.
    ///
    /// # Panics
    /// Never: a quota's width is always the width of a window.
    #[must_use]
    pub fn of(quota: Quota) -> Self {
        Self {
            quota,
            window: Window::with_default_sub_windows(quota.width_ms()).expect("a quota's width is in range"),
            algorithm: Algorithm::SlidingWindow(Estimate::Interpolated),
            burst: 0,
            consistency: Consistency::Bounded,
            on_failure: OnFailure::Share,
            deadline: Duration::from_millis(DEADLINE_MS_DEFAULT),
            leases: true,

            global_quota: None,
        }
    }

    /// Returns true if agents lease units under this policy.
    #[must_use]
    pub fn may_lease(&self) -> bool {
        self.leases && self.consistency != Consistency::Eventual && self.limit().leases()
    }

    /// Returns the units of a counter per window over all regions, of a rule with a global scope.
    #[doc(hidden)]
    #[must_use]
    pub fn units_over_regions(&self) -> u64 {
        self.global_quota.map_or(self.quota.units(), NonZeroU64::get)
    }

    /// Sets the consistency, and the estimate that is its default: conservative if strict, else interpolated.
    pub fn set_consistency(&mut self, consistency: Consistency) {
        self.consistency = consistency;
        if let Algorithm::SlidingWindow(estimate) = &mut self.algorithm {
            *estimate = match consistency {
                Consistency::Strict => Estimate::Conservative,
                Consistency::Bounded | Consistency::Eventual => Estimate::Interpolated,
            };
        }
    }

    /// Divides the window as a rule with a global scope does by default: units that are counted for longer than a window are missing
    /// in every region.
    #[doc(hidden)]
    pub fn divide_finely(&mut self) {
        self.window = Window::with_fine_sub_windows(self.quota.width_ms()).unwrap_or(self.window);
    }

    /// Returns the same policy with another algorithm. A bucket without a burst holds the units that its rate gives in
    /// a second.
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
            // The units that the rate gives in a second; at least one.
            let burst = (u128::from(self.quota.units()) * 1_000).div_ceil(u128::from(self.quota.width_ms()));
            self.burst = u64::try_from(burst).unwrap_or(u64::MAX).max(1);
        }
        self
    }

    /// Returns the same policy for another quota. A burst keeps its ratio to the quota.
    #[doc(hidden)]
    #[must_use]
    pub fn with_quota(self, quota: Quota) -> Self {
        let burst = u128::from(self.burst) * u128::from(quota.units()) / u128::from(self.quota.units());
        let parts = if quota.width_ms() == self.quota.width_ms() { self.window.sub_windows() } else { 0 };
        let window =
            Window::new(quota.width_ms(), parts).or_else(|_| Window::with_default_sub_windows(quota.width_ms()));
        let burst = u64::try_from(burst).unwrap_or(u64::MAX).max(u64::from(self.burst > 0));
        Self { quota, window: window.unwrap_or(self.window), burst, ..self }.counted_by(self.algorithm)
    }

    /// Checks that a store can enforce the policy.
    ///
    /// # Errors
    /// When a value exceeds the range of the algorithm, or two values contradict each other.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), PolicyError> {
        let Self { quota, burst, deadline, .. } = *self;
        if !(1..=u128::from(DEADLINE_MS_MAX)).contains(&deadline.as_millis()) {
            return Err(PolicyError::Deadline(deadline));
        }
        let too_many = quota.units() > SLIDING_LOG_QUOTA_MAX;
        let too_long = quota.width_ms() > SLIDING_LOG_WIDTH_MS_MAX;
        self.check_eventual()?;
        match self.algorithm {
            Algorithm::SlidingLog if too_many => Err(PolicyError::LogQuota(quota)),
            Algorithm::SlidingLog if too_long => Err(PolicyError::LogWidth(quota)),
            Algorithm::Concurrency if too_many => Err(PolicyError::Slots(quota.units())),
            Algorithm::Concurrency if too_long => Err(PolicyError::SlotWidth(quota)),
            Algorithm::SlidingWindow(_) if burst > 0 && burst < quota.units() => {
                Err(PolicyError::BurstBelow(quota, burst))
            }
            Algorithm::SlidingWindow(_) if burst > 0 && self.consistency == Consistency::Strict => {
                Err(PolicyError::BurstOfStrict)
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket if burst < self.units_of_ms() => {
                Err(PolicyError::BurstTooSmall(quota, burst, self.units_of_ms()))
            }
            _ if !self.is_exact() => Err(PolicyError::Inexact(quota, burst)),
            _ => Ok(()),
        }
    }

    /// Returns the units that the rate gives in a millisecond, rounded up.
    fn units_of_ms(&self) -> u64 {
        self.quota.units().div_ceil(self.quota.width_ms())
    }

    /// Checks that signals can enforce an eventual policy: they contain counts per sub-window, and nothing else
    /// enforces it.
    fn check_eventual(&self) -> Result<(), PolicyError> {
        match self.algorithm {
            _ if self.consistency != Consistency::Eventual => Ok(()),
            Algorithm::SlidingWindow(_) if self.burst > 0 => Err(PolicyError::BurstOfEventual),
            Algorithm::SlidingWindow(_) | Algorithm::FixedWindow => Ok(()),
            _ => Err(PolicyError::AlgorithmOfEventual),
        }
    }

    /// Returns true if the arithmetic of the burst stays within exact numbers.
    fn is_exact(&self) -> bool {
        let of_unit = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Rate::of(self.quota.units(), self.quota.width_ms()).ms,
            _ => self.window.sub_windows().into(),
        };
        self.burst.checked_mul(of_unit).is_some_and(|level| level <= LEVEL_MAX)
    }

    /// Returns the largest number of units that pass at once.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn at_once(&self) -> u64 {
        if self.burst > 0 { self.burst } else { self.quota.units() }
    }

    /// Returns the largest cost of a call that ever passes. A region may be granted the whole quota of a global rule.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn cost_max(&self) -> u64 {
        self.global_quota.map_or(0, NonZeroU64::get).max(self.at_once())
    }

    /// Returns the largest number of units that a window holds, as the algorithm and its estimate count them. A bucket
    /// adds to its burst what its rate gives meanwhile.
    #[doc(hidden)]
    #[must_use]
    pub fn most_in_window(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.quota.units().saturating_add(self.burst),
            _ => self.at_once(),
        }
    }

    /// Returns the parameters of a store step.
    #[doc(hidden)]
    #[must_use]
    pub fn limit(&self) -> Limit {
        Limit { algorithm: self.algorithm, units: self.quota.units(), window: self.window, burst: self.burst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule in Rust has the range of a rules file: a deadline of 0 would decide each call without the store.
    #[test]
    fn a_deadline_out_of_range_is_refused() {
        let policy = LimitPolicy::of("100/min".parse().expect("a quota"));
        for (ms, refusal) in [
            (0, Some("`deadline` is `0ms`; write 1ms to 10000ms")),
            (1, None),
            (10_000, None),
            (60_000, Some("`deadline` is `60000ms`; write 1ms to 10000ms")),
        ] {
            let checked = LimitPolicy { deadline: Duration::from_millis(ms), ..policy }.check();
            assert_eq!(checked.err().map(|error| error.to_string()).as_deref(), refusal);
        }
    }
}
