//! What an agent is made of, and how it starts.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_common::bus::{Bus, Topic};
use tollgate_common::clock::{Clock, SystemClock};
use tollgate_common::rule::{Rule, RuleSet};

use super::{Agent, Shared, look_after};
use crate::inbox::FLEET_EXPECTED_DEFAULT;
use crate::limiter::{Limiter, Settings};
use crate::link::Link;
use crate::rules_file::{self, RulesFileError, read_rules};
use crate::store::{MemoryStore, Store};

/// Says what an agent is made of.
pub struct Builder<S: Store = MemoryStore> {
    clock: Arc<dyn Clock>,
    node: String,
    region: String,
    rules: Vec<Rule>,
    rule_set: Option<RuleSet>,
    rules_file: Option<PathBuf>,
    store: Option<Arc<S>>,
    link: Option<StartLink>,
    partitions: u32,
    agents_expected: Option<NonZeroU32>,
    counters_max: Option<usize>,
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
    /// The system gave it no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

type StartLink = Box<dyn FnOnce(&Arc<Limiter>, &Arc<dyn Clock>) -> std::io::Result<Link> + Send>;

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
            store: Some(store),
            link: self.link,
            partitions: self.partitions,
            agents_expected: self.agents_expected,
            counters_max: self.counters_max,
            registry: self.registry,
        }
    }

    /// Publishes calls on this bus, and listens to its signals.
    #[must_use]
    pub fn bus<B: Bus>(mut self, bus: B) -> Self {
        self.partitions = bus.partitions(Topic::Calls);
        self.link = Some(Box::new(move |limiter, clock| Link::start(&bus, limiter, clock)));
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

    /// Shows what it counts in a registry that others register in, too.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }
}

impl Builder<MemoryStore> {
    pub(super) fn new() -> Self {
        Self {
            clock: Arc::new(SystemClock::start()),
            node: format!("agent-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32),
            region: "default".to_owned(),
            rules: Vec::new(),
            rule_set: None,
            rules_file: None,
            store: None,
            link: None,
            partitions: 1,
            agents_expected: None,
            counters_max: None,
            registry: Registry::default(),
        }
    }

    /// Starts the agent; in memory unless [`Builder::store`] said otherwise.
    ///
    /// # Errors
    /// When it has no rules, or they are not valid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(mut self) -> Result<Agent, StartError> {
        let store = self.store.take().unwrap_or_else(|| Arc::new(MemoryStore::new(self.clock.clone())));
        self.store(store).start_with_store()
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
        let now = self.clock.now();
        let rules = match (&self.rules_file, self.rule_set.take()) {
            (Some(path), _) => read_rules(path, now)?,
            (None, Some(set)) => set,
            (None, None) if self.rules.is_empty() => return Err(StartError::NoRules),
            (None, None) => RuleSet::new(now.as_ms(), std::mem::take(&mut self.rules)),
        };
        let mut settings = Settings::new(&self.node, now);
        settings.region = self.region.as_str().into();
        settings.partitions = self.partitions;
        settings.agents_expected = self.agents_expected;
        settings.counters_max = self.counters_max.unwrap_or(settings.counters_max);
        let has_bus = self.link.is_some();
        settings.publishes = has_bus;
        if has_bus && self.agents_expected.is_none() {
            tracing::warn!(node = %self.node, "the size of the fleet is not known until heartbeats tell; {FLEET_EXPECTED_DEFAULT} agents are expected, set agents_expected");
        }
        let limiter = Arc::new(Limiter::new(settings, rules, &mut self.registry));
        let stop = Arc::new(AtomicBool::new(false));
        let link = self.link.take().map(|start| start(&limiter, &self.clock)).transpose()?;
        if let Some(path) = self.rules_file.take() {
            rules_file::watch(path, limiter.clone(), self.clock.clone(), stop.clone())?;
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
        tokio::spawn(look_after(Arc::downgrade(&shared), has_bus));
        Ok(Agent { shared })
    }
}
