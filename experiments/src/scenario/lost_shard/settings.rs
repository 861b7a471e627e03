//! Parameters of the experiment.

use serde::Deserialize;
use tollgate_sim::figures::ratio;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LostShardSettings {
    pub(super) agents: usize,
    /// Calls per minute that the caller may make.
    pub(super) quota: u64,
    /// Calls that it makes, and for this long.
    pub(super) calls_per_s: u64,
    pub(super) seconds: u64,
    /// Times from its first call to the loss of the store.
    pub(super) lost_after_ms: Vec<u64>,
    /// Time until the store is back.
    pub(super) lost_ms: u64,
    /// Number of runs for each of these times, with other delays and agents.
    pub(super) runs: u64,
}

/// Returns a time in seconds.
pub(super) fn seconds(ms: u64) -> f64 {
    ratio(ms, 1_000)
}
