//! Start of an agent: from the builder's settings to a running agent, or the reason why it cannot start.

use std::collections::HashSet;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
#[cfg(feature = "rules-file")]
use tollgate_core::clock::Clock;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, LimitPolicy, Numbering, RuleSet};
use tollgate_engine::{COUNTERS_MAX_RANGE, Engine, EngineSettings, FLEET_EXPECTED_DEFAULT, SKETCH_BYTES_RANGE};

use super::answer_counts::AnswerCounts;
use super::builder::{AgentSetup, Builder};
use super::shared::{Agent, Shared};
use super::start_error::StartError;
#[cfg(feature = "rules-file")]
use crate::rules_source;
use crate::runtime::{MaintenanceSetup, MaintenanceTask};
use crate::state_dir::{SavedEmergency, SavedState, StateDir};
use crate::store::{AnyStore, ChargeStore, FleetServices};
use crate::unenforceable::{Unenforceable, log_floors, warn_without_signals};

impl Builder<AnyStore> {
    /// Starts the agent inside a tokio runtime with timers and sockets (`enable_all`), on which its tasks run. Its counts
    /// are in Redis if one is set, and otherwise in its own memory. Redis and Kafka may be unavailable at the start.
    ///
    /// # Errors
    /// If there is no runtime or it has no timers, if the agent has no rules, or if a setting is not valid.
    pub fn start(self) -> Result<Agent, StartError> {
        #[cfg(feature = "redis")]
        if let Some(redis) = self.parts.redis.clone().map(|redis| redis.with_digest_key(&self.engine.digest_key)) {
            let store = crate::store::RedisStore::new(&redis, self.clock.clone())?;
            let fleet = store.fleet_services();
            return self.store(Arc::new(AnyStore::Redis(store))).launch(Some(fleet));
        }
        self.start_with_store()
    }
}

impl<S: ChargeStore> Builder<S> {
    /// Starts the agent with the store of [`Builder::store`]. Without one, its counts are in its own memory.
    ///
    /// # Errors
    /// If there is no runtime, if the agent has no rules, or if a setting is not valid.
    #[doc(hidden)]
    pub fn start_with_store(self) -> Result<Agent<S>, StartError> {
        self.launch(None)
    }

    fn launch(mut self, fleet: Option<Arc<dyn FleetServices>>) -> Result<Agent<S>, StartError> {
        let runtime = runtime_with_timers()?;
        let (state, saved) = self.prepare()?;
        let given_rules = self.parts.given_rules(self.engine.epoch)?;
        #[cfg(feature = "rules-file")]
        let follows_rules = given_rules.is_none();
        let rules = self.rules_at_start(given_rules, &saved)?;
        let Self { clock, engine, store, .. } = self;
        let engine = Arc::new(Engine::new(engine, rules));
        if let Some(switch) = saved.emergency.and_then(SavedEmergency::switch) {
            engine.learn_emergency(clock.now(), switch);
        }
        #[cfg(feature = "jwt")]
        let tokens = Arc::new(crate::request::jwt::Verifier::new(self.parts.tokens));
        #[cfg(feature = "metrics")]
        let metrics = crate::metrics::AgentMetrics::register(
            engine.clone(),
            self.parts.metrics_sources,
            #[cfg(feature = "jwt")]
            tokens.clone(),
        );
        #[cfg(feature = "rules-file")]
        let rules_listener = follows_rules.then(|| rules_listener(engine.clone(), clock.clone(), state.clone()));
        #[cfg(not(feature = "rules-file"))]
        let rules_listener = None;
        #[cfg(feature = "bus")]
        let bus_threads = {
            let listeners = crate::runtime::BusListeners {
                #[cfg(feature = "metrics")]
                metrics: metrics.clone(),
                rules: rules_listener.clone(),
                observer: self.parts.observer,
            };
            self.parts.start_bus.map(|start| start(&engine, &clock, listeners)).transpose()?
        };
        let stop = Arc::new(AtomicBool::new(false));
        #[cfg(any(feature = "rules-file", feature = "jwt"))]
        let reload = watch_files(
            #[cfg(feature = "rules-file")]
            self.parts.rules_source.map(|source| rules_source::reload_on_change(source, engine.clone(), clock.clone())),
            #[cfg(feature = "jwt")]
            self.parts
                .jwks_file
                .map(|path| crate::keys_file::reload_on_change(path, tokens.clone(), engine.settings().node.clone())),
            &stop,
        )?;
        if let Some(store) = &store {
            let engine = engine.clone();
            store.tell_slots(Box::new(move |owners| engine.follow_slots(owners)));
        }
        let maintenance = MaintenanceTask::start(MaintenanceSetup {
            engine: engine.clone(),
            clock: clock.clone(),
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
            clock,
            runtime,
            late_requests: Arc::default(),
            decision_sink: self.parts.decision_sink,
            answer_counts: AnswerCounts::default(),
            asked_observer: self.parts.asked_observer,
            has_warned_of_gateway: AtomicBool::default(),
            drains: AtomicBool::default(),
            maintenance,
            #[cfg(feature = "bus")]
            bus_threads: parking_lot::Mutex::new(bus_threads),
            stop,
            #[cfg(any(feature = "rules-file", feature = "jwt"))]
            reload,
        });
        Ok(Agent { shared })
    }

    /// Completes the settings of the engine by the store and by the state that a former life has saved.
    fn prepare(&mut self) -> Result<(Option<Arc<StateDir>>, SavedState), StartError> {
        check_caps(&self.engine)?;
        let state = self.parts.state_dir.take().map(|folder| StateDir::open(&folder).map(Arc::new));
        let state = state.transpose().map_err(StartError::StateDir)?;
        let saved = state.as_ref().map(|state| state.saved()).unwrap_or_default();
        self.engine.epoch = self.clock.now();
        let ids = |saved: &Vec<String>| saved.iter().map(|id| (&**id).into()).collect();
        self.engine.saved_agents = saved.other_agents.as_ref().map(ids);
        self.engine.lacks_store = self.store.is_none() && self.parts.shares_bus;
        if let Some(store) = &self.store {
            self.engine.store = store.shape();
        }
        self.engine.owns_table = self.store.is_none() && !self.engine.lacks_store;
        Ok((state, saved))
    }

    /// Returns the rules with which the agent starts: those that are given, or those that were published last.
    fn rules_at_start(&self, given: Option<RuleSet>, saved: &SavedState) -> Result<RuleSet, StartError> {
        let rules = match given {
            Some(rules) => Unenforceable::of(&self.engine, &rules).map_or(Ok(rules), Err)?,
            None => self.enforceable(last_published(saved)),
        };
        self.warn_of_gaps(&rules);
        Ok(rules)
    }

    /// Returns these published rules, or none if the agent cannot enforce them.
    fn enforceable(&self, rules: RuleSet) -> RuleSet {
        let Some(error) = Unenforceable::of(&self.engine, &rules) else { return rules };
        tracing::error!(node = %self.engine.node, "the rules that were published last are not in force: {error}");
        RuleSet::none_yet()
    }

    fn warn_of_gaps(&self, rules: &RuleSet) {
        let node = &self.engine.node;
        warn_without_signals(&self.engine, rules);
        log_floors(&self.engine, rules);
        if (self.engine.publishes || self.parts.follows_rules)
            && self.engine.agents_expected.is_none()
            && self.engine.saved_agents.is_none()
        {
            tracing::info!(%node, "the size of the fleet is unknown until heartbeats arrive; {FLEET_EXPECTED_DEFAULT} agents are assumed; set the number with --agents-expected");
        }
        if rules.generation == 0 {
            tracing::warn!(%node, "no rules yet: every call passes until some are published with `tollgate rules publish FILE`");
        }
        let uses_tokens = rules.descriptors.iter().any(|spec| matches!(spec.source, DescriptorSource::Jwt(_)));
        if uses_tokens && self.parts.jwks_file.is_none() {
            tracing::warn!(%node, "rules use claims of tokens, and no keys are set to verify tokens: such descriptors are absent; set the keys with --jwks FILE");
        }
    }
}

impl AgentSetup {
    /// Returns the rules that are set, or nothing if the agent follows published rules.
    fn given_rules(&mut self, now: Timestamp) -> Result<Option<RuleSet>, StartError> {
        #[cfg(feature = "rules-file")]
        if let Some(source) = &self.rules_source {
            return Ok(Some(source.read(now)?));
        }
        let rules = std::mem::take(&mut self.rules);
        let of_rules = || {
            let mut set = RuleSet::new(now.as_ms(), rules);
            (set.descriptors, set.numbering) = (DescriptorSpec::defaults(), Numbering::LoadTime);
            (!set.rules.is_empty()).then_some(set)
        };
        match self.rule_set.take().or_else(of_rules) {
            None if !self.follows_rules => Err(StartError::NoRules),
            given => given.map(checked).transpose(),
        }
    }
}

fn check_caps(engine: &EngineSettings) -> Result<(), StartError> {
    let caps = [
        ("counters_max", engine.counters_max as u64, COUNTERS_MAX_RANGE),
        ("sketch_bytes", engine.sketch_bytes as u64, SKETCH_BYTES_RANGE),
    ];
    let refused = caps.into_iter().find(|(_, value, range)| !range.contains(value));
    refused.map_or(Ok(()), |(name, value, range)| Err(StartError::Cap { name, value, range }))
}

/// Checks rules that were written in Rust, as the parser checks those of a file.
fn checked(rules: RuleSet) -> Result<RuleSet, StartError> {
    let mut names = HashSet::new();
    for rule in &rules.rules {
        let unenforceable = |error| StartError::Rule(rule.name.clone(), error);
        rule.all_policies().try_for_each(LimitPolicy::check).map_err(unenforceable)?;
        if !names.insert(&rule.name) {
            return Err(StartError::SameName(rule.name.clone()));
        }
    }
    Ok(rules)
}

#[cfg(feature = "rules-file")]
fn rules_listener(
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    state: Option<Arc<StateDir>>,
) -> crate::runtime::RulesListener {
    Arc::new(move |generation, appended, published| {
        let now = clock.now();
        rules_source::receive_published(&engine, state.as_deref(), now, generation, appended, published);
    })
}

/// Returns the runtime of the caller.
fn runtime_with_timers() -> Result<Handle, StartError> {
    let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
    // A runtime tells nobody what it lacks, until a timer is made.
    catch_unwind(|| drop(sleep(Duration::ZERO))).map_err(|_| StartError::NoTimers)?;
    Ok(runtime)
}

/// Begins to watch the files with rules and with keys of tokens. Returns the request to read them again; none without files.
#[cfg(any(feature = "rules-file", feature = "jwt"))]
fn watch_files(
    #[cfg(feature = "rules-file")] rules: Option<crate::file_watch::FileWatch>,
    #[cfg(feature = "jwt")] keys: Option<Result<crate::file_watch::FileWatch, tollgate_files::FileError>>,
    stop: &Arc<AtomicBool>,
) -> Result<Option<Arc<AtomicBool>>, StartError> {
    let mut watches = Vec::new();
    #[cfg(feature = "rules-file")]
    watches.extend(rules);
    #[cfg(feature = "jwt")]
    watches.extend(keys.transpose().map_err(StartError::Keys)?);
    let reload = Arc::new(AtomicBool::new(false));
    Ok(crate::file_watch::watch_files(watches, stop.clone(), reload.clone())?.then_some(reload))
}

fn last_published(saved: &SavedState) -> RuleSet {
    #[cfg(feature = "rules-file")]
    if let Some(saved) = &saved.rules
        && let Ok(rules) = tollgate_rules::read_published(&saved.published, saved.generation)
    {
        return rules;
    }
    let _ = saved;
    RuleSet::none_yet()
}
