//! Counters in Redis: one value for all agents, one round trip for each call.
//!
//! A step is one script ([`steps`]) that charges all its counters or none by the server's own clock. Calls that come while others are in flight are sent together, and many simple ones share a
//! script ([`gathered_steps`]). The scripts decide as the pure state machines of `tollgate_core::algorithm` do, which the
//! conformance suite verifies. The pure state machines also make the verdict ([`codec`]), and replace values that a rule
//! change or a clock step has made unusable ([`conversion`]). Each write renews a TTL after which the counter would be
//! idle. Connection, errors and settings are in `tollgate_redis`, which the rule mirror and the fleet registry share.

mod value;
mod codec;
mod conversion;
mod steps;
mod gathered_steps;
mod cluster_lanes;
mod fleet_services;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{Charge, ChargeResults, CounterId, PrimaryIndex};
use tollgate_core::regions::stored_limit::LimitView;
use tollgate_engine::{RuleRanks, StoreShape};
use tollgate_redis::{Cluster, FleetRegistry, RedisConnection, RedisLink, RuleMirror, Witnesses, read_limit};

use super::{ChargeStore, FleetServices, OwnersListener, StoreError, StoreServer};
use cluster_lanes::ClusterLanes;
use fleet_services::RedisServices;
use gathered_steps::GatheredSteps;
use steps::Steps;

pub use tollgate_redis::{
    HashSlots, PREFIX_DEFAULT, RedisAddressError, RedisCredentials, RedisSettings, RedisTlsFiles,
};

/// Maximum time for reading a limit that is only displayed.
const VIEW_WAIT: Duration = Duration::from_millis(250);

/// Counters in Redis.
pub struct RedisStore {
    slots: HashSlots,
    servers: StepServers,
    fleet: Arc<RedisServices>,
    /// Ranks in place of the generations of charges, once an agent announces its rules here.
    ranks: Arc<RuleRanks>,
}

/// Servers that execute steps.
enum StepServers {
    One(GatheredSteps),
    Cluster(Box<ClusterLanes>),
}

impl RedisStore {
    /// A store at this address. It connects at the first [`ChargeStore::ping`], inside a tokio runtime; until then it is
    /// unreachable.
    ///
    /// # Errors
    /// When the address is not that of a Redis.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>) -> Result<Self, RedisAddressError> {
        let (servers, link) = if settings.is_cluster() {
            let cluster = Cluster::new(settings, clock, steps::charge_script)?;
            (StepServers::Cluster(Box::new(ClusterLanes::new(settings, cluster.clone()))), RedisLink::Cluster(cluster))
        } else {
            let connection = Arc::new(RedisConnection::new(settings, clock, steps::charge_script())?);
            let gathered = GatheredSteps::new(Steps::new(settings, connection.clone()), settings.slots);
            (StepServers::One(gathered), RedisLink::Server(connection))
        };
        let ranks = Arc::new(RuleRanks::default());
        Ok(Self {
            slots: settings.slots,
            servers,
            fleet: Arc::new(RedisServices {
                registry: FleetRegistry::on(link.clone(), settings),
                ranks: ranks.clone(),
                mirror: RuleMirror::on(link.clone(), &settings.prefix),
                witnesses: Witnesses::on(link, &settings.prefix),
            }),
            ranks,
        })
    }

    /// Address of the servers, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        match &self.servers {
            StepServers::One(gathered) => gathered.steps.connection.address(),
            StepServers::Cluster(lanes) => lanes.cluster.address(),
        }
    }

    /// Services of the fleet for an agent, which announces its rules by them.
    pub(crate) fn fleet_services(&self) -> Arc<dyn FleetServices> {
        self.ranks.begin();
        self.fleet.clone()
    }
}

impl ChargeStore for RedisStore {
    /// In a cluster, the counters are of one slot.
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        let primary = match &self.servers {
            StepServers::Cluster(lanes) => lanes.cluster.owner(charges[0].slot),
            StepServers::One(_) => PrimaryIndex::ONLY,
        };
        self.charge_at(primary, false, charges).await
    }

    async fn charge_at(
        &self,
        primary: PrimaryIndex,
        is_passing: bool,
        charges: &[Charge],
    ) -> Result<ChargeResults, StoreError> {
        let ranked = self.ranks.with_ranks(charges);
        let charges = ranked.as_deref().unwrap_or(charges);
        match &self.servers {
            StepServers::One(gathered) => gathered.run(charges).await,
            StepServers::Cluster(lanes) => lanes.charge(primary, is_passing, charges).await,
        }
    }

    /// The floor of a global rule and its counters have different slots.
    fn shape(&self) -> StoreShape {
        match (&self.servers, self.slots) {
            (StepServers::Cluster(_), _) => StoreShape::Primaries,
            (StepServers::One(_), HashSlots::Together) => StoreShape::Server,
            (StepServers::One(_), HashSlots::Multi) => StoreShape::Slots,
        }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.ping_primary(PrimaryIndex::ONLY).await
    }

    async fn ping_primary(&self, primary: PrimaryIndex) -> Result<Timestamp, StoreError> {
        match &self.servers {
            StepServers::One(gathered) => gathered.steps.connection.ping().await,
            StepServers::Cluster(lanes) => lanes.cluster.connection(primary).await?.ping().await,
        }
    }

    fn tell_slots(&self, listener: OwnersListener) {
        if let StepServers::Cluster(lanes) = &self.servers {
            lanes.cluster.tell_slots(listener);
        }
    }

    fn servers(&self) -> Vec<StoreServer> {
        let server = |connection: &RedisConnection| {
            let node = connection.node();
            let (is_connected, trouble) = (node.is_some(), connection.trouble());
            StoreServer { node: node.unwrap_or_else(|| connection.address().to_owned()), is_connected, trouble }
        };
        match &self.servers {
            StepServers::One(gathered) => vec![server(&gathered.steps.connection)],
            StepServers::Cluster(lanes) => {
                let cluster = &lanes.cluster;
                let servers: Vec<_> = cluster.serving().iter().map(|connection| server(connection)).collect();
                if servers.is_empty() {
                    let (node, trouble) = (cluster.address().to_owned(), cluster.trouble());
                    return vec![StoreServer { node, is_connected: false, trouble }];
                }
                servers
            }
        }
    }

    async fn limit_view(&self, counter: CounterId) -> Option<LimitView> {
        // A cluster holds no limits of regions.
        let StepServers::One(GatheredSteps { steps, .. }) = &self.servers else { return None };
        let read = read_limit(&steps.connection, &steps.prefix, counter);
        tokio::time::timeout(VIEW_WAIT, read).await.ok()?.ok()?
    }
}

#[cfg(test)]
impl RedisStore {
    /// Steps of a store with one server.
    fn gathered(&self) -> &GatheredSteps {
        let StepServers::One(gathered) = &self.servers else { panic!("a cluster") };
        gathered
    }

    fn gathered_mut(&mut self) -> &mut GatheredSteps {
        let StepServers::One(gathered) = &mut self.servers else { panic!("a cluster") };
        gathered
    }
}
