//! Regions in one process, each with an agent, a store, a bus and an aggregator of its own, and a link to the ledger.
//!
//! The parts are the production ones, in wall time. The ledger's bus is in the first region; the links of the others have a delay
//! and can be cut.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::interval;
use tollgate::store::{AnyStore, MemoryStore};
use tollgate::{Agent, Builder, RuleSet};
use tollgate_aggregator::regions::{
    GlobalRules, RegionBuses, RegionFeed, RegionQueries, RegionRole, RegionRoleSettings,
};
use tollgate_aggregator::{Aggregator, Queries, WorkerSettings};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::link::{Link, LinkedBus};
use tollgate_core::clock::Clock;
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::ledger::Region;

/// Partitions of `calls` in each region.
const PARTITIONS: u32 = 4;
/// Interval at which the rules that an agent enforces are compared with those of the budgets.
const RULES_INTERVAL: Duration = Duration::from_millis(200);

/// One of several regions in this process.
pub(crate) struct LocalRegion {
    /// Name of the region.
    pub(crate) name: Region,
    /// Agent of the region.
    pub(crate) agent: Agent,
    /// Link to the ledger. It has no delay in the region that holds the ledger.
    pub(crate) link: Link,
    aggregator: Aggregator,
    role: RegionRole,
    rules_follower: JoinHandle<()>,
}

/// Starts the regions that the rules name, inside a tokio runtime. The first one holds the ledger. `delay` is the time of one way
/// to it. `agents` are the builders of their agents, which have these rules or their file.
pub(crate) fn start_local_regions(
    rules: &RuleSet,
    agents: impl IntoIterator<Item = Builder>,
    delay: Duration,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Vec<LocalRegion>> {
    let ledger = EmbeddedBus::new(clock.clone(), 1);
    let names = rules.regions.iter().map(|part| part.region.clone()).enumerate();
    names
        .zip(agents)
        .map(|((number, name), agent)| {
            let link = Link::new(if number == 0 { Duration::ZERO } else { delay });
            let far = LinkedBus::new(ledger.clone(), link.clone(), clock.clone());
            LocalRegion::start(name, (rules, agent), (far, link), number == 0, clock)
        })
        .collect()
}

impl LocalRegion {
    fn start(
        name: Region,
        (rules, agent): (&RuleSet, Builder),
        (ledger, link): (LinkedBus<EmbeddedBus>, Link),
        coordinates: bool,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let (bus, store) = (EmbeddedBus::new(clock.clone(), PARTITIONS), Arc::new(MemoryStore::new(clock.clone())));
        let id = format!("aggregator-{name}");
        let (epoch, region) = (clock.now(), name.clone());
        let settings = WorkerSettings { epoch, region, coordinates, ..WorkerSettings::new(&id) };
        let feed = RegionFeed::default();
        let aggregator = Aggregator::start_with((&bus, None), settings, None, Some(feed.clone()), clock.clone())?;
        let global = GlobalRules::new(&DigestKey::default(), &name);
        global.set(rules);
        let life = fastrand::u64(..);
        let settings =
            RegionRoleSettings { id: id.into(), region: name.clone(), coordinates, life, dead_letters: None };
        let (buses, feed) = (RegionBuses::on(ledger), (feed, aggregator.queries()));
        let role = RegionRole::start(settings, &buses, Some(store.clone()), global.clone(), feed, clock.clone())?;
        let agent = agent
            .node(format!("agent-{name}"))
            .region(&*name)
            .clock(clock.clone())
            .agents_expected(NonZeroU32::MIN)
            .bus(bus)
            .metrics_from(aggregator.metrics())
            .metrics_from(role.metrics());
        let agent = agent.store(Arc::new(AnyStore::Memory(store))).start_with_store()?;
        let rules_follower = tokio::spawn(follow_rules(agent.clone(), global));
        Ok(Self { name, agent, link, aggregator, role, rules_follower })
    }

    /// Returns handles for queries of the budgets and of the counters.
    pub(crate) fn queries(&self) -> (RegionQueries, Queries) {
        (self.role.queries(), self.aggregator.queries())
    }

    /// Ends the threads of the region.
    pub(crate) async fn stop(mut self) {
        self.rules_follower.abort();
        self.agent.shutdown().await;
        // The ends of the threads are awaited.
        let _ = tokio::task::spawn_blocking(move || {
            self.role.stop();
            self.aggregator.stop();
        })
        .await;
    }
}

/// Passes the rules that an agent enforces to the budgets of its region, whenever they change.
async fn follow_rules(agent: Agent, global: GlobalRules) {
    let generation = || agent.engine().with_rules(|rules| rules.generation);
    let (mut known, mut ticks) = (generation(), interval(RULES_INTERVAL));
    loop {
        ticks.tick().await;
        let found = generation();
        if found != known {
            agent.engine().with_rules(|rules| global.set(rules));
            known = found;
        }
    }
}
