//! Settings of an agent; [`super::start`] makes a running agent of them.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "bus")]
use tollgate_bus::{Bus, Topic};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::decisions::DecisionEvent;
#[cfg(feature = "bus")]
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::rules::{Rule, RuleSet};
#[cfg(feature = "bus")]
use tollgate_engine::Engine;
use tollgate_engine::{DecisionSampler, EngineSettings};

use super::asked_decision::{AskedDecision, AskedObserver};
use super::decision_sink::DecisionSink;
#[cfg(feature = "bus")]
use super::start_error::StartError;
#[cfg(feature = "jwt")]
use crate::request::jwt::TokenRequirements;
#[cfg(feature = "rules-file")]
use crate::rules_source::RulesSource;
#[cfg(feature = "bus")]
use crate::runtime::{BusListeners, BusThreads, SignalObserver};
#[cfg(feature = "redis")]
use crate::store::RedisSettings;
use crate::store::{AnyStore, ChargeStore};

/// Builder of an [`Agent`](super::Agent): rules, servers and caps. Without servers, the counters are in this process.
///
/// Rules come from one of [`rule`](Self::rule), [`rules`](Self::rules), `rules_file`, `rules_from` and `published_rules`.
#[must_use = "an agent runs after `start`"]
pub struct Builder<S: ChargeStore = AnyStore> {
    pub(super) clock: Arc<dyn Clock>,
    /// Settings of the engine; [`super::start`] completes them.
    pub(super) engine: EngineSettings,
    pub(super) store: Option<Arc<S>>,
    pub(super) parts: AgentSetup,
}

/// Parts of an agent beside its engine and store.
#[derive(Default)]
pub(super) struct AgentSetup {
    pub(super) rules: Vec<Rule>,
    pub(super) rule_set: Option<RuleSet>,
    #[cfg(feature = "rules-file")]
    pub(super) rules_source: Option<RulesSource>,
    pub(super) follows_rules: bool,
    /// True if there is a bus that agents of several processes may share.
    pub(super) shares_bus: bool,
    #[cfg(feature = "redis")]
    pub(super) redis: Option<RedisSettings>,
    #[cfg(feature = "bus")]
    pub(super) start_bus: Option<StartBus>,
    #[cfg(feature = "bus")]
    pub(super) observer: Option<SignalObserver>,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) decision_sink: Option<DecisionSink>,
    pub(super) asked_observer: Option<AskedObserver>,
    /// File with the keys of tokens; without the feature `jwt` there is none.
    pub(super) jwks_file: Option<PathBuf>,
    #[cfg(feature = "jwt")]
    pub(super) tokens: TokenRequirements,
    #[cfg(feature = "metrics")]
    pub(super) metrics_sources: Vec<crate::metrics::MetricsSource>,
}

#[cfg(feature = "bus")]
type StartBus = Box<dyn FnOnce(&Arc<Engine>, &Arc<dyn Clock>, BusListeners) -> Result<BusThreads, StartError> + Send>;

impl<S: ChargeStore> Builder<S> {
    /// Sets the clock. The default is the system's.
    #[doc(hidden)]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the name of the agent, which must be unique in the fleet. The default is `agent-` and a random number.
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.engine.node = node.into().into();
        self
    }

    /// Sets the region of the agent, which it publishes with its calls. The default is `default`.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.engine.region = region.into().into();
        self
    }

    /// Adds a rule. All rules that match a call must admit it.
    ///
    /// ```
    /// use tollgate::rules::{Algorithm, OnFailure};
    /// use tollgate::{Agent, Rule};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .rule(Rule::per("per-key", &["api_key"], "100/min".parse()?).strict())
    ///     .rule(Rule::per("login", &["ip"], "5/15min".parse()?).matching("endpoint", "/login*"))
    ///     .rule(Rule::per("tenant-bytes", &["tenant"], "10MB/s".parse()?).counted_by(Algorithm::TokenBucket))
    ///     .rule(Rule::per("all", &[], "5000/s".parse()?).with(|policy| policy.on_failure = OnFailure::Open))
    ///     .start()?;
    /// # Ok(()) }
    /// ```
    pub fn rule(mut self, rule: Rule) -> Self {
        self.parts.rules.push(rule);
        self
    }

    /// Sets all rules at once, in place of those of [`rule`](Self::rule).
    pub fn rules(mut self, rules: RuleSet) -> Self {
        self.parts.rule_set = Some(rules);
        self
    }

    /// Sets the store of the counters. [`Builder::start_with_store`] starts the agent then.
    ///
    /// The size of the fleet and published rules come from the bus only, even if the store is a Redis.
    #[doc(hidden)]
    pub fn store<T: ChargeStore>(self, store: Arc<T>) -> Builder<T> {
        Builder { clock: self.clock, engine: self.engine, store: Some(store), parts: self.parts }
    }

    /// Sets the number of agents in the fleet to assume until heartbeats prove another one; 10 by default. While Redis is
    /// unavailable, each agent admits its part of a quota.
    pub fn agents_expected(mut self, agents: NonZeroU32) -> Self {
        self.engine.agents_expected = Some(agents);
        self
    }

    /// Sets the cap on counters in the memory of the agent; a million by default, and a billion at
    /// most. Past the cap, a sketch limits unknown callers.
    pub fn counters_max(mut self, counters_max: usize) -> Self {
        self.engine.counters_max = counters_max;
        self
    }

    /// Sets the memory of the sketch in bytes; 64 MiB by default, 64 KiB to 4 GiB. It is taken only while the counters
    /// are at their cap.
    pub fn sketch_bytes(mut self, bytes: usize) -> Self {
        self.engine.sketch_bytes = bytes;
        self
    }

    /// Puts all rules in shadow, whatever they say: calls are counted and published, and none is denied, except while the emergency
    /// switch is on. For a trial before limits are enforced.
    pub fn shadow(mut self) -> Self {
        self.engine.shadow = true;
        self
    }

    /// Saves the last valid published rules and the ids of the other agents in this folder, for a start without store
    /// and bus.
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.parts.state_dir = Some(folder.into());
        self
    }

    /// Sets the secret key (16 bytes) of the digests by which Redis and Kafka know callers. It must be the same for all
    /// agents of a fleet. The default is a public key, with which a reader of Redis can guess callers.
    pub fn digest_key(mut self, key: impl Into<DigestKey>) -> Self {
        self.engine.digest_key = key.into();
        self
    }

    /// Passes the decisions of served requests that the sampler chooses to a function, which must not block. It returns false if it
    /// has no room for the event.
    #[doc(hidden)]
    pub fn decision_log(
        mut self,
        sampler: Arc<DecisionSampler>,
        deliver: impl Fn(DecisionEvent) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.parts.decision_sink = Some(DecisionSink { sampler, deliver: Box::new(deliver) });
        self
    }

    /// Passes the decisions that waited for the store to a function, which must not block.
    #[doc(hidden)]
    pub fn observe_asked(mut self, observe: impl Fn(AskedDecision<'_>) + Send + Sync + 'static) -> Self {
        self.parts.asked_observer = Some(Box::new(observe));
        self
    }

    /// Adds the metrics that this function returns, as OpenMetrics text, to those of
    /// [`Agent::metrics`](super::Agent::metrics). The two must have no family in common.
    #[cfg(feature = "metrics")]
    pub fn metrics_from(mut self, source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.parts.metrics_sources.push(Box::new(source));
        self
    }
}

#[cfg(feature = "rules-file")]
impl<S: ChargeStore> Builder<S> {
    /// Reads the rules from a file, or from the `*.yaml` files of a directory, and reloads them when they change. Invalid rules never replace valid ones.
    pub fn rules_file(self, path: impl Into<PathBuf>) -> Self {
        self.rules_from(RulesSource::Files(vec![path.into()]))
    }

    /// Reads the rules from several files, or from a configuration of envoyproxy/ratelimit, and reloads them when they change.
    pub fn rules_from(mut self, source: RulesSource) -> Self {
        self.parts.rules_source = Some(source);
        self
    }

    /// Follows the rules that are published on the bus and in Redis, unless other rules are set.
    pub fn published_rules(mut self) -> Self {
        self.parts.follows_rules = true;
        self
    }
}

#[cfg(feature = "bus")]
impl<S: ChargeStore> Builder<S> {
    /// Publishes calls to the Kafka at these brokers (`host:port`, separated by commas) and reads its signals, with
    /// which the agent limits while Redis is unavailable. No call waits for Kafka. Without a Redis, signals alone
    /// limit, and every rule must be [`eventual`](crate::Rule::eventual).
    #[cfg(feature = "kafka")]
    pub fn kafka(self, kafka: impl Into<tollgate_bus::kafka::KafkaSettings>) -> Self {
        let kafka = kafka.into();
        self.publishes_to(kafka.partitions, true, move || Ok(tollgate_bus::kafka::KafkaBus::new(kafka)?))
    }

    /// Publishes calls on this bus and reads its signals.
    #[doc(hidden)]
    pub fn bus<B: Bus>(self, bus: B) -> Self {
        self.publishes_to(bus.partitions(Topic::Calls), bus.is_shared(), || Ok(bus))
    }

    fn publishes_to<B: Bus>(
        mut self,
        partitions: u32,
        is_shared: bool,
        open: impl FnOnce() -> Result<B, StartError> + Send + 'static,
    ) -> Self {
        self.engine.partitions = partitions;
        self.engine.publishes = true;
        self.parts.shares_bus = is_shared;
        self.parts.start_bus =
            Some(Box::new(|engine, clock, listeners| Ok(BusThreads::start(&open()?, engine, clock, listeners)?)));
        self
    }

    /// Passes each record of signals, and the time at which the bus appended it, to this function after the engine has
    /// applied it. The function runs on the thread that reads the bus and must not block.
    #[doc(hidden)]
    pub fn observe_signals(mut self, observe: impl FnMut(&SignalBatch, Timestamp) + Send + 'static) -> Self {
        self.parts.observer = Some(Box::new(observe));
        self
    }
}

#[cfg(feature = "jwt")]
impl<S: ChargeStore> Builder<S> {
    /// Verifies bearer tokens with the keys of this JWKS file, and reloads them when it changes. An invalid file never
    /// replaces valid keys.
    pub fn jwks_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.parts.jwks_file = Some(path.into());
        self
    }

    /// Requires this issuer and audience of every token.
    pub fn token_requirements(mut self, requirements: TokenRequirements) -> Self {
        self.parts.tokens = requirements;
        self
    }
}

impl Builder<AnyStore> {
    pub(super) fn new() -> Self {
        let node = format!("agent-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32);
        Self {
            clock: Arc::new(SystemClock::start()),
            engine: EngineSettings { publishes: false, ..EngineSettings::new(&node, Timestamp::default()) },
            store: None,
            parts: AgentSetup::default(),
        }
    }

    /// Keeps the counters in the Redis at this address (`redis://[[user]:password@]host[:port][/db]`, `rediss://` for TLS, or one of
    /// the other forms of [`RedisSettings::url`]), which all agents of the fleet share. A check waits for it no longer than the
    /// deadline of its rules, 15 ms by default.
    #[cfg(feature = "redis")]
    pub fn redis(mut self, redis: impl Into<RedisSettings>) -> Self {
        self.parts.redis = Some(redis.into());
        self
    }
}
