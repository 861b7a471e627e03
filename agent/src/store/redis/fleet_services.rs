//! Services of a Redis for its fleet, over the connection of the store, which the maintenance pings.

use std::sync::Arc;

use tollgate_core::counter::PrimaryIndex;
use tollgate_core::messages::presence::{AnnouncedRules, PresenceSet};
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
use tollgate_engine::{RuleRanks, WITNESS_KEPT_MS, WitnessAnswer};
use tollgate_redis::{FleetRegistry, RaisedNumber, RuleMirror, Witnesses};

use crate::store::fleet_services::{FleetServices, ServiceAnswer};

/// Registry, mirror and witnesses in a Redis.
pub(super) struct RedisServices {
    pub(super) registry: FleetRegistry,
    pub(super) ranks: Arc<RuleRanks>,
    pub(super) mirror: RuleMirror,
    pub(super) witnesses: Witnesses,
}

impl FleetServices for RedisServices {
    /// The charges of the agent carry the rank in the answer from then on.
    fn announce<'a>(&'a self, agent: &'a str, rules: Option<AnnouncedRules>) -> ServiceAnswer<'a, PresenceSet> {
        let rules = rules.map(|rules| self.ranks.announced(rules));
        Box::pin(async move {
            let set = self.registry.announce(agent, rules).await?;
            if let Some(rules) = rules {
                self.ranks.ranked(rules, set.rank);
            }
            Ok(set)
        })
    }

    fn leave<'a>(&'a self, agent: &'a str) -> ServiceAnswer<'a, PresenceSet> {
        Box::pin(self.registry.leave(agent))
    }

    fn witness<'a>(&'a self, primary: PrimaryIndex, life: &'a str, number: u64) -> ServiceAnswer<'a, WitnessAnswer> {
        Box::pin(async move {
            let RaisedNumber { at, before, run_id } =
                self.witnesses.raise(primary, life, number, WITNESS_KEPT_MS).await?;
            Ok(WitnessAnswer { at, before, run_id })
        })
    }

    fn published_rules(&self) -> ServiceAnswer<'_, Option<(Generation, Published)>> {
        Box::pin(self.mirror.read())
    }
}
