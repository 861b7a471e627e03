//! Parameters of the experiment.

use serde::Deserialize;

/// Length of an interval of the picture, in ms.
pub(super) const INTERVAL_MS: u64 = 50;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BurstSettings {
    pub(super) agents: usize,
    /// Calls per minute that a caller may make.
    pub(super) quota: u64,
    /// Calls of a burst, and its length.
    pub(super) calls: u64,
    pub(super) burst_ms: u64,
    /// Number of bursts under each rule.
    pub(super) bursts: u64,
    /// Longest way between an agent and the store, one way.
    pub(super) store_ms_max: u64,
}
