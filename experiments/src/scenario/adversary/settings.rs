//! Parameters of the experiment.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdversarySettings {
    /// Units of a window.
    pub(super) quota: u64,
    /// Number of agents of the fleets.
    pub(super) agents: usize,
    /// Searches from the beginning for each target.
    pub(super) restarts: u64,
    /// Generations of a search, and attacks in each: on one store, and in a fleet.
    pub(super) store_generations: u64,
    pub(super) store_attacks: usize,
    pub(super) fleet_generations: u64,
    pub(super) fleet_attacks: usize,
}
