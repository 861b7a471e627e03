//! One agent without its input and output: what the real agent and the simulated world both drive.
//!
//! A call goes [`Limiter::begin`] → (a store's answer, if it must be asked) → [`Limiter::finish`]. Everything else comes in
//! as news: signals, presence, delivery reports, rules. It reads no clock and waits for nothing; all its methods may be
//! called from many threads at once.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use smallvec::SmallVec;
use tollgate_common::bus::Report;
use tollgate_common::call::Call;
use tollgate_common::charge::{CounterEntry, DescriptorSet, Outcome, Row};
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::{CounterId, DigestKey, Partition};
use tollgate_common::decision::{Bound, Decision, DecisionId, Source};
use tollgate_common::presence::{Presence, Role};
use tollgate_common::rule::{Generation, Rule, RuleSet};
use tollgate_common::signal::SignalBatch;

use crate::enforce::{
    Facts, Footing, Judged, News, Plan, Sequence, Span, StoreTime, Take, TakeKind, Taken, learn, plan, settle,
};
use crate::inbox::{FLEET_EXPECTED_DEFAULT, Inbox};
use crate::metrics::{AgentMetrics, RuleCounters};
use crate::outbox::{Outbox, Publish};
use crate::seen_map::SeenMap;
use crate::store::{Answers, StoreError};

/// How many counters an agent remembers unless told otherwise.
pub const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
/// How many counters may be in debt to the store at once; past that the oldest debts are forgotten.
const DEBTORS_LEN_MAX: usize = 100_000;
/// How many of them are charged in one step.
const DEBTORS_STEP_LEN: usize = 256;

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
    /// How many agents to expect before the first heartbeat tells.
    pub agents_expected: Option<NonZeroU32>,
}

/// One agent without its input and output.
pub struct Limiter {
    settings: Settings,
    rules: ArcSwap<Loaded>,
    seen: SeenMap,
    store_time: RwLock<StoreTime>,
    outbox: Outbox,
    inbox: Inbox,
    calls: AtomicU64,
    debtors: Mutex<VecDeque<Debtor>>,
    degraded: AtomicBool,
    ticks: AtomicU64,
    unlimited: Arc<RuleCounters>,
    metrics: AgentMetrics,
}

/// What became of a call at once.
#[derive(Debug)]
pub enum Begun {
    /// It is decided.
    Decided(Decision),
    /// The store must be asked.
    Ask(Pending),
}

/// A call for which the store is asked.
#[derive(Debug)]
pub struct Pending {
    call: u64,
    loaded: Arc<Loaded>,
    charges: Charges,
    takes: SmallVec<[Take; 2]>,
    asked_at: Timestamp,
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
    counters: Vec<Arc<RuleCounters>>,
}

type Charges = SmallVec<[Charge; 2]>;
type Verdicts = SmallVec<[Option<Judged>; 2]>;

#[derive(Clone, Debug)]
struct Charge {
    rule: Arc<Rule>,
    /// The rule's place in the set.
    index: usize,
    /// Its own place in the call.
    place: usize,
    counter: CounterId,
    overflow: bool,
    cost: u64,
}

/// Everything by which a call is decided.
struct Asked<'a> {
    number: u64,
    loaded: &'a Loaded,
    charges: &'a [Charge],
    verdicts: &'a [Option<Judged>],
    answers: &'a [Taken],
    span: Span,
}

struct Debtor {
    rule: Arc<Rule>,
    generation: Generation,
    counter: CounterId,
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
            agents_expected: None,
        }
    }
}

impl Pending {
    /// What to ask the store.
    #[must_use]
    pub fn takes(&self) -> &[Take] {
        &self.takes
    }

    /// How long to wait: the least deadline of the rules that are asked about.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.charges.iter().map(|charge| charge.rule.deadline).min().unwrap_or_default()
    }
}

impl Limiter {
    /// An agent with these rules; what it counts is shown by the registry.
    #[must_use]
    pub fn new(settings: Settings, rules: RuleSet, registry: &mut Registry) -> Self {
        let metrics = AgentMetrics::register(registry);
        let expected = settings.agents_expected.or(NonZeroU32::new(FLEET_EXPECTED_DEFAULT)).unwrap_or(NonZeroU32::MIN);
        let unlimited = metrics.of_rule("");
        metrics.generation.set(rules.generation);
        Self {
            rules: ArcSwap::from_pointee(Loaded::new(rules, &metrics)),
            seen: SeenMap::new(settings.counters_max),
            store_time: RwLock::default(),
            outbox: Outbox::new(
                settings.node.clone(),
                settings.region.clone(),
                settings.epoch.as_ms(),
                settings.partitions,
            ),
            inbox: Inbox::new(settings.partitions, expected),
            calls: AtomicU64::new(0),
            debtors: Mutex::default(),
            degraded: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            unlimited,
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

    /// Puts rules in force. Counters keep what they hold.
    ///
    /// # Errors
    /// When a newer set is in force; its generation.
    pub fn set_rules(&self, rules: RuleSet) -> Result<(), Generation> {
        let in_force = self.rules.load().set.generation;
        if rules.generation < in_force {
            self.metrics.rules_rejected.inc();
            return Err(in_force);
        }
        self.metrics.generation.set(rules.generation);
        self.rules.store(Arc::new(Loaded::new(rules, &self.metrics)));
        Ok(())
    }

    /// Counts a rule set that was refused before it came here.
    pub fn rules_refused(&self) {
        self.metrics.rules_rejected.inc();
    }

    /// The store's time, as well as this agent knows it.
    #[must_use]
    pub fn store_time(&self, now: Timestamp) -> Span {
        self.store_time.read().at(now)
    }

    /// Begins a call.
    #[must_use]
    pub fn begin(&self, now: Timestamp, call: &Call<'_>) -> Begun {
        let loaded = self.rules.load();
        let charges = self.charges(&loaded.set, now, call);
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let span = self.store_time(now);
        let fleet = self.inbox.fleet();
        match self.plan(&loaded, &charges, |_| Facts { now: span, footing: Footing::Store, fleet }) {
            Some(verdicts) => {
                let asked =
                    Asked { number, loaded: &loaded, charges: &charges, verdicts: &verdicts, answers: &[], span };
                Begun::Decided(self.decide(now, call, asked))
            }
            None => {
                let takes = charges.iter().map(|charge| {
                    // Past this instant, by the latest the store's clock may show, nobody waits any more.
                    let expires_at = span.hi.plus_ms(u64::try_from(charge.rule.deadline.as_millis()).unwrap_or(u64::MAX));
                    Take::ask(charge.counter, &charge.rule, loaded.set.generation, charge.cost, expires_at)
                });
                let takes = takes.collect();
                Begun::Ask(Pending { call: number, loaded: loaded.clone(), charges, takes, asked_at: now })
            }
        }
    }

    /// Finishes a call with what the store said; without an answer the agent decides by what it knows.
    #[must_use]
    pub fn finish(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        pending: Pending,
        answer: Result<Answers, StoreError>,
    ) -> Decision {
        let Pending { call: number, loaded, charges, asked_at, .. } = pending;
        let (verdicts, answers) = match answer {
            Ok(answers) => {
                self.answered(asked_at, now, &answers);
                let judged =
                    |taken: &Taken| Some(Judged { verdict: taken.verdict, limit: taken.limit, source: Source::Store });
                (answers.iter().map(judged).collect(), answers)
            }
            Err(error) => {
                self.unanswered(error);
                let (span, fleet) = (self.store_time(now), self.inbox.fleet());
                let without_store = |counter: CounterId| {
                    let heard = self.inbox.heard(counter.partition(self.settings.partitions), span);
                    Facts { now: span, footing: heard.map_or(Footing::Alone, Footing::Signal), fleet }
                };
                (self.plan(&loaded, &charges, without_store).unwrap_or_default(), Answers::new())
            }
        };
        let span = self.store_time(now);
        let asked = Asked {
            number,
            loaded: &loaded,
            charges: &charges,
            verdicts: &verdicts,
            answers: &answers,
            span,
        };
        self.decide(now, call, asked)
    }

    /// Hears a record of `signals`.
    pub fn hear_signals(&self, now: Timestamp, batch: &SignalBatch) {
        if !self.inbox.signals(now, batch) {
            return;
        }
        let loaded = self.rules.load();
        for signal in &batch.signals {
            let rule = loaded.set.rules.iter().find(|rule| rule.name == signal.rule);
            let Some(rule) = rule.filter(|rule| rule.window == signal.admitted.window()) else { continue };
            let counter = self.seen.place(signal.counter, now, || self.settings.digest_key.overflow(&rule.name));
            if counter != signal.counter {
                continue;
            }
            let is_news = self.seen.with(counter, |seen| {
                let known = seen.signal.as_ref().map(|told| told.newest_at);
                learn(rule, seen, News::Signal { signal, as_of: batch.as_of });
                known.is_none_or(|known| known < signal.newest_at)
            });
            if is_news {
                let lag_ms = self.store_time(now).hi.ms_since(signal.newest_at);
                self.metrics.signal_lag.observe(Duration::from_millis(lag_ms).as_secs_f64());
            }
        }
    }

    /// Hears a record of `presence`.
    pub fn hear_presence(&self, now: Timestamp, presence: &Presence) {
        self.inbox.presence(now, presence);
    }

    /// Hears what became of a batch.
    pub fn hear_report(&self, report: &Report) {
        self.inbox.report(report);
    }

    /// Counts a record that could not be read.
    pub fn hear_noise(&self) {
        self.metrics.unreadable.inc();
    }

    /// The next heartbeat.
    #[must_use]
    pub fn presence(&self, now: Timestamp, leaving: bool) -> Presence {
        Presence {
            id: self.settings.node.clone(),
            epoch: self.settings.epoch.as_ms(),
            region: self.settings.region.clone(),
            role: Role::Agent,
            generation: self.rules.load().set.generation,
            clock: now,
            open_breakers: Vec::new(),
            dropped_rows: self.outbox.dropped_rows(),
            leaving,
        }
    }

    /// When there will be batches for the bus.
    #[must_use]
    pub fn batches_due_at(&self) -> Timestamp {
        self.outbox.due_at()
    }

    /// The batches that the bus should get now, as (partition, sequence, rows, payload) of the log `calls`.
    pub fn batches_due(&self, now: Timestamp) -> impl Iterator<Item = (Partition, u64, usize, Vec<u8>)> + use<> {
        let loaded = self.rules.load();
        let longest = loaded.set.rules.iter().map(|rule| rule.deadline).max().unwrap_or_default();
        let in_flight_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        let complete_through = self.store_time(now).lo.minus_ms(in_flight_ms + 1);
        let due = self.outbox.due(now, complete_through);
        due.into_iter().map(|out| (out.partition, out.sequence, out.rows, out.payload))
    }

    /// Takes back a batch that the bus has no room for now.
    pub fn batch_refused(&self, partition: Partition, sequence: u64, rows: usize, payload: Vec<u8>) {
        let lost = self.outbox.refused(crate::outbox::Outgoing { partition, sequence, rows, payload });
        if let Some((partition, sequence)) = lost {
            self.inbox.report(&Report { partition, tag: sequence, offset: None });
        }
    }

    /// Whether something passed that the store was not asked for.
    #[must_use]
    pub fn is_in_debt(&self) -> bool {
        !self.debtors.lock().is_empty()
    }

    /// What the store should be told now that it answers again. What is returned is taken for told, whether the store says
    /// so or not: told twice it would count twice.
    pub fn settle_debts(&self) -> Vec<Take> {
        let debtors: Vec<Debtor> = {
            let mut debtors = self.debtors.lock();
            let step = debtors.len().min(DEBTORS_STEP_LEN);
            debtors.drain(..step).collect()
        };
        let mut takes = Vec::new();
        for debtor in debtors {
            let owed = self.seen.with(debtor.counter, |seen| seen.own(&debtor.rule).settle_debt().collect::<Vec<_>>());
            for owed in owed {
                self.metrics.owed.inc_by(owed.units);
                takes.push(Take {
                    counter: debtor.counter,
                    limit: debtor.rule.limit(),
                    generation: debtor.generation,
                    cost: owed.units,
                    kind: TakeKind::Owed { at: owed.at },
                });
            }
        }
        takes
    }

    /// Housekeeping, a few times a second.
    pub fn tick(&self, now: Timestamp) {
        let turn = self.ticks.fetch_add(1, Ordering::Relaxed);
        self.seen.sweep(usize::try_from(turn).unwrap_or_default(), now);
        self.inbox.tick(now);
        self.metrics.counters.set(self.seen.len() as u64);
        self.metrics.agents.set(self.inbox.fleet().get().into());
        self.metrics.dropped_rows.set(self.outbox.dropped_rows());
    }

    /// Whether signals of every partition have been read long enough to be relied on.
    #[must_use]
    pub fn has_read_signals(&self, now: Timestamp) -> bool {
        self.inbox.has_read_enough(self.store_time(now))
    }

    /// How many agents are active.
    #[must_use]
    pub fn fleet(&self) -> NonZeroU32 {
        self.inbox.fleet()
    }

    /// Whether the last question to the store went unanswered.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.degraded.load(Ordering::Relaxed)
    }

    /// What is held in queues and maps.
    #[must_use]
    pub fn held(&self) -> Held {
        Held {
            counters: self.seen.len(),
            waiting_batches: self.outbox.waiting_batches(),
            own_batches: self.inbox.kept(),
            debtors: self.debtors.lock().len(),
        }
    }

    pub(crate) fn observe_latency(&self, took: Duration) {
        self.metrics.latency.observe(took.as_secs_f64());
    }

    /// The store answers a question that was asked at `sent`.
    pub fn store_answers(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.store_time.read().would_learn(sent, received) {
            self.store_time.write().learn(sent, received, store_now);
        }
        if self.degraded.swap(false, Ordering::Relaxed) {
            self.metrics.degraded.set(0);
            tracing::info!(node = %self.settings.node, "the store answers again and decides");
        }
    }

    fn answered(&self, sent: Timestamp, received: Timestamp, answers: &Answers) {
        if let Some(taken) = answers.iter().find(|taken| taken.rebased) {
            self.metrics.rebased.inc();
            tracing::warn!(node = %self.settings.node, store_now = ?taken.at, "the store's clock stepped back; counters were moved with it; check its time service");
        }
        if let Some(taken) = answers.first() {
            self.store_answers(sent, received, taken.at);
        }
    }

    fn unanswered(&self, error: StoreError) {
        self.metrics.store_error(error.as_str());
        if !self.degraded.swap(true, Ordering::Relaxed) {
            self.metrics.degraded.set(1);
            tracing::warn!(node = %self.settings.node, %error, "deciding by signals, or by each rule's on_failure, until the store answers");
        }
    }

    fn charges(&self, set: &RuleSet, now: Timestamp, call: &Call<'_>) -> Charges {
        let applying = set.rules.iter().enumerate().filter(|(_, rule)| rule.applies_to(call));
        let key = &self.settings.digest_key;
        applying
            .map(|(index, rule)| {
                let named = key.counter(&rule.name, rule.values(call));
                let counter = self.seen.place(named, now, || key.overflow(&rule.name));
                if counter != named {
                    self.metrics.overflowed.inc();
                }
                Charge { rule: rule.clone(), index, place: 0, counter, overflow: counter != named, cost: call.cost() }
            })
            .enumerate()
            .map(|(place, charge)| Charge { place, ..charge })
            .collect()
    }

    /// Plans the charges of a call: their verdicts, up to the first denial; nothing when the store must be asked.
    fn plan(&self, loaded: &Loaded, charges: &[Charge], facts: impl Fn(CounterId) -> Facts) -> Option<Verdicts> {
        let mut verdicts = Verdicts::new();
        let mut ask = false;
        for charge in charges {
            let facts = facts(charge.counter);
            let generation = loaded.set.generation;
            match self.seen.with(charge.counter, |seen| plan(&charge.rule, generation, seen, &facts, charge.cost)) {
                Plan::Ask => ask = true,
                Plan::Answer(verdict, source) => {
                    verdicts.resize(charge.place, None);
                    verdicts.push(Some(Judged { verdict, limit: charge.rule.quota.units(), source }));
                    if !verdict.admitted {
                        ask = false;
                        break;
                    }
                }
            }
        }
        verdicts.resize(charges.len(), None);
        (!ask).then_some(verdicts)
    }

    /// Settles a call: publishes its charges, learns from them, and words the answer.
    fn decide(&self, now: Timestamp, call: &Call<'_>, asked: Asked<'_>) -> Decision {
        let Asked { number, loaded, charges, verdicts, answers, span } = asked;
        let settled = settle(verdicts);
        let at = answers.first().map_or(span.hi, |taken| taken.at);
        let mut home = Some((call, settled.shown.map(|shown| charges[shown].rule.name.clone()), settled.source));
        for (place, charge) in charges.iter().enumerate() {
            let outcome = match (settled.allowed, settled.shown == Some(place)) {
                (true, _) => Outcome::Admitted,
                (false, true) => Outcome::Denied,
                (false, false) => Outcome::Spared,
            };
            let partition = charge.counter.partition(self.settings.partitions);
            let sub_window = charge.rule.window.sub_window(at);
            let row = Row { call: number, counter: None, at, sub_window, cost: cost_on_wire(charge.cost), outcome, home: None };
            let publish = Publish { counter: Some(charge.counter), row, home: home.take() };
            let entry = |id| charge.entry(id, &loaded.set, call, &self.settings.digest_key);
            let sequence = self.outbox.publish(partition, now, publish, entry, |call| self.shown_set(loaded, call));
            self.learn(charge, loaded.set.generation, settled.allowed, verdicts[place], answers.get(place), sequence, span);
        }
        if charges.is_empty() {
            let outcome = Outcome::Admitted;
            let row = Row { call: number, counter: None, at, sub_window: 0, cost: cost_on_wire(call.cost()), outcome, home: None };
            let publish = Publish { counter: None, row, home };
            let no_entry = |_| unreachable!("a row without counter needs no entry");
            let partition = self.settings.digest_key.call(call.descriptors()).partition(self.settings.partitions);
            self.outbox.publish(partition, now, publish, no_entry, |call| self.shown_set(loaded, call));
        }
        let counters = settled.shown.map_or(&self.unlimited, |shown| &loaded.counters[charges[shown].index]);
        counters.count(settled.source, settled.allowed);
        // Waits count from the store's step, or from the earliest that the store's time may be: never too short.
        let from = answers.first().map_or(span.lo, |taken| taken.at);
        let bound = settled.shown.and_then(|shown| Some((&charges[shown].rule, verdicts[shown]?)));
        Decision {
            allowed: settled.allowed,
            bound: bound.map(|(rule, judged)| Bound {
                rule: rule.name.clone(),
                limit: judged.limit,
                window_ms: rule.window.width_ms(),
                remaining: judged.verdict.remaining,
                reset_ms: judged.verdict.reset_at.ms_since(from),
                retry_after_ms: if settled.allowed { 0 } else { judged.verdict.retry_at.ms_since(from).max(1) },
            }),
            source: settled.source,
            at,
            id: DecisionId { agent: self.settings.node.clone(), epoch: self.settings.epoch.as_ms(), call: number },
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what became of one charge, said once")]
    fn learn(
        &self,
        charge: &Charge,
        generation: Generation,
        allowed: bool,
        judged: Option<Judged>,
        taken: Option<&Taken>,
        sequence: Sequence,
        span: Span,
    ) {
        let alone = judged.is_some_and(|judged| judged.verdict.admitted && judged.source != Source::Store);
        let news = match taken {
            Some(taken) => News::Taken { taken, cost: charge.cost, generation, sequence },
            None if alone && allowed => News::PassedAlone { at: span.hi, cost: charge.cost, sequence },
            None if alone => News::Spared { at: span.hi, cost: charge.cost },
            None => return,
        };
        let newly_in_debt = self.seen.with(charge.counter, |seen| {
            let before = seen.is_in_debt();
            learn(&charge.rule, seen, news);
            !before && seen.is_in_debt()
        });
        if newly_in_debt {
            let mut debtors = self.debtors.lock();
            if debtors.len() >= DEBTORS_LEN_MAX {
                self.metrics.forgotten_debts.inc();
                debtors.pop_front();
            }
            debtors.push_back(Debtor { rule: charge.rule.clone(), generation, counter: charge.counter });
        }
    }

    /// A call's descriptors as they may be published.
    fn shown_set(&self, loaded: &Loaded, call: &Call<'_>) -> DescriptorSet {
        let key = &self.settings.digest_key;
        let shown = |name: &str, value: &str| (name.into(), key.shown(value, loaded.set.is_secret(name)).into());
        call.descriptors().map(|(name, value)| shown(name, value)).collect()
    }
}

impl Loaded {
    fn new(set: RuleSet, metrics: &AgentMetrics) -> Self {
        let counters = set.rules.iter().map(|rule| metrics.of_rule(&rule.name)).collect();
        Self { set, counters }
    }
}

impl Charge {
    /// What a batch says of the counter.
    fn entry(&self, id: CounterId, set: &RuleSet, call: &Call<'_>, key: &DigestKey) -> CounterEntry {
        let shown = |name: &Arc<str>| {
            let value = call.get(name).unwrap_or_default();
            format!("{name}={}", key.shown(value, set.is_secret(name)))
        };
        let label = match (self.overflow, self.rule.per.is_empty()) {
            (true, _) => "(all callers past counters_max)".to_owned(),
            (false, true) => "(all calls)".to_owned(),
            (false, false) => self.rule.per.iter().map(shown).collect::<Vec<_>>().join(" "),
        };
        CounterEntry {
            id,
            rule: self.rule.name.clone(),
            label: label.into(),
            generation: set.generation,
            quota: self.rule.quota.units(),
            window: self.rule.window,
        }
    }
}

fn cost_on_wire(cost: u64) -> i64 {
    i64::try_from(cost).unwrap_or(i64::MAX)
}
