//! Cost of a decision at Redis, in microseconds of its CPU, beside a plain INCR in the same pipelines.
//!
//! N10, N11, N14: the memory of a counter, the steps of a core in a second, and the time of a step, by algorithm.
//!
//! The server's CPU is the scarce part of a shared store, so it is read from the server (INFO cpu), not from a clock here. Steps
//! of many calls share a script; a row that says `alone` has a script for each. Limits stand behind `<`; the program exits with 1
//! if one is missed. A step of a bucket, or of a log of at most 100 entries, may cost 1.5 times the limit of a window's
//! step alone: 1.5 x 12 INCRs where calls are admitted, and 1.5 x 9 where all are denied.
//!
//! Run: `cargo bench -p tollgate --features redis --bench redis_step`; the server comes from `apt-get install redis-server`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use tollgate::store::{ChargeStore, HashSlots, RedisSettings, RedisStore};
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::{SystemClock, Timestamp};
use tollgate_core::counter::{Charge, ChargeMode};
use tollgate_core::counter::{CounterId, HashSlotId, RequestId};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitWrite, StoredLimit};
use tollgate_core::window::{Estimate, Window};
use tollgate_redis::RegionLimits;
use tollgate_servers::Redis;

const PIPELINE: u64 = 32;
const DECISIONS: u64 = 32_000;
const ROUNDS: u32 = 4;
const COUNTERS: u64 = 1_000;

/// Largest CPU time of a step of a window, in INCRs: admitted and denied alone, and in a script of many steps.
const ADMITTED_MAX: f64 = 12.0;
const DENIED_MAX: f64 = 9.0;
const SHARED_MAX: f64 = 6.0;
/// Largest CPU time of a step of a bucket or a short log, in INCRs.
const OTHERS_ADMITTED_MAX: f64 = 1.5 * ADMITTED_MAX;
const OTHERS_DENIED_MAX: f64 = 1.5 * DENIED_MAX;

/// A kind of step: its name, its limit, the number of counters, and the units charged on each before.
struct Step {
    name: &'static str,
    algorithm: Algorithm,
    units: u64,
    burst: u64,
    counters: u64,
    filled: u64,
    /// True if each call has a request id of its own.
    named: bool,
    width_ms: u64,
    is_alone: bool,
    /// True if the limits of a region decide.
    has_budget: bool,
    /// Largest CPU time, in INCRs.
    max: Option<f64>,
}

struct Bench {
    redis: Redis,
    store: Arc<RedisStore>,
    /// Store with a script for each step.
    alone: Arc<RedisStore>,
    connection: MultiplexedConnection,
}

impl Bench {
    /// Runs one command `DECISIONS` times, `PIPELINE` at once. Returns the server's CPU for each, from the best of several
    /// rounds, because other processes use the machine too.
    async fn measure<F: Future<Output = ()> + Send + 'static>(&self, command: impl Fn(u64) -> F) -> f64 {
        let mut best_us = f64::INFINITY;
        for _ in 0..ROUNDS {
            let before = self.redis.cpu_us();
            for batch in 0..DECISIONS / PIPELINE {
                let numbers = batch * PIPELINE..(batch + 1) * PIPELINE;
                let sent: Vec<_> = numbers.map(|number| tokio::spawn(command(number))).collect();
                for answer in sent {
                    answer.await.expect("an answer");
                }
            }
            best_us = best_us.min(self.redis.cpu_us() - before);
        }
        best_us / f64::from(u32::try_from(DECISIONS).expect("a few"))
    }

    async fn step(&self, step: &Step, first_counter: u64) -> (f64, u64) {
        let parts = if step.algorithm == Algorithm::FixedWindow { 1 } else { 12 };
        let window = Window::new(step.width_ms, parts).expect("a window");
        let limit = Limit { algorithm: step.algorithm, units: step.units, window, burst: step.burst };
        let expires_at = Timestamp::from_ms(1 << 50);
        let take = move |number: u64, cost: u64| Charge {
            counter: CounterId::from_u128(u128::from(number)),
            slot: HashSlotId::of(CounterId::from_u128(u128::from(number))),
            request: None,
            limit,
            generation: 1,
            cost,
            mode: ChargeMode::Enforce { expires_at },
            budget: step.has_budget.then(|| step.name.into()),
        };
        let counter = move |number: u64, counters: u64| first_counter + number % counters;
        if step.has_budget {
            self.write_limits(step, first_counter).await;
        }
        if step.filled > 0 {
            for number in 0..step.counters {
                let fill = take(counter(number, step.counters), step.filled);
                assert!(self.store.charge(&[fill]).await.expect("an answer")[0].charged);
            }
        }
        let counters = step.counters;
        let (requests, named) = (AtomicU64::new(0), step.named);
        let ask = |number: u64| {
            let request = || RequestId::from_u128(u128::from(requests.fetch_add(1, Ordering::Relaxed)));
            let take = Charge { request: named.then(request), ..take(counter(number, counters), 1) };
            let store = if step.is_alone { self.alone.clone() } else { self.store.clone() };
            async move { drop(store.charge(&[take]).await.expect("an answer")) }
        };
        let each_us = self.measure(ask).await;
        let key = format!("tollgate:{{{}}}", CounterId::from_u128(u128::from(first_counter)));
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(key);
        (each_us, usage.query_async(&mut self.connection.clone()).await.expect("a size"))
    }

    /// Writes a floor of half the units of a step, and as many granted units of each counter.
    async fn write_limits(&self, step: &Step, first_counter: u64) {
        let clock = Arc::new(SystemClock::start());
        let limits = RegionLimits::new(&RedisSettings::new(&self.redis.url()), clock).expect("an address");
        limits.time().await.expect("Redis answers");
        let (units, until) = (step.units / 2, Timestamp::from_ms(1 << 50));
        let limit = StoredLimit { units, until, window_ms: step.width_ms, as_of: 1, ..StoredLimit::default() };
        let write = LimitWrite { limit, ..LimitWrite::default() };
        limits.write_floor(step.name, &write).await.expect("an answer");
        for number in 0..step.counters {
            let counter = CounterId::from_u128(u128::from(first_counter + number));
            limits.write_limit(step.name, counter, &write).await.expect("an answer");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let redis = Redis::start();
    let store = |slots| {
        let settings = RedisSettings::new(&redis.url()).with_slots(slots);
        Arc::new(RedisStore::new(&settings, Arc::new(SystemClock::start())).expect("an address"))
    };
    let (store, alone) = (store(HashSlots::Together), store(HashSlots::Multi));
    store.ping().await.expect("Redis answers");
    alone.ping().await.expect("Redis answers");
    let client = redis::Client::open(redis.url()).expect("an address");
    let connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let bench = Bench { redis, store, alone, connection };

    let incr = |number: u64| {
        let mut connection = bench.connection.clone();
        let mut command = redis::cmd("INCR");
        command.arg(format!("incr:{}", number % COUNTERS));
        async move { command.query_async::<()>(&mut connection).await.expect("an answer") }
    };
    let incr_us = bench.measure(incr).await;
    println!("{:<42} {:>7} {:>6} {:<3} {:>7} {:>9}", "", "us each", "x INCR", "max", "steps/s", "bytes/key");
    println!("{:<42} {incr_us:>7.2} {:>6.1} {:<3} {:>7.0}", "INCR", 1.0, "", 1e6 / incr_us);

    let window = Algorithm::SlidingWindow;
    let step = |name, algorithm, units, counters, filled| {
        let burst = if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) { units } else { 0 };
        let (named, width_ms, is_alone, has_budget, max) = (false, 60_000, false, false, None);
        Step { name, algorithm, units, burst, counters, filled, named, width_ms, is_alone, has_budget, max }
    };
    let within = |max, step: Step| Step { max: Some(max), ..step };
    let alone = |max, step: Step| Step { is_alone: true, ..within(max, step) };
    let bursting = |step: Step| Step { burst: 2 * step.units, ..step };
    let named = |step: Step| Step { named: true, ..step };
    let budgeted = |step: Step| Step { has_budget: true, ..step };
    let (conservative, many) = (window(Estimate::Conservative), 1 << 36);
    let steps = [
        alone(ADMITTED_MAX, step("sliding_window, alone, admitted", conservative, many, COUNTERS, 0)),
        alone(DENIED_MAX, step("sliding_window, alone, denied", conservative, 1_000, COUNTERS, 1_000)),
        within(SHARED_MAX, step("sliding_window, conservative, admitted", conservative, many, COUNTERS, 0)),
        within(
            SHARED_MAX,
            step("sliding_window, interpolated, admitted", window(Estimate::Interpolated), many, COUNTERS, 0),
        ),
        Step { width_ms: 12, ..step("sliding_window, first in its sub-window", conservative, many, COUNTERS, 0) },
        step("sliding_window, denied", conservative, 1_000, COUNTERS, 1_000),
        budgeted(step("sliding_window with a budget, admitted", conservative, many, COUNTERS, 0)),
        budgeted(step("sliding_window with a budget, denied", conservative, 1_000, COUNTERS, 1_000)),
        bursting(step("sliding_window with a burst, admitted", conservative, many, COUNTERS, 0)),
        named(step("sliding_window, request ids, admitted", conservative, many, COUNTERS, 0)),
        step("fixed_window, admitted", Algorithm::FixedWindow, many, COUNTERS, 0),
        step("fixed_window, denied", Algorithm::FixedWindow, 1_000, COUNTERS, 1_000),
        alone(OTHERS_ADMITTED_MAX, step("token_bucket, alone, admitted", Algorithm::TokenBucket, many, COUNTERS, 0)),
        alone(OTHERS_DENIED_MAX, step("token_bucket, alone, denied", Algorithm::TokenBucket, 10, COUNTERS, 10)),
        alone(OTHERS_ADMITTED_MAX, step("leaky_bucket, alone, admitted", Algorithm::LeakyBucket, many, COUNTERS, 0)),
        step("concurrency of 200, admitted and denied", Algorithm::Concurrency, 200, COUNTERS, 0),
        alone(OTHERS_DENIED_MAX, step("sliding_log of 10, alone, denied", Algorithm::SlidingLog, 10, COUNTERS, 10)),
        alone(OTHERS_ADMITTED_MAX, step("sliding_log of 100, alone, both", Algorithm::SlidingLog, 100, COUNTERS, 0)),
        step("token_bucket, admitted", Algorithm::TokenBucket, many, COUNTERS, 0),
        step("token_bucket, denied", Algorithm::TokenBucket, 10, COUNTERS, 10),
        step("sliding_log of 100, admitted and denied", Algorithm::SlidingLog, 100, COUNTERS, 0),
        step("sliding_log of 200, admitted and denied", Algorithm::SlidingLog, 200, COUNTERS, 0),
        step("sliding_log of 10,000, all admitted", Algorithm::SlidingLog, 10_000, 20, 0),
        step("sliding_log of 10,000, full, denied", Algorithm::SlidingLog, 10_000, 20, 10_000),
        step("sliding_log of 10,000, full, admitted", Algorithm::SlidingLog, 30_000, 20, 10_000),
    ];
    let mut missed = Vec::new();
    for (first_counter, step) in (0_u64..).step_by(1_000_000).zip(&steps) {
        let (each_us, bytes) = bench.step(step, first_counter).await;
        let ratio = each_us / incr_us;
        let max = step.max.map_or_else(String::new, |max| format!("<{max}"));
        let per_second = 1e6 / each_us;
        println!("{:<42} {each_us:>7.2} {ratio:>6.1} {max:<3} {per_second:>7.0} {bytes:>9}", step.name);
        if let Some(max) = step.max.filter(|max| ratio > *max) {
            missed.push(format!("missed: {}: {ratio:.1} times an INCR, at most {max}", step.name));
        }
    }
    for missed in &missed {
        println!("{missed}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}
