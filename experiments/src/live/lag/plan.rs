//! Parameters of a run, and those that are fixed.

use std::num::NonZeroU32;

use crate::error::ExperimentError;

/// Most calls of one run; the instants of each are kept in memory.
pub(super) const CALLS_MAX: u64 = 20_000_000;
pub(super) const DESCRIPTOR: &str = "key";
pub(super) const RULE: &str = "per-key";
/// Part of its quota from which on a counter is signalled: any.
pub(super) const THRESHOLD_PERMILLE: u32 = 0;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct LagPlan {
    /// Number of agents.
    pub agents: NonZeroU32,
    /// Calls per second, of all agents together.
    pub rate: NonZeroU32,
    /// Duration of the measurement, in seconds.
    pub seconds: u32,
    /// Duration of the warm-up before it, in seconds.
    pub warm_up_seconds: u32,
}

impl LagPlan {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If they are not valid, with the remedy.
    pub fn check(&self) -> Result<(), ExperimentError> {
        if self.agents.get() < 2 {
            return Err(ExperimentError::Plan("a call is measured at another agent: give at least 2 agents"));
        }
        if self.seconds == 0 {
            return Err(ExperimentError::Plan("0 seconds measure nothing: give at least 1"));
        }
        if self.calls() > CALLS_MAX {
            return Err(ExperimentError::Plan("a run has at most 20 million calls: lower the rate or the seconds"));
        }
        Ok(())
    }

    pub(super) fn calls(&self) -> u64 {
        u64::from(self.rate.get()) * (u64::from(self.seconds) + u64::from(self.warm_up_seconds))
    }

    pub(super) fn warm_up_calls(&self) -> u64 {
        u64::from(self.rate.get()) * u64::from(self.warm_up_seconds)
    }
}
