//! Start of an agent: from the builder's settings to a running agent, or the reason why it cannot start.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[cfg(feature = "bus")]
use parking_lot::Mutex;
#[cfg(feature = "kafka")]
use tollgate_bus::{BusError, kafka::KafkaBus};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{DescriptorSource, RuleSet};
use tollgate_engine::{CountsIn, Engine, FLEET_EXPECTED_DEFAULT};

use super::builder::{AgentSettings, Builder};
use super::{Agent, Shared};
#[cfg(any(feature = "rules-file", feature = "jwt"))]
use crate::file_watch;
#[cfg(feature = "jwt")]
use crate::keys_file::{self, KeysFileError};
#[cfg(feature = "metrics")]
use crate::metrics::AgentMetrics;
#[cfg(feature = "jwt")]
use crate::request::jwt::Verifier;
#[cfg(feature = "rules-file")]
use crate::rules_source::{self, RulesFileError, RulesReceiver};
#[cfg(feature = "bus")]
use crate::runtime::BusListeners;
#[cfg(feature = "rules-file")]
use crate::runtime::RulesListener;
use crate::runtime::{MaintenanceParts, MaintenanceTask};
use crate::state_dir::{SavedState, StateDir};
use crate::store::{AnyStore, ChargeStore, FleetServices};
#[cfg(feature = "redis")]
use crate::store::{RedisAddressError, RedisStore};

/// Error of starting an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The rules cannot be read.
    #[cfg(feature = "rules-file")]
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// The keys of tokens cannot be read.
    #[cfg(feature = "jwt")]
    #[error(transparent)]
    Keys(#[from] KeysFileError),
    /// There are no rules.
    #[error("an agent needs rules: give a rules file, a rule set or a rule")]
    NoRules,
    /// The address of Redis is not valid.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Redis(#[from] RedisAddressError),
    /// The settings of Kafka are not valid.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] BusError),
    /// The state folder cannot be used.
    #[error("{folder}: {error}; give a folder that can be written")]
    StateDir {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The system refused a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Builder<AnyStore> {
    /// Starts the agent. Its counts are in Redis if one is set, and otherwise in its own memory.
    ///
    /// # Errors
    /// If the agent has no rules, or if a setting is not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Result<Agent, StartError> {
        #[cfg(feature = "redis")]
        if let Some(redis) = &self.settings.redis {
            let store = RedisStore::new(redis, self.settings.clock.clone())?;
            let fleet = store.fleet_services();
            return start(self.settings, Some(Arc::new(AnyStore::Redis(store))), Some(fleet));
        }
        self.start_with_store()
    }
}

impl<S: ChargeStore> Builder<S> {
    /// Starts the agent with the store of [`Builder::store`]. Without one, its counts are in its own memory.
    ///
    /// # Errors
    /// If the agent has no rules, or if a setting is not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start_with_store(self) -> Result<Agent<S>, StartError> {
        start(self.settings, self.store, None)
    }
}

fn start<S: ChargeStore>(
    mut settings: AgentSettings,
    store: Option<Arc<S>>,
    fleet: Option<Arc<FleetServices>>,
) -> Result<Agent<S>, StartError> {
    #[cfg(feature = "kafka")]
    if let Some(kafka) = settings.kafka.take() {
        settings.set_bus(KafkaBus::new(kafka)?);
    }
    let now = settings.clock.now();
    let state = settings.open_state_dir()?;
    let saved = state.as_ref().map(|state| state.saved()).unwrap_or_default();
    let given_rules = settings.given_rules(now)?;
    #[cfg(feature = "rules-file")]
    let follows_rules = given_rules.is_none();
    let rules = given_rules.unwrap_or_else(|| last_published(&saved));
    #[cfg(feature = "bus")]
    let has_bus = settings.bus.is_some();
    #[cfg(not(feature = "bus"))]
    let has_bus = false;
    #[cfg(feature = "jwt")]
    let has_token_keys = settings.jwks_file.is_some();
    #[cfg(not(feature = "jwt"))]
    let has_token_keys = false;
    #[cfg(feature = "bus")]
    if let Some(bus) = &settings.bus {
        settings.engine.partitions = bus.partitions;
    }
    settings.engine.epoch = now;
    settings.engine.agents_expected = settings.engine.agents_expected.or(saved.agents);
    settings.engine.publishes = has_bus;
    settings.engine.counts = if store.is_some() { CountsIn::Store } else { CountsIn::OwnTable };
    settings.warn_of_gaps(&rules, has_token_keys);
    let engine = Arc::new(Engine::new(settings.engine, rules));
    #[cfg(feature = "jwt")]
    let tokens = Arc::new(Verifier::new(std::mem::take(&mut settings.tokens)));
    #[cfg(feature = "metrics")]
    let metrics = AgentMetrics::register(
        std::mem::take(&mut settings.registry),
        engine.clone(),
        #[cfg(feature = "jwt")]
        tokens.clone(),
    );
    #[cfg(feature = "rules-file")]
    let rules_listener = follows_rules.then(|| listener(RulesReceiver::new(engine.clone(), state.clone())));
    #[cfg(not(feature = "rules-file"))]
    let rules_listener = None;
    let stop = Arc::new(AtomicBool::new(false));
    #[cfg(any(feature = "rules-file", feature = "jwt"))]
    {
        let mut watches = Vec::new();
        #[cfg(feature = "rules-file")]
        if let Some(source) = settings.rules_source.take() {
            watches.push(rules_source::reload_on_change(source, engine.clone(), settings.clock.clone()));
        }
        #[cfg(feature = "jwt")]
        if let Some(path) = settings.jwks_file.take() {
            watches.push(keys_file::reload_on_change(path, tokens.clone(), engine.settings().node.clone())?);
        }
        file_watch::start(watches, stop.clone())?;
    }
    #[cfg(feature = "bus")]
    let listeners = BusListeners {
        #[cfg(feature = "metrics")]
        metrics: metrics.clone(),
        rules: rules_listener.clone(),
        observer: settings.observer.take(),
    };
    #[cfg(feature = "bus")]
    let bus_threads = settings.bus.take().map(|bus| (bus.start)(&engine, &settings.clock, listeners)).transpose()?;
    let maintenance = MaintenanceTask::start(MaintenanceParts {
        engine: engine.clone(),
        clock: settings.clock.clone(),
        store: store.clone(),
        fleet,
        rules: rules_listener,
        state,
    });
    let shared = Arc::new(Shared {
        engine,
        #[cfg(feature = "metrics")]
        metrics,
        #[cfg(feature = "jwt")]
        tokens,
        store,
        clock: settings.clock,
        maintenance,
        #[cfg(feature = "bus")]
        bus_threads: Mutex::new(bus_threads),
        stop,
    });
    Ok(Agent { shared })
}

impl AgentSettings {
    fn open_state_dir(&self) -> Result<Option<Arc<StateDir>>, StartError> {
        let Some(folder) = &self.state_dir else { return Ok(None) };
        match StateDir::open(folder) {
            Ok(state) => Ok(Some(Arc::new(state))),
            Err(error) => Err(StartError::StateDir { folder: folder.clone(), error }),
        }
    }

    /// Returns the rules that are set, or nothing if the agent follows published rules.
    fn given_rules(&mut self, now: Timestamp) -> Result<Option<RuleSet>, StartError> {
        #[cfg(feature = "rules-file")]
        if let Some(source) = &self.rules_source {
            return Ok(Some(source.read(now)?));
        }
        if let Some(set) = self.rule_set.take() {
            return Ok(Some(set));
        }
        if !self.rules.is_empty() {
            return Ok(Some(RuleSet::new(now.as_ms(), std::mem::take(&mut self.rules))));
        }
        if self.follows_rules { Ok(None) } else { Err(StartError::NoRules) }
    }

    fn warn_of_gaps(&self, rules: &RuleSet, has_token_keys: bool) {
        let node = &self.engine.node;
        if (self.engine.publishes || self.follows_rules) && self.engine.agents_expected.is_none() {
            tracing::warn!(%node, "the size of the fleet is unknown until heartbeats arrive; {FLEET_EXPECTED_DEFAULT} agents are assumed; set the number with --agents-expected");
        }
        if rules.generation == 0 {
            tracing::warn!(%node, "no rules yet: every call passes until some are published with `tollgate rules publish FILE`");
        }
        let uses_tokens = rules.descriptors.iter().any(|spec| matches!(spec.source, DescriptorSource::Jwt(_)));
        if uses_tokens && !has_token_keys {
            tracing::warn!(%node, "rules use claims of tokens, and no keys are set to verify tokens: such descriptors are absent; set the keys with --jwks FILE");
        }
    }
}

#[cfg(feature = "rules-file")]
fn listener(receiver: RulesReceiver) -> RulesListener {
    Arc::new(move |generation, appended, published| receiver.receive(generation, appended, published))
}

/// Returns the published rules that were saved last, or none.
fn last_published(saved: &SavedState) -> RuleSet {
    #[cfg(feature = "rules-file")]
    if let Some((generation, published)) = &saved.rules
        && let Ok(rules) = tollgate_rules::read_published(published, *generation)
    {
        return rules;
    }
    let _ = saved;
    RuleSet::none_yet()
}
