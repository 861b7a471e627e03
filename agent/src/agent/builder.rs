//! Settings of an agent. Those of tokens are in [`super::tokens`]; [`super::start`] makes a running agent of them.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "metrics")]
use prometheus_client::registry::Registry;
#[cfg(feature = "kafka")]
use tollgate_bus::kafka::KafkaSettings;
#[cfg(feature = "bus")]
use tollgate_bus::{Bus, Topic};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::counter::DigestKey;
#[cfg(feature = "bus")]
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::rules::{Rule, RuleSet};
#[cfg(feature = "bus")]
use tollgate_engine::Engine;
use tollgate_engine::EngineSettings;

#[cfg(feature = "jwt")]
use crate::request::jwt::TokenRequirements;
#[cfg(feature = "rules-file")]
use crate::rules_source::RulesSource;
#[cfg(feature = "bus")]
use crate::runtime::{BusListeners, BusThreads, SignalObserver};
#[cfg(feature = "redis")]
use crate::store::RedisSettings;
use crate::store::{AnyStore, ChargeStore};

/// Builder of an [`Agent`](super::Agent).
pub struct Builder<S: ChargeStore = AnyStore> {
    pub(super) settings: AgentSettings,
    pub(super) store: Option<Arc<S>>,
}

/// Settings of an agent, whatever its store.
pub(super) struct AgentSettings {
    pub(super) clock: Arc<dyn Clock>,
    /// Settings of the engine; [`super::start`] completes them.
    pub(super) engine: EngineSettings,
    pub(super) rules: Vec<Rule>,
    pub(super) rule_set: Option<RuleSet>,
    #[cfg(feature = "rules-file")]
    pub(super) rules_source: Option<RulesSource>,
    /// True if the agent follows published rules.
    pub(super) follows_rules: bool,
    #[cfg(feature = "redis")]
    pub(super) redis: Option<RedisSettings>,
    #[cfg(feature = "kafka")]
    pub(super) kafka: Option<KafkaSettings>,
    #[cfg(feature = "bus")]
    pub(super) bus: Option<BusSettings>,
    #[cfg(feature = "bus")]
    pub(super) observer: Option<SignalObserver>,
    pub(super) state_dir: Option<PathBuf>,
    #[cfg(feature = "jwt")]
    pub(super) jwks_file: Option<PathBuf>,
    #[cfg(feature = "jwt")]
    pub(super) tokens: TokenRequirements,
    #[cfg(feature = "metrics")]
    pub(super) registry: Registry,
}

/// A bus, and the function that starts its threads.
#[cfg(feature = "bus")]
pub(super) struct BusSettings {
    pub(super) partitions: u32,
    pub(super) start: StartBus,
}

#[cfg(feature = "bus")]
type StartBus = Box<dyn FnOnce(&Arc<Engine>, &Arc<dyn Clock>, BusListeners) -> std::io::Result<BusThreads> + Send>;

impl<S: ChargeStore> Builder<S> {
    /// Sets the clock. The default is the system's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets the name of the agent, which must be unique in the fleet.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.settings.engine.node = node.into().into();
        self
    }

    /// Sets the region of the agent.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.settings.engine.region = region.into().into();
        self
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.settings.rules.push(rule);
        self
    }

    /// Sets the rules.
    #[must_use]
    pub fn rules(mut self, rules: RuleSet) -> Self {
        self.settings.rule_set = Some(rules);
        self
    }

    /// Sets the store of the counters. [`Builder::start_with_store`] starts the agent then.
    ///
    /// The size of the fleet and published rules come from the bus only, even if the store is a Redis.
    #[must_use]
    pub fn store<T: ChargeStore>(self, store: Arc<T>) -> Builder<T> {
        Builder { settings: self.settings, store: Some(store) }
    }

    /// Sets the number of agents to assume until heartbeats prove another one.
    #[must_use]
    pub fn agents_expected(mut self, agents: NonZeroU32) -> Self {
        self.settings.engine.agents_expected = Some(agents);
        self
    }

    /// Sets the cap on counters.
    #[must_use]
    pub fn counters_max(mut self, counters_max: usize) -> Self {
        self.settings.engine.counters_max = counters_max;
        self
    }

    /// Saves the last valid published rules and the size of the fleet in this folder, for a start without store and bus.
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.state_dir = Some(folder.into());
        self
    }

    /// Sets the key of all digests. It must be the same for all agents.
    #[must_use]
    pub fn digest_key(mut self, key: DigestKey) -> Self {
        self.settings.engine.digest_key = key;
        self
    }

    /// Registers the agent's metrics in this registry.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.settings.registry = registry;
        self
    }
}

#[cfg(feature = "rules-file")]
impl<S: ChargeStore> Builder<S> {
    /// Reads the rules from a file and reloads them when it changes. Invalid rules never replace valid ones.
    #[must_use]
    pub fn rules_file(self, path: impl Into<PathBuf>) -> Self {
        self.rules_from(RulesSource::File(path.into()))
    }

    /// Reads the rules from other files, such as a configuration of envoyproxy/ratelimit, and reloads them when they change.
    #[must_use]
    pub fn rules_from(mut self, source: RulesSource) -> Self {
        self.settings.rules_source = Some(source);
        self
    }

    /// Follows the rules that are published on the bus and in Redis, unless other rules are set.
    #[must_use]
    pub fn published_rules(mut self) -> Self {
        self.settings.follows_rules = true;
        self
    }
}

#[cfg(feature = "bus")]
impl<S: ChargeStore> Builder<S> {
    /// Publishes calls to this Kafka and reads its signals. Kafka may be unavailable at the start.
    #[cfg(feature = "kafka")]
    #[must_use]
    pub fn kafka(mut self, kafka: impl Into<KafkaSettings>) -> Self {
        self.settings.kafka = Some(kafka.into());
        self
    }

    /// Publishes calls on this bus and reads its signals.
    #[must_use]
    pub fn bus<B: Bus>(mut self, bus: B) -> Self {
        self.settings.set_bus(bus);
        self
    }

    /// Passes each record of signals, and the time at which the bus appended it, to this function after the engine has
    /// applied it. The function runs on the thread that reads the bus and must not block.
    #[must_use]
    pub fn observe_signals(mut self, observe: impl FnMut(&SignalBatch, Timestamp) + Send + 'static) -> Self {
        self.settings.observer = Some(Box::new(observe));
        self
    }
}

impl Builder<AnyStore> {
    pub(super) fn new() -> Self {
        let node = format!("agent-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32);
        let settings = AgentSettings {
            clock: Arc::new(SystemClock::start()),
            engine: EngineSettings::new(&node, Timestamp::default()),
            rules: Vec::new(),
            rule_set: None,
            #[cfg(feature = "rules-file")]
            rules_source: None,
            follows_rules: false,
            #[cfg(feature = "redis")]
            redis: None,
            #[cfg(feature = "kafka")]
            kafka: None,
            #[cfg(feature = "bus")]
            bus: None,
            #[cfg(feature = "bus")]
            observer: None,
            state_dir: None,
            #[cfg(feature = "jwt")]
            jwks_file: None,
            #[cfg(feature = "jwt")]
            tokens: TokenRequirements::default(),
            #[cfg(feature = "metrics")]
            registry: Registry::default(),
        };
        Self { settings, store: None }
    }

    /// Keeps the counters in this Redis, which all agents of the fleet share. Redis may be unavailable at the start.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn redis(mut self, redis: impl Into<RedisSettings>) -> Self {
        self.settings.redis = Some(redis.into());
        self
    }
}

#[cfg(feature = "bus")]
impl AgentSettings {
    pub(super) fn set_bus<B: Bus>(&mut self, bus: B) {
        let partitions = bus.partitions(Topic::Calls);
        let start: StartBus =
            Box::new(move |engine, clock, listeners| BusThreads::start(&bus, engine, clock, listeners));
        self.bus = Some(BusSettings { partitions, start });
    }
}
