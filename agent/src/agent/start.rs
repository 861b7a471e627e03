//! How an agent starts: from what the builder was told to a running agent, or a reason why not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
#[cfg(feature = "kafka")]
use tollgate_bus::kafka::{KafkaBus, KafkaError};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{DescriptorSource, RuleSet};

use super::builder::Builder;
use super::{Agent, Shared};
use crate::file_watch;
use crate::keys_file::{self, KeysFileError};
use crate::metrics::AgentMetrics;
use crate::request::jwt::Verifier;
use crate::rules_source::{self, RulesFileError, RulesReceiver};
use crate::runtime::{BusListeners, MaintenanceParts, MaintenanceTask};
use crate::state_dir::{SavedState, StateDir};
use crate::store::{AnyStore, ChargeStore, RedisAddressError, RedisStore};
use tollgate_engine::FLEET_EXPECTED_DEFAULT;
use tollgate_engine::{CountsIn, Engine, EngineSettings};

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its rules cannot be read.
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// The keys of tokens cannot be read.
    #[error(transparent)]
    Keys(#[from] KeysFileError),
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

impl Builder<AnyStore> {
    /// Starts the agent. Without Redis, its counts are in its own memory.
    ///
    /// # Errors
    /// When it has no rules, or they or the keys of tokens are not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(mut self) -> Result<Agent, StartError> {
        if let Some(redis) = self.redis.take() {
            let redis = RedisStore::new(&redis, self.clock.clone())?;
            self.fleet = Some(redis.fleet_services());
            self.store = Some(Arc::new(AnyStore::Redis(redis)));
        }
        self.start_with_store()
    }
}

impl<S: ChargeStore> Builder<S> {
    /// Starts the agent with the store of [`Builder::store`]; without one, its counts are in its own memory.
    ///
    /// # Errors
    /// When it has no rules, or they or the keys of tokens are not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start_with_store(mut self) -> Result<Agent<S>, StartError> {
        #[cfg(feature = "kafka")]
        if let Some(kafka) = self.kafka.take() {
            self = self.bus(KafkaBus::new(kafka)?);
        }
        let now = self.clock.now();
        let state = self.state_dir.as_ref().map(|folder| open(folder)).transpose()?.map(Arc::new);
        let saved = state.as_ref().map(|state| state.saved()).unwrap_or_default();
        let (rules, pinned) = self.first_rules(now, &saved)?;
        let has_bus = self.bus.is_some();
        let mut settings = EngineSettings::new(&self.node, now);
        settings.region = self.region.as_str().into();
        settings.partitions = self.partitions;
        settings.agents_expected = self.agents_expected.or(saved.agents);
        settings.counters_max = self.counters_max.unwrap_or(settings.counters_max);
        settings.digest_key = self.digest_key;
        settings.publishes = has_bus;
        settings.counts = if self.store.is_some() { CountsIn::Store } else { CountsIn::OwnTable };
        if (has_bus || self.follows) && settings.agents_expected.is_none() {
            tracing::warn!(node = %self.node, "the size of the fleet is not known until heartbeats tell; {FLEET_EXPECTED_DEFAULT} agents are expected; say how many with --agents-expected");
        }
        if rules.generation == 0 {
            tracing::warn!(node = %self.node, "no rules yet: every call passes until some are published with `tollgate rules publish FILE`");
        }
        if self.jwks_file.is_none() && asks_for_tokens(&rules) {
            tracing::warn!(node = %self.node, "rules ask for claims of tokens, and there are no keys to verify tokens with: such descriptors are absent; give the keys with --jwks FILE");
        }
        let engine = Arc::new(Engine::new(settings, rules));
        let metrics = AgentMetrics::register(&mut self.registry, &engine);
        let follow_rules = |from| rules_source::reload_on_change(from, engine.clone(), self.clock.clone());
        let mut watched: Vec<_> = self.rules_from.take().map(follow_rules).into_iter().collect();
        let tokens = Arc::new(Verifier::new(self.tokens, &mut self.registry));
        if let Some(path) = self.jwks_file.take() {
            watched.push(keys_file::reload_on_change(path, tokens.clone(), engine.settings().node.clone())?);
        }
        let rules_receiver = (!pinned).then(|| Arc::new(RulesReceiver::new(engine.clone(), state.clone())));
        let stop = Arc::new(AtomicBool::new(false));
        let listeners = BusListeners {
            metrics: metrics.clone(),
            rules_receiver: rules_receiver.clone(),
            observer: self.observer.take(),
        };
        let bus_threads = self.bus.take().map(|start| start(&engine, &self.clock, listeners)).transpose()?;
        file_watch::start(watched, stop.clone())?;
        let maintenance = MaintenanceTask::start(MaintenanceParts {
            engine: engine.clone(),
            clock: self.clock.clone(),
            store: self.store.clone(),
            fleet: self.fleet,
            rules_receiver,
            state,
            has_bus,
        });
        let shared = Arc::new(Shared {
            engine,
            metrics,
            tokens,
            store: self.store,
            clock: self.clock,
            registry: Mutex::new(self.registry),
            maintenance,
            bus_threads: Mutex::new(bus_threads),
            stop,
        });
        Ok(Agent { shared })
    }

    /// The rules to start with, and whether they are pinned: given ones are, published ones are followed.
    fn first_rules(&mut self, now: Timestamp, saved: &SavedState) -> Result<(RuleSet, bool), StartError> {
        if let Some(from) = &self.rules_from {
            return Ok((from.read(now)?, true));
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
        let last_good = saved
            .rules
            .as_ref()
            .and_then(|(generation, published)| tollgate_rules::read_published(published, *generation).ok());
        Ok((last_good.unwrap_or_else(RuleSet::none_yet), false))
    }
}

fn asks_for_tokens(rules: &RuleSet) -> bool {
    rules.descriptors.iter().any(|spec| matches!(spec.source, DescriptorSource::Jwt(_)))
}

fn open(folder: &Path) -> Result<StateDir, StartError> {
    StateDir::open(folder).map_err(|error| StartError::StateDir { folder: folder.to_owned(), error })
}
