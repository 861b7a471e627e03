//! Contenders: the ways to decide a call that the bench compares.
//!
//! Each decides a block of calls in one function, so that the compiler sees the loop. A contender counts the calls that were
//! not decided as its name says, and the rows that were dropped, so that a run that measured something else fails.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use governor::DefaultKeyedRateLimiter;
use parking_lot::Mutex;
use throttlecrab::PeriodicStore;
use tollgate::store::{AnyStore, ChargeResults, ChargeStore, StoreError};
use tollgate::{Admission, Agent, Builder, Call, Denial, Rule, Source};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, LogReader, ReadFrom, Topic};
use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};
use tollgate_core::decision::LocalAnswer;
use tollgate_engine::HeldEntries;

/// Quota that no call of the bench exhausts.
const ADMITS: &str = "1000000000/min";
/// Units of a lease that no call of its sub-window exhausts.
const LEASED: u64 = 1 << 40;
const DENIED_MS: u64 = 24 * 86_400_000;
/// Quota that the first call of a key exhausts until the end of the bench.
const DENIES: &str = "1/24d";
/// Largest ratio to governor on one thread: an answer from a view, an admission in memory, an admission with a bus.
const VIEW_RATIO_MAX: f64 = 2.5;
const MEMORY_RATIO_MAX: f64 = 4.0;
const BUS_RATIO_MAX: f64 = 6.0;
/// Largest ratio of an answer from a view to governor when both run on two threads.
const TWO_THREADS_RATIO_MAX: f64 = 1.5;
/// Largest ratio of a call that a lease admits to a cached denial.
const LEASE_RATIO_MAX: f64 = 1.5;
/// Position of the cached denial beside a store among the contenders.
const CACHED_DENIAL: usize = 9;
/// Cap on counters: no rule of a million callers may reach its share.
const COUNTERS_MAX: usize = 4_000_000;
const PARTITIONS: u32 = 8;
/// Time after which the rows of a block are in batches that wait for the bus.
const LINGER: Duration = Duration::from_millis(10);

/// Decides a call for each key, and counts the calls that were not decided as the contender's name says.
pub(crate) type Decide = Box<dyn Fn(&[String]) -> Exceptions + Sync>;

/// Numbers of calls that were not decided as the contender's name says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Exceptions {
    /// Cached denials that were checked at the counter, as each is every 250 ms. They are a part of its cost.
    pub(crate) checked: usize,
    /// Calls that were decided otherwise than expected. With any of them, the run measured something else.
    pub(crate) unexpected: usize,
}

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Position of the contender that this one is compared with.
    pub(crate) reference: usize,
    /// Set whose times are limited.
    pub(crate) timed_set: &'static str,
    /// Largest ratio to the reference on one thread and on two.
    pub(crate) ratios_max: [Option<Limit>; 2],
    /// True if the bytes of a counter are limited.
    pub(crate) limits_bytes: bool,
    pub(crate) decide: Decide,
    /// Waits until all rows are on the bus, and returns the number of those that were dropped. None without a bus.
    pub(crate) flush: Option<Box<dyn Fn() -> u64 + Sync>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// The run fails above it.
    Must(f64),
    /// The run reports a value above it, and passes.
    Aim(f64),
}

type Answer = Result<Admission, Denial>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decided {
    AsNamed,
    Checked,
    Unexpected,
}

/// Store that admits or denies everything and holds nothing: only the agent's own memory is left.
struct InstantStore {
    clock: SystemClock,
    admits: bool,
    /// Units of a lease that is asked for.
    leased: u64,
}

/// Returns all contenders, in the order of the table.
pub(crate) fn contenders() -> Vec<Contender> {
    let (denying, admitting) = (with_bus(DENIES), with_bus(ADMITS));
    let store = |admits, leased| Arc::new(InstantStore { clock: SystemClock::start(), admits, leased });
    vec![
        Contender::new("governor denies", 0, governor(governor::Quota::per_hour(NonZeroU32::MIN), false)),
        Contender::new("governor admits", 1, governor(governor::Quota::per_second(NonZeroU32::MAX), true)),
        Contender::new("throttlecrab denies", 0, throttlecrab([2, 1, 3_600], false)),
        Contender::new("throttlecrab admits", 1, throttlecrab([1 << 20, 1 << 30, 1], true)),
        Contender::new("cached denial", 0, try_check(start(builder(DENIES)), cached_denial))
            .limited([Some(Limit::Must(VIEW_RATIO_MAX)), Some(Limit::Must(TWO_THREADS_RATIO_MAX))]),
        Contender::new("admission, memory", 1, try_check(start(builder(ADMITS)), admission))
            .limited([Some(Limit::Must(MEMORY_RATIO_MAX)), None]),
        Contender::new("cached denial, bus", 0, check(denying.clone(), cached_denial))
            .limited([Some(Limit::Aim(VIEW_RATIO_MAX)), Some(Limit::Aim(TWO_THREADS_RATIO_MAX))])
            .on_bus(denying),
        Contender::new("admission, bus", 1, check(admitting.clone(), admission))
            .limited([Some(Limit::Must(BUS_RATIO_MAX)), None])
            .on_bus(admitting),
        Contender::new("admission, store", 1, try_check(start(builder(ADMITS).store(store(true, 0))), admission))
            .limited([None, None]),
        // Leases exist beside a store only, whose time each answer needs.
        Contender::new(
            "cached denial, store",
            0,
            try_check(start(builder(DENIES).store(store(false, 0))), cached_denial),
        ),
        Contender::new(
            "lease (x a denial)",
            CACHED_DENIAL,
            try_check(start(builder(ADMITS).store(store(true, LEASED))), lease),
        )
        .limited([Some(Limit::Must(LEASE_RATIO_MAX)), None])
        .timed_with("hot"),
    ]
}

impl Contender {
    fn new(name: &'static str, reference: usize, decide: Decide) -> Self {
        Self { name, reference, timed_set: "10k", ratios_max: [None; 2], limits_bytes: false, decide, flush: None }
    }

    fn limited(self, ratios_max: [Option<Limit>; 2]) -> Self {
        Self { ratios_max, limits_bytes: true, ..self }
    }

    /// Limits the times with another set: of many keys, some have too few calls for a lease.
    fn timed_with(self, timed_set: &'static str) -> Self {
        Self { timed_set, ..self }
    }

    fn on_bus(self, agent: Agent) -> Self {
        Self { flush: Some(Box::new(move || flush(&agent))), ..self }
    }
}

fn governor(quota: governor::Quota, admits: bool) -> Decide {
    let limiter: DefaultKeyedRateLimiter<String> = DefaultKeyedRateLimiter::dashmap(quota);
    decide(move |key| Decided::as_named(limiter.check_key(key).is_ok() == admits))
}

/// A limiter of burst, calls per period, and period in seconds. It forgets a key with a burst of 1 at once.
#[expect(clippy::disallowed_methods, reason = "the library takes the time from its caller")]
fn throttlecrab([burst, count, period_s]: [i64; 3], admits: bool) -> Decide {
    let limiter = Mutex::new(throttlecrab::RateLimiter::new(PeriodicStore::new()));
    decide(move |key| {
        let answer = limiter.lock().rate_limit(key, burst, count, period_s, 1, SystemTime::now());
        Decided::as_named(answer.expect("valid parameters").0 == admits)
    })
}

/// An agent behind the method that never waits.
fn try_check<S: ChargeStore>(agent: Agent<S>, decided: impl Fn(&Answer) -> Decided + Sync + 'static) -> Decide {
    decide(move |key| {
        let answer = agent.try_check(&Call::new().with("api_key", key.as_str()));
        answer.as_ref().map_or(Decided::Unexpected, &decided)
    })
}

/// An agent behind the method that gateways call, with all its metrics.
fn check(agent: Agent, decided: impl Fn(&Answer) -> Decided + Sync + 'static) -> Decide {
    decide(move |key| {
        let answer = agent.check(&Call::new().with("api_key", key.as_str())).now_or_never();
        answer.as_ref().map_or(Decided::Unexpected, &decided)
    })
}

fn decide(decide: impl Fn(&String) -> Decided + Sync + 'static) -> Decide {
    Box::new(move |keys| {
        let mut exceptions = Exceptions::default();
        for key in keys {
            let decided = decide(key);
            exceptions.checked += usize::from(decided == Decided::Checked);
            exceptions.unexpected += usize::from(decided == Decided::Unexpected);
        }
        exceptions
    })
}

fn cached_denial(answer: &Answer) -> Decided {
    match answer {
        Err(denial) if denial.decision.source == Source::Local => Decided::AsNamed,
        Err(denial) if denial.decision.source == Source::Store => Decided::Checked,
        _ => Decided::Unexpected,
    }
}

fn admission(answer: &Answer) -> Decided {
    Decided::as_named(answer.as_ref().is_ok_and(|admission| admission.decision.source == Source::Store))
}

/// A call that a lease admits, or one that asks for it.
fn lease(answer: &Answer) -> Decided {
    match answer {
        Ok(admission) if admission.decision.by == Some(LocalAnswer::Lease) => Decided::AsNamed,
        Ok(admission) if admission.decision.source == Source::Store => Decided::Checked,
        _ => Decided::Unexpected,
    }
}

fn builder(quota: &str) -> Builder<AnyStore> {
    let rule = Rule::per("per-key", &["api_key"], quota.parse().expect("a quota")).strict();
    Agent::builder().rule(rule).counters_max(COUNTERS_MAX)
}

fn start<S: ChargeStore>(builder: Builder<S>) -> Agent<S> {
    builder.start_with_store().expect("an agent")
}

/// An agent with a bus, and a thread that reads all records as an aggregator does.
fn with_bus(quota: &str) -> Agent {
    let bus = EmbeddedBus::new(Arc::new(SystemClock::start()), PARTITIONS);
    let partitions: Vec<_> = (0..PARTITIONS).collect();
    let mut reader = bus.reader(Topic::Calls, &partitions, ReadFrom::Next);
    let agent = start(builder(quota).bus(bus));
    thread::spawn(move || {
        // The bus ends with the process.
        loop {
            drop(reader.poll(Duration::from_millis(50), 1_000));
        }
    });
    agent
}

/// Waits until all rows are on the bus, and returns the number of those that were dropped.
fn flush(agent: &Agent) -> u64 {
    thread::sleep(LINGER);
    let is_waiting = |held: HeldEntries| held.waiting_rows + held.waiting_batches > 0;
    while is_waiting(agent.engine().held()) {
        thread::sleep(Duration::from_millis(1));
    }
    agent.engine().dropped_rows()
}

impl Limit {
    pub(crate) fn max(self) -> f64 {
        match self {
            Self::Must(max) | Self::Aim(max) => max,
        }
    }
}

impl Decided {
    fn as_named(is_as_named: bool) -> Self {
        if is_as_named { Self::AsNamed } else { Self::Unexpected }
    }
}

impl InstantStore {
    fn admit(&self, charge: &Charge) -> ChargeResult {
        let at = self.clock.now();
        let limit = charge.limit.units;
        let leased = if matches!(charge.mode, ChargeMode::Lease { .. }) { self.leased } else { 0 };
        let (admitted, retry_at) = (self.admits, if self.admits { at } else { at.plus_ms(DENIED_MS) });
        let remaining = if admitted { limit } else { 0 };
        let verdict = Verdict { admitted, remaining, retry_at, reset_at: retry_at, delay_ms: 0 };
        let (charged, born, previous) = (admitted, at, at);
        ChargeResult { verdict, charged, repeated: false, leased, at, limit, limit_until: None, born, previous }
    }
}

impl ChargeStore for InstantStore {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        Ok(charges.iter().map(|charge| self.admit(charge)).collect())
    }

    fn try_charge(&self, charges: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        Some(Ok(charges.iter().map(|charge| self.admit(charge)).collect()))
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}
