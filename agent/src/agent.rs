//! The agent: a limiter in wall time, with its store and its bus.
//!
//! [`Agent::check`] never fails and never takes longer than the rule's deadline. Clones are the same agent; it must be
//! started inside a tokio runtime.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_common::bus::{Bus, Topic};
use tollgate_common::call::Call;
use tollgate_common::clock::{Clock, Stopwatch, SystemClock};
use tollgate_common::decision::Decision;
use tollgate_common::rule::{Rule, RuleSet};

use crate::limiter::{Begun, Limiter, Settings};
use crate::link::Link;
use crate::rules_file::{self, RulesFileError, read_rules};
use crate::store::{MemoryStore, Store, StoreError};

/// How often an agent in debt looks whether its store is back, and how long it waits for the answer.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
const PROBE_DEADLINE: Duration = Duration::from_millis(50);

/// A limiter in wall time.
pub struct Agent<S: Store = MemoryStore> {
    shared: Arc<Shared<S>>,
}

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

/// Whether an agent can be relied on, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// What is missing; ready when nothing is.
    pub missing: Vec<&'static str>,
}

struct Shared<S> {
    limiter: Arc<Limiter>,
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    registry: Mutex<Registry>,
    /// Whether the store has answered at least once.
    store_seen: AtomicBool,
    link: Mutex<Option<Link>>,
    stop: Arc<AtomicBool>,
}

type StartLink = Box<dyn FnOnce(&Arc<Limiter>, &Arc<dyn Clock>) -> std::io::Result<Link> + Send>;

impl Agent {
    /// An agent with its counters in memory, unless told otherwise.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            clock: Arc::new(SystemClock::start()),
            node: format!("agent-{}", std::process::id()),
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
}

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
        tokio::spawn(pay_debts(Arc::downgrade(&shared)));
        Ok(Agent { shared })
    }
}

impl<S: Store> Agent<S> {
    /// Decides a call at once, if the agent need not wait for its store.
    #[must_use]
    pub fn try_check(&self, call: &Call<'_>) -> Option<Decision> {
        let shared = &self.shared;
        let now = shared.clock.now();
        match shared.limiter.begin(now, call) {
            Begun::Decided(decision) => Some(decision),
            Begun::Ask(pending) => {
                let answer = shared.store.take_now(pending.takes())?;
                Some(shared.limiter.finish(now, call, pending, answer))
            }
        }
    }

    /// Decides a call. Never fails, and never takes longer than the deadline of the rules that apply.
    pub async fn check(&self, call: &Call<'_>) -> Decision {
        let shared = &self.shared;
        let took = Stopwatch::start();
        let decision = match shared.limiter.begin(shared.clock.now(), call) {
            Begun::Decided(decision) => decision,
            Begun::Ask(pending) => {
                let answer = match shared.store.take_now(pending.takes()) {
                    Some(answer) => answer,
                    None => tokio::time::timeout(timer(pending.deadline()), shared.store.take(pending.takes()))
                        .await
                        .unwrap_or(Err(StoreError::TimedOut)),
                };
                shared.limiter.finish(shared.clock.now(), call, pending, answer)
            }
        };
        shared.limiter.observe_latency(took.elapsed());
        decision
    }

    /// The limiter inside, for those who measure.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.shared.limiter
    }

    /// Whether the agent can be relied on: it has rules, and its store answered or signals have been read for a while.
    pub async fn readiness(&self) -> Readiness {
        let shared = &self.shared;
        let sent = shared.clock.now();
        if let Ok(Ok(store_now)) = tokio::time::timeout(PROBE_DEADLINE, shared.store.ping()).await {
            shared.store_seen.store(true, Ordering::Relaxed);
            shared.limiter.store_answers(sent, shared.clock.now(), store_now);
        }
        let informed = shared.store_seen.load(Ordering::Relaxed) || shared.limiter.has_read_signals(shared.clock.now());
        let mut missing = Vec::new();
        if !informed {
            missing.push("the store has not answered yet, and signals have not been read for 2 s");
        }
        Readiness { missing }
    }

    /// What the agent counts, in the OpenMetrics text format.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.shared.registry.lock()) {
            Ok(()) => text,
            Err(_) => String::new(),
        }
    }

    /// Publishes what is left and leaves the fleet. Calls are decided as before, but nobody hears of them.
    pub async fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let link = self.shared.link.lock().take();
        if let Some(mut link) = link {
            // Threads are joined, which must not hold up the runtime.
            let _ = tokio::task::spawn_blocking(move || link.stop()).await;
        }
    }
}

impl<S: Store> Clone for Agent<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How long to set a timer so that it goes off by the deadline: tokio's goes off up to a millisecond late.
fn timer(deadline: Duration) -> Duration {
    deadline.saturating_sub(Duration::from_millis(1)).max(Duration::from_millis(1))
}

/// Tells the store, once it answers again, what passed without it.
async fn pay_debts<S: Store>(shared: std::sync::Weak<Shared<S>>) {
    let mut interval = tokio::time::interval(PROBE_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if !shared.limiter.is_in_debt() {
            continue;
        }
        let sent = shared.clock.now();
        let Ok(Ok(store_now)) = tokio::time::timeout(PROBE_DEADLINE, shared.store.ping()).await else {
            continue;
        };
        // First the debts, then the calls: nobody should be admitted on counts that lack them.
        while shared.limiter.is_in_debt() {
            let takes = shared.limiter.settle_debts();
            if tokio::time::timeout(PROBE_DEADLINE, shared.store.take(&takes)).await.is_err() {
                break;
            }
        }
        shared.limiter.store_answers(sent, shared.clock.now(), store_now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_common::decision::Source;

    fn agent(rule: Rule) -> Agent {
        Agent::builder().rule(rule).start().unwrap()
    }

    fn strict(quota: &str) -> Rule {
        Rule::per("per-key", &["api_key"], quota.parse().unwrap()).strict()
    }

    /// B4: a thousand concurrent calls for the last unit, one passes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_last_unit_goes_to_one_of_a_thousand() {
        let agent = agent(strict("1/min"));
        let calls: Vec<_> = (0..1_000)
            .map(|_| {
                let agent = agent.clone();
                tokio::spawn(async move { agent.check(&Call::new().with("api_key", "k")).await.allowed })
            })
            .collect();
        let mut passed = 0;
        for call in calls {
            passed += u32::from(call.await.unwrap());
        }
        assert_eq!(passed, 1);
    }

    /// C8: a denial is repeated without the store.
    #[tokio::test]
    async fn a_denied_caller_is_denied_without_asking_again() {
        let agent = agent(strict("1/min"));
        let call = Call::new().with("api_key", "k");
        let decisions = [agent.check(&call).await, agent.check(&call).await, agent.check(&call).await];
        assert_eq!(
            decisions.map(|d| (d.allowed, d.source)),
            [(true, Source::Store), (false, Source::Store), (false, Source::Local)]
        );
    }

    #[tokio::test]
    async fn a_call_that_no_rule_limits_passes() {
        let agent = agent(strict("1/min"));
        let decision = agent.check(&Call::new().with("ip", "10.0.0.1")).await;
        assert!(decision.allowed && decision.bound.is_none());
    }

    #[tokio::test]
    async fn an_agent_without_rules_does_not_start() {
        assert!(matches!(Agent::builder().start(), Err(StartError::NoRules)));
    }
}
