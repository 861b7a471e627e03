//! Services of a store that serves a whole fleet, beside the counters: the registry of live agents, the mirror of the published
//! rules, and the witness of lost data.
//!
//! A store without them has none: the size of the fleet and the rules come from the bus then.

use futures_util::future::BoxFuture;
use tollgate_core::counter::PrimaryIndex;
use tollgate_core::messages::presence::{AnnouncedRules, PresenceSet};
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
use tollgate_engine::WitnessAnswer;

use super::StoreError;

/// Answer of a service, once it is there.
pub(crate) type ServiceAnswer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Registry of live agents, mirror of the published rules, and witnesses.
pub(crate) trait FleetServices: Send + Sync {
    /// Announces an agent with its rules. Returns the live agents.
    fn announce<'a>(&'a self, agent: &'a str, rules: Option<AnnouncedRules>) -> ServiceAnswer<'a, PresenceSet>;

    /// Removes an agent from the registry. Returns the live agents.
    fn leave<'a>(&'a self, agent: &'a str) -> ServiceAnswer<'a, PresenceSet>;

    /// Raises the witness of one life of an agent at a primary.
    fn witness<'a>(&'a self, primary: PrimaryIndex, life: &'a str, number: u64) -> ServiceAnswer<'a, WitnessAnswer>;

    /// Reads the published rules, if there are any.
    fn published_rules(&self) -> ServiceAnswer<'_, Option<(Generation, Published)>>;
}
