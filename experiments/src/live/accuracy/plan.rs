//! Parameters of a run, and those that are fixed.

use std::num::NonZeroU32;

use crate::error::ExperimentError;

/// Quota of each caller, and its window in ms.
pub(super) const QUOTA: u64 = 100;
pub(super) const WIDTH_MS: u64 = 10_000;
/// Quota of a tenant, which all callers of a consistency belong to, in the same window. They use up to 1,700 units of it.
pub(super) const TENANT_QUOTA: u64 = 2_500;
/// Ways of limiting, each of which has callers of its own.
pub(super) const CONSISTENCIES: [&str; 3] = ["strict", "bounded", "eventual"];

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct AccuracyPlan {
    /// Number of agents.
    pub agents: NonZeroU32,
    /// Duration of the measurement, in seconds, after two windows that are not measured.
    pub seconds: u32,
    /// True if each call counts under a rule of its tenant, too, which has room for all callers.
    pub has_tenant: bool,
}

impl AccuracyPlan {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If they are not valid, with the remedy.
    pub fn check(&self) -> Result<(), ExperimentError> {
        match self.seconds {
            0 => Err(ExperimentError::Plan("0 seconds measure nothing: give at least 1")),
            1..=600 => Ok(()),
            _ => Err(ExperimentError::Plan("a run has at most 600 seconds: lower the seconds")),
        }
    }
}
