//! Services of a Redis that serves a whole fleet, beside the counters: the registry of live agents and the mirror of the
//! published rules.
//!
//! They share the connection of the store, which the maintenance pings. Other stores have none of them: the size of the fleet
//! and the rules come from the bus then. Without the feature `redis`, no value of this type exists.

use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
use tollgate_redis::{FleetRegistry, RuleMirror};

use super::StoreError;
use super::redis::store_error;

/// Registry of live agents and mirror of the published rules.
#[derive(Debug)]
pub(crate) struct FleetServices {
    pub(super) registry: FleetRegistry,
    pub(super) mirror: RuleMirror,
}

impl FleetServices {
    /// Announces an agent. Returns the number of live agents.
    pub(crate) async fn announce(&self, agent: &str) -> Result<u32, StoreError> {
        self.registry.announce(agent).await.map_err(store_error)
    }

    /// Removes an agent that stops.
    pub(crate) async fn leave(&self, agent: &str) -> Result<u32, StoreError> {
        self.registry.leave(agent).await.map_err(store_error)
    }

    /// Reads the published rules and their generation, if there are any.
    pub(crate) async fn published_rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        self.mirror.read().await.map_err(store_error)
    }
}
