//! What an agent is made of, and how it starts.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
#[cfg(feature = "kafka")]
use tollgate_common::bus::kafka::{Kafka, KafkaError, KafkaSettings};
use tollgate_common::bus::{Bus, Topic};
use tollgate_common::clock::{Clock, SystemClock, Timestamp};
use tollgate_common::counter::DigestKey;
use tollgate_common::rule::{Rule, RuleSet};
use tollgate_common::signal::SignalBatch;

use super::{Agent, Shared, care};
use crate::inbox::FLEET_EXPECTED_DEFAULT;
use crate::limiter::{Limiter, Settings};
use crate::link::{Link, Listeners, Observer};
use crate::rules_source::{self, Follower, RulesFileError, read_rules};
use crate::state_dir::{Saved, StateDir};
use crate::store::{AnyStore, MemoryStore, RedisAddressError, RedisSettings, RedisStore, Store};

/// Says what an agent is made of.
pub struct Builder<S: Store = AnyStore> {
    clock: Arc<dyn Clock>,
    node: String,
    region: String,
    rules: Vec<Rule>,
    rule_set: Option<RuleSet>,
    rules_file: Option<PathBuf>,
    /// Whether rules are published where this agent listens.
    follows: bool,
    store: Option<Arc<S>>,
    redis: Option<RedisSettings>,
    #[cfg(feature = "kafka")]
    kafka: Option<KafkaSettings>,
    link: Option<StartLink>,
    observer: Option<Observer>,
    partitions: u32,
    agents_expected: Option<NonZeroU32>,
    counters_max: Option<usize>,
    state_dir: Option<PathBuf>,
    digest_key: DigestKey,
    registry: Registry,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its rules cannot be read.
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// It has none.
    #[error("an agent needs rules: give a rules file, a rule set or a rule")]
    NoRules,
    /// Its store is nowhere.
    #[error(transparent)]
    Redis(#[from] RedisAddressError),
    /// Its bus cannot be used as it was told.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// Its state cannot be kept.
    #[error("{folder}: {error}; give a folder that can be written")]
    StateDir {
        /// Where.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The system gave it no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

type StartLink = Box<dyn FnOnce(&Arc<Limiter>, &Arc<dyn Clock>, Listeners) -> std::io::Result<Link> + Send>;

impl<S: Store> Builder<S> {
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
        self.rules_file = Some(path.into());
        self
    }

    /// Keeps counters in this store.
    #[must_use]
    pub fn store<T: Store>(self, store: Arc<T>) -> Builder<T> {
        Builder {
            clock: self.clock,
            node: self.node,
            region: self.region,
            rules: self.rules,
            rule_set: self.rule_set,
            rules_file: self.rules_file,
            follows: self.follows,
            store: Some(store),
            redis: None,
            #[cfg(feature = "kafka")]
            kafka: self.kafka,
            link: self.link,
            observer: self.observer,
            partitions: self.partitions,
            agents_expected: self.agents_expected,
            counters_max: self.counters_max,
            state_dir: self.state_dir,
            digest_key: self.digest_key,
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
        self.link = Some(Box::new(move |limiter, clock, listeners| Link::start(&bus, limiter, clock, listeners)));
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
            rules_file: None,
            follows: false,
            store: None,
            redis: None,
            #[cfg(feature = "kafka")]
            kafka: None,
            link: None,
            observer: None,
            partitions: 1,
            agents_expected: None,
            counters_max: None,
            state_dir: None,
            digest_key: DigestKey::default(),
            registry: Registry::default(),
        }
    }

    /// Keeps counters in this Redis, which all agents of the fleet share. It need not answer yet.
    #[must_use]
    pub fn redis(mut self, redis: impl Into<RedisSettings>) -> Self {
        self.redis = Some(redis.into());
        self
    }

    /// Starts the agent; in memory unless told otherwise.
    ///
    /// # Errors
    /// When it has no rules, or they are not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(mut self) -> Result<Agent, StartError> {
        let store = match self.redis.take() {
            Some(redis) => AnyStore::Redis(RedisStore::new(&redis, self.clock.clone())?),
            None => AnyStore::Memory(MemoryStore::new(self.clock.clone())),
        };
        self.store(Arc::new(store)).start_with_store()
    }
}

impl<S: Store> Builder<S> {
    /// Starts the agent with the store that [`Builder::store`] gave it.
    ///
    /// # Errors
    /// When it has no rules, or they are not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime, or without a store.
    pub fn start_with_store(mut self) -> Result<Agent<S>, StartError> {
        #[cfg(feature = "kafka")]
        if let Some(kafka) = self.kafka.take() {
            self = self.bus(Kafka::new(kafka)?);
        }
        let now = self.clock.now();
        let state = self.state_dir.as_ref().map(|folder| open(folder)).transpose()?.map(Arc::new);
        let saved = state.as_ref().map(|state| state.saved()).unwrap_or_default();
        let (rules, pinned) = self.first_rules(now, &saved)?;
        let has_bus = self.link.is_some();
        let mut settings = Settings::new(&self.node, now);
        settings.region = self.region.as_str().into();
        settings.partitions = self.partitions;
        settings.agents_expected = self.agents_expected.or(saved.agents);
        settings.counters_max = self.counters_max.unwrap_or(settings.counters_max);
        settings.digest_key = self.digest_key;
        settings.publishes = has_bus;
        if has_bus && settings.agents_expected.is_none() {
            tracing::warn!(node = %self.node, "the size of the fleet is not known until heartbeats tell; {FLEET_EXPECTED_DEFAULT} agents are expected, set agents_expected");
        }
        let limiter = Arc::new(Limiter::new(settings, rules, &mut self.registry));
        let follower = (!pinned).then(|| Arc::new(Follower::new(limiter.clone(), state.clone())));
        let stop = Arc::new(AtomicBool::new(false));
        let listeners = Listeners { follower: follower.clone(), observer: self.observer.take() };
        let link = self.link.take().map(|start| start(&limiter, &self.clock, listeners)).transpose()?;
        if let Some(path) = self.rules_file.take() {
            rules_source::watch(path, limiter.clone(), self.clock.clone(), stop.clone())?;
        }
        let shared = Arc::new(Shared {
            limiter,
            store: self.store.expect("a store was given"),
            clock: self.clock,
            registry: Mutex::new(self.registry),
            store_seen: AtomicBool::new(false),
            link: Mutex::new(link),
            stop,
        });
        tokio::spawn(care::look_after(Arc::downgrade(&shared), care::Duties { has_bus, follower, state }));
        Ok(Agent { shared })
    }

    /// The rules to start with, and whether they are pinned: given ones are, published ones are followed.
    fn first_rules(&mut self, now: Timestamp, saved: &Saved) -> Result<(RuleSet, bool), StartError> {
        if let Some(path) = &self.rules_file {
            return Ok((read_rules(path, now)?, true));
        }
        if let Some(set) = self.rule_set.take() {
            return Ok((set, true));
        }
        if !self.rules.is_empty() {
            return Ok((RuleSet::new(now.as_ms(), std::mem::take(&mut self.rules)), true));
        }
        if !self.follows {
            return Err(StartError::NoRules);
        }
        let last_good = saved.rules.as_ref().and_then(|(generation, published)| published.read(*generation).ok());
        Ok((last_good.unwrap_or_else(RuleSet::none_yet), false))
    }
}

fn open(folder: &Path) -> Result<StateDir, StartError> {
    StateDir::open(folder).map_err(|error| StartError::StateDir { folder: folder.to_owned(), error })
}
