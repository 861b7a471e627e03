//! Parameters of the experiment.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApproximationSettings {
    /// Calls per minute that would be admitted.
    pub(super) limit: u64,
    /// Length of the measurement.
    pub(super) hours: u64,
    /// Length of the pictures.
    pub(super) shown_minutes: u64,
    /// Shortest and longest period of one rate.
    pub(super) period_s: [u64; 2],
    /// Smallest and largest rate.
    pub(super) calls_per_minute: [u64; 2],
}
