//! What an agent is made of.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use prometheus_client::registry::Registry;
#[cfg(feature = "kafka")]
use tollgate_bus::kafka::KafkaSettings;
use tollgate_bus::{Bus, Topic};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::rules::{Rule, RuleSet};

use crate::request::jwt::TokenRequirements;
use crate::rules_source::RulesSource;
use crate::runtime::{BusListeners, BusThreads, SignalObserver};
use crate::store::{AnyStore, ChargeStore, FleetServices, RedisSettings};
use tollgate_engine::Engine;

/// Says what an agent is made of.
pub struct Builder<S: ChargeStore = AnyStore> {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) node: String,
    pub(super) region: String,
    pub(super) rules: Vec<Rule>,
    pub(super) rule_set: Option<RuleSet>,
    pub(super) rules_from: Option<RulesSource>,
    /// Whether rules are published where this agent listens.
    pub(super) follows: bool,
    pub(super) store: Option<Arc<S>>,
    pub(super) redis: Option<RedisSettings>,
    pub(super) fleet: Option<Arc<FleetServices>>,
    #[cfg(feature = "kafka")]
    pub(super) kafka: Option<KafkaSettings>,
    pub(super) bus: Option<StartBus>,
    pub(super) observer: Option<SignalObserver>,
    pub(super) partitions: u32,
    pub(super) agents_expected: Option<NonZeroU32>,
    pub(super) counters_max: Option<usize>,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) digest_key: DigestKey,
    pub(super) jwks_file: Option<PathBuf>,
    pub(super) tokens: TokenRequirements,
    pub(super) registry: Registry,
}

type StartBus = Box<dyn FnOnce(&Arc<Engine>, &Arc<dyn Clock>, BusListeners) -> std::io::Result<BusThreads> + Send>;

impl<S: ChargeStore> Builder<S> {
    /// The clock to go by.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The name under which the agent is shown and told apart from others.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = node.into();
        self
    }

    /// Where it is.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = region.into();
        self
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Uses these rules.
    #[must_use]
    pub fn rules(mut self, rules: RuleSet) -> Self {
        self.rule_set = Some(rules);
        self
    }

    /// Uses the rules of a file and follows its changes; a broken file never replaces a good one.
    #[must_use]
    pub fn rules_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.rules_from = Some(RulesSource::File(path.into()));
        self
    }

    /// Uses rules from any files, such as a configuration of envoyproxy/ratelimit as it is, and follows their changes.
    #[must_use]
    pub fn rules_from(mut self, from: RulesSource) -> Self {
        self.rules_from = Some(from);
        self
    }

    /// Keeps counters in this store.
    #[must_use]
    pub fn store<T: ChargeStore>(self, store: Arc<T>) -> Builder<T> {
        Builder {
            clock: self.clock,
            node: self.node,
            region: self.region,
            rules: self.rules,
            rule_set: self.rule_set,
            rules_from: self.rules_from,
            follows: self.follows,
            store: Some(store),
            redis: None,
            fleet: None,
            #[cfg(feature = "kafka")]
            kafka: self.kafka,
            bus: self.bus,
            observer: self.observer,
            partitions: self.partitions,
            agents_expected: self.agents_expected,
            counters_max: self.counters_max,
            state_dir: self.state_dir,
            digest_key: self.digest_key,
            jwks_file: self.jwks_file,
            tokens: self.tokens,
            registry: self.registry,
        }
    }

    /// Publishes calls to this Kafka, and listens to its signals. It need not answer yet.
    #[cfg(feature = "kafka")]
    #[must_use]
    pub fn kafka(mut self, kafka: impl Into<KafkaSettings>) -> Self {
        self.kafka = Some(kafka.into());
        self
    }

    /// Publishes calls on this bus, and listens to its signals.
    #[must_use]
    pub fn bus<B: Bus>(mut self, bus: B) -> Self {
        self.partitions = bus.partitions(Topic::Calls);
        self.bus = Some(Box::new(move |engine, clock, listeners| BusThreads::start(&bus, engine, clock, listeners)));
        self
    }

    /// Shows each record of signals, and when it was appended, to those who measure, once the agent has learnt it. They are
    /// called on the thread that reads, which they should not hold up.
    #[must_use]
    pub fn observe_signals(mut self, observe: impl FnMut(&SignalBatch, Timestamp) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observe));
        self
    }

    /// Follows the rules that are published on the bus and in the store, unless rules are given here.
    #[must_use]
    pub fn published_rules(mut self) -> Self {
        self.follows = true;
        self
    }

    /// How many agents the fleet has, until heartbeats tell.
    #[must_use]
    pub fn agents_expected(mut self, agents: NonZeroU32) -> Self {
        self.agents_expected = Some(agents);
        self
    }

    /// How many counters it remembers at most.
    #[must_use]
    pub fn counters_max(mut self, counters_max: usize) -> Self {
        self.counters_max = Some(counters_max);
        self
    }

    /// Keeps the last good rules and the size of the fleet in this folder, for a start at which nothing can be reached.
    #[must_use]
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// The key of all digests; the same for all agents.
    #[must_use]
    pub fn digest_key(mut self, key: DigestKey) -> Self {
        self.digest_key = key;
        self
    }

    /// Shows what it counts in a registry that others register in, too.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }
}

impl Builder<AnyStore> {
    pub(super) fn new() -> Self {
        Self {
            clock: Arc::new(SystemClock::start()),
            node: format!("agent-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32),
            region: "default".to_owned(),
            rules: Vec::new(),
            rule_set: None,
            rules_from: None,
            follows: false,
            store: None,
            redis: None,
            fleet: None,
            #[cfg(feature = "kafka")]
            kafka: None,
            bus: None,
            observer: None,
            partitions: 1,
            agents_expected: None,
            counters_max: None,
            state_dir: None,
            digest_key: DigestKey::default(),
            jwks_file: None,
            tokens: TokenRequirements::default(),
            registry: Registry::default(),
        }
    }

    /// Keeps counters in this Redis, which all agents of the fleet share. It need not answer yet.
    #[must_use]
    pub fn redis(mut self, redis: impl Into<RedisSettings>) -> Self {
        self.redis = Some(redis.into());
        self
    }
}
