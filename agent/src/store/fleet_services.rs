//! Services of a Redis that serves a whole fleet, beside the counters: the registry of live agents, the mirror of the
//! published rules, and the witness of lost data.
//!
//! They share the connection of the store, which the maintenance pings. Other stores have none of them: the size of the
//! fleet and the rules come from the bus then. Without the feature `redis`, no value of [`FleetServices`] exists.

#[cfg(feature = "redis")]
use std::sync::Arc;

use tollgate_core::messages::presence::{AnnouncedRules, PresenceSet};
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
#[cfg(feature = "redis")]
use tollgate_engine::RuleRanks;
#[cfg(feature = "redis")]
use tollgate_engine::WITNESS_KEPT_MS;
use tollgate_engine::WitnessAnswer;
#[cfg(feature = "redis")]
use tollgate_redis::{FleetRegistry, RaisedNumber, RuleMirror, Witnesses};

use super::StoreError;

/// Registry of live agents, mirror of the published rules, and witnesses.
#[cfg(feature = "redis")]
pub(crate) struct FleetServices {
    pub(super) registry: FleetRegistry,
    pub(super) ranks: Arc<RuleRanks>,
    pub(super) mirror: RuleMirror,
    pub(super) witnesses: Witnesses,
}

/// Registry and mirror of a store that has none.
#[cfg(not(feature = "redis"))]
pub(crate) enum FleetServices {}

#[cfg(feature = "redis")]
impl FleetServices {
    /// Announces the agent with its rules, whose charges carry the rank in the answer from then on.
    pub(crate) async fn announce(&self, agent: &str, rules: Option<AnnouncedRules>) -> Result<PresenceSet, StoreError> {
        let rules = rules.map(|rules| self.ranks.announced(rules));
        let set = self.registry.announce(agent, rules).await?;
        if let Some(rules) = rules {
            self.ranks.ranked(rules, set.rank);
        }
        Ok(set)
    }

    pub(crate) async fn leave(&self, agent: &str) -> Result<PresenceSet, StoreError> {
        self.registry.leave(agent).await
    }

    /// Raises the witness of one life of an agent.
    pub(crate) async fn witness(&self, life: &str, number: u64) -> Result<WitnessAnswer, StoreError> {
        let RaisedNumber { at, before, run_id } = self.witnesses.raise(life, number, WITNESS_KEPT_MS).await?;
        Ok(WitnessAnswer { at, before, run_id })
    }

    pub(crate) async fn published_rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        self.mirror.read().await
    }
}

#[cfg(not(feature = "redis"))]
#[expect(clippy::unused_async, reason = "the same methods as with the feature `redis`")]
impl FleetServices {
    pub(crate) async fn announce(&self, _: &str, _: Option<AnnouncedRules>) -> Result<PresenceSet, StoreError> {
        match *self {}
    }

    pub(crate) async fn leave(&self, _: &str) -> Result<PresenceSet, StoreError> {
        match *self {}
    }

    pub(crate) async fn witness(&self, _: &str, _: u64) -> Result<WitnessAnswer, StoreError> {
        match *self {}
    }

    pub(crate) async fn published_rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        match *self {}
    }
}
