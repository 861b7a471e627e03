//! Parameters of the experiment.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryStormSettings {
    pub(super) agents: usize,
    /// Number of jobs, which share a quota.
    pub(super) jobs: usize,
    /// Calls per minute.
    pub(super) quota: u64,
    /// Time from an admission to the next poll of a job.
    pub(super) poll_ms: u64,
    /// Time from an answer to the next call of a client that does not wait.
    pub(super) round_trip_ms: u64,
    /// Length of a run.
    pub(super) seconds: u64,
}
