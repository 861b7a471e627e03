//! Parameters of the experiment.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LagSettings {
    /// Sizes of the fleets.
    pub(super) agents: Vec<usize>,
    /// Times from a call to its signal.
    pub(super) delays_s: Vec<f64>,
    /// Quota of a caller, per minute.
    pub(super) quota: u64,
    /// Number of callers with each demand.
    pub(super) callers: u64,
    /// Demand below the quota, in quotas.
    pub(super) honest: f64,
    /// Demand above it, in quotas.
    pub(super) steady: f64,
    /// Calls of a burst, in quotas, and its length.
    pub(super) burst: f64,
    pub(super) burst_s: u64,
    /// Length of a run.
    pub(super) seconds: u64,
    /// Begin of the measurement and of all bursts. Some runs lose the store then.
    pub(super) lost_after_s: u64,
}
