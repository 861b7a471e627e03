//! One agent without its input and output: what the real agent and the simulated world both drive.
//!
//! A call goes [`Limiter::begin`] → (a store's answer, if it must be asked) → [`Limiter::finish`]. Everything else comes in
//! as news: signals, presence, delivery reports, rules. It reads no clock and waits for nothing; all its methods may be
//! called from many threads at once.

mod charge;
mod debts;
mod contact;
mod decide;
mod publish;
mod check;
mod amend;
mod news;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_core::decision::DENY_LIST;
use tollgate_core::rules::{ApplicableRule, Generation, Index, MatchScope, RuleSet};

use crate::inbox::{FLEET_EXPECTED_DEFAULT, Inbox};
use crate::metrics::{AgentMetrics, RuleCounters};
use crate::outbox::Outbox;
use crate::seen_map::SeenMap;

pub use crate::outbox::Outgoing;

pub use amend::{Amend, Amendment};
pub use check::{Begun, Pending};
use contact::Contact;
use debts::Debts;
pub use debts::Payment;

/// How many counters an agent remembers unless told otherwise.
pub const COUNTERS_MAX_DEFAULT: usize = 1_000_000;

/// Who an agent is, and its caps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name by which it is shown and told apart.
    pub node: Arc<str>,
    /// Where it is.
    pub region: Arc<str>,
    /// When this life began.
    pub epoch: Timestamp,
    /// The key of all digests.
    pub digest_key: DigestKey,
    /// How many counters it remembers; past that, unknown callers of a rule share one counter.
    pub counters_max: usize,
    /// How many partitions the bus has.
    pub partitions: u32,
    /// Whether calls are published; without a bus there is nobody to read them.
    pub publishes: bool,
    /// How many agents to expect before the first heartbeat tells.
    pub agents_expected: Option<NonZeroU32>,
}

/// One agent without its input and output.
pub struct Limiter {
    settings: Settings,
    rules: ArcSwap<Loaded>,
    seen: SeenMap,
    contact: Contact,
    outbox: Outbox,
    inbox: Inbox,
    calls: AtomicU64,
    debts: Debts,
    refusal: Mutex<Option<String>>,
    bus_error: Mutex<Option<String>>,
    ticks: AtomicU64,
    unlimited: Arc<RuleCounters>,
    listed: Arc<RuleCounters>,
    metrics: AgentMetrics,
}

/// What a full queue, a lost record or a stuck reader may cost; for those who check on caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Counters remembered.
    pub counters: usize,
    /// Batches that wait for the bus.
    pub waiting_batches: usize,
    /// Own batches of which the inbox keeps account.
    pub own_batches: usize,
    /// Counters in debt to the store.
    pub debtors: usize,
}

#[derive(Debug)]
struct Loaded {
    set: RuleSet,
    /// Of the rules of the set, made when it is put in force.
    index: Index,
    counters: Vec<Arc<RuleCounters>>,
}

impl Settings {
    /// An agent of this name that starts now.
    #[must_use]
    pub fn new(node: &str, epoch: Timestamp) -> Self {
        Self {
            node: node.into(),
            region: "default".into(),
            epoch,
            digest_key: DigestKey::default(),
            counters_max: COUNTERS_MAX_DEFAULT,
            partitions: 1,
            publishes: true,
            agents_expected: None,
        }
    }
}

impl Limiter {
    /// An agent with these rules; what it counts is shown by the registry.
    #[must_use]
    pub fn new(settings: Settings, rules: RuleSet, registry: &mut Registry) -> Self {
        let metrics = AgentMetrics::register(registry);
        let expected = settings.agents_expected.or(NonZeroU32::new(FLEET_EXPECTED_DEFAULT)).unwrap_or(NonZeroU32::MIN);
        let (unlimited, listed) = (metrics.of_rule(""), metrics.of_rule(DENY_LIST));
        metrics.generation.set(rules.generation);
        Self {
            rules: ArcSwap::from_pointee(Loaded::new(rules, &metrics)),
            seen: SeenMap::new(settings.counters_max),
            contact: Contact::default(),
            outbox: Outbox::new(
                settings.node.clone(),
                settings.region.clone(),
                settings.epoch.as_ms(),
                settings.partitions,
            ),
            inbox: Inbox::new(settings.partitions, expected),
            calls: AtomicU64::new(0),
            debts: Debts::default(),
            refusal: Mutex::default(),
            bus_error: Mutex::default(),
            ticks: AtomicU64::new(0),
            unlimited,
            listed,
            metrics,
            settings,
        }
    }

    /// Who it is.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Looks at the rules in force.
    pub fn with_rules<R>(&self, look: impl FnOnce(&RuleSet) -> R) -> R {
        look(&self.rules.load().set)
    }

    /// Calls a function with the rules of a scope that apply to a call.
    pub fn with_applicable<R>(
        &self,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        look: impl FnOnce(&[ApplicableRule<'_>]) -> R,
    ) -> R {
        let loaded = self.rules.load();
        let resolved = loaded.set.resolved_within(call, scope);
        look(&loaded.set.applicable_among(&resolved, loaded.index.candidates(&resolved)))
    }

    /// Puts rules in force. Counters keep what they hold.
    ///
    /// # Errors
    /// When a newer set is in force, or another one of the same generation; that generation.
    pub fn set_rules(&self, rules: RuleSet) -> Result<(), Generation> {
        let loaded = self.rules.load();
        let in_force = loaded.set.generation;
        if rules.generation < in_force || (rules.generation == in_force && !rules.is_equivalent(&loaded.set)) {
            return Err(in_force);
        }
        self.metrics.generation.set(rules.generation);
        self.rules.store(Arc::new(Loaded::new(rules, &self.metrics)));
        *self.refusal.lock() = None;
        Ok(())
    }

    /// Notes that rules were refused, and why; the set in force stays.
    pub fn refuse_rules(&self, why: String) {
        self.metrics.rules_rejected.inc();
        *self.refusal.lock() = Some(why);
    }

    /// Why the last rules were refused, if none were accepted since.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// Housekeeping, a few times a second.
    pub fn tick(&self, now: Timestamp) {
        let turn = self.ticks.fetch_add(1, Ordering::Relaxed);
        self.seen.sweep(usize::try_from(turn).unwrap_or_default(), self.store_time(now).lo);
        self.inbox.tick(now);
        self.metrics.counters.set(self.seen.len() as u64);
        self.metrics.agents.set(self.inbox.fleet().get().into());
        self.metrics.dropped_rows.set(self.outbox.dropped_rows());
    }

    /// How many agents are active.
    #[must_use]
    pub fn fleet(&self) -> NonZeroU32 {
        self.inbox.fleet()
    }

    /// How many agents are active, if that was heard and is not only expected.
    #[must_use]
    pub fn known_fleet(&self) -> Option<NonZeroU32> {
        self.inbox.known_fleet()
    }

    /// What is held in queues and maps.
    #[must_use]
    pub fn held(&self) -> Held {
        Held {
            counters: self.seen.len(),
            waiting_batches: self.outbox.waiting_batches(),
            own_batches: self.inbox.kept(),
            debtors: self.debts.len(),
        }
    }

    pub(crate) fn observe_latency(&self, took: Duration) {
        self.metrics.latency.observe(took.as_secs_f64());
    }
}

impl Loaded {
    fn new(set: RuleSet, metrics: &AgentMetrics) -> Self {
        let counters = set.rules.iter().map(|rule| metrics.of_rule(&rule.name)).collect();
        Self { index: Index::new(&set.rules), set, counters }
    }
}
