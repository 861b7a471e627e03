//! CPU time of Redis for an admitted call of a fleet, beside an INCR in pipelines of 32, and beside one INCR for each of the same
//! calls at the same rate, in the same run.
//!
//! The second reference is the cheapest limiter that asks Redis for each call: it shares the connections' pipelines with the
//! calls that come meanwhile, as agents do. At a low rate most of its cost, too, is that of a request.
//!
//! Four agents in this process share a Redis. Calls come at a rate (Poisson, open loop), or as fast as 128 callers make them. 10,000 keys
//! are drawn by a Zipf distribution; the busiest hundredth has a quota of a third of its demand, the others of twice theirs.
//! The quotas of a full load are set by the rate that a run before has reached. The first window is not measured, and the second
//! one is measured whole (not with `--quick`), because a caller past its quota is admitted in bursts that repeat with each window.
//! With leases, the 50 ms after the beginning of each sub-window are measured once more on
//! their own: all leases end there. Limits stand behind `<`, and apply to the second reference. The first one (`x
//! INCR`) has none: in its reading, an admitted call at a low rate costs far more than two INCRs. The program exits
//! with 1 if one is missed, or if agents decided without Redis because its answers were late.
//!
//! Run: `cargo bench -p tollgate --features redis --bench redis_admission`; `-- --quick` for a short run,
//! `-- "leases, full"` for the loads with this in their names. The server comes from `apt-get install redis-server`.

#![expect(clippy::cast_precision_loss, reason = "rates and ratios of small numbers")]

mod load;

use std::collections::HashMap;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn, spawn_blocking};
use tokio::time::sleep;
use tollgate::Agent;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_servers::Redis;

use load::{AGENTS, Counts, KEYS, Limiter, Load, WIDTH_S, rules, run, weights};

const PART_MS: u64 = WIDTH_S * 1_000 / 12;
/// Time after the start of a sub-window that is measured on its own.
const EDGE: Duration = Duration::from_millis(50);
/// Time before the start of a sub-window at which the first sample is taken.
const SAMPLE: Duration = Duration::from_millis(3);
/// Rate by which the first quotas of a closed loop are set, in calls per second, and number of rounds that correct it.
const GUESSED_PER_SECOND: u64 = 100_000;
const CALIBRATIONS: usize = 2;
/// Name of the threads of the runtime.
const WORKER: &str = "gateway";
const PIPELINE: usize = 32;
const INCRS: usize = 200_000;
/// Time for which the INCRs of a load are measured, in s.
const INCR_OF_LOAD_S: u64 = 10;
/// Loads without leases that are compared.
const SPARSE: &str = "no leases, 5,000/s";
const FULL: &str = "no leases, full load";
/// Largest CPU time of an admitted call with leases, in INCRs of the load, and the largest growth of this number without leases,
/// from the peak to 5,000/s.
const LEASED_MAX: f64 = 2.0;
const SPARSE_MAX: f64 = 1.3;
/// Largest part of the calls that may be decided without Redis.
const DEGRADED_MAX: f64 = 0.01;

/// A Redis with agents that enforce the quotas of a demand.
struct Fleet {
    redis: Arc<Redis>,
    agents: Arc<[Limiter]>,
    incr_us: f64,
}

/// Adds up the admitted calls and the CPU time of Redis in us, both in the time after the beginning of each sub-window.
async fn watch_edges(redis: Arc<Redis>, counts: Arc<Counts>, sums: Arc<Mutex<(u64, f64)>>) {
    let clock = SystemClock::start();
    let sample = async || {
        let redis = redis.clone();
        let cpu_us = spawn_blocking(move || redis.cpu_us()).await.expect("an answer");
        (counts.admitted.load(Ordering::Relaxed), cpu_us)
    };
    loop {
        // The sample is taken just before the edge.
        sleep(Duration::from_millis(PART_MS - clock.now().as_ms() % PART_MS).saturating_sub(SAMPLE)).await;
        let before = sample().await;
        sleep(EDGE + SAMPLE).await;
        let after = sample().await;
        let mut sums = sums.lock().expect("no panic");
        *sums = (sums.0 + after.0 - before.0, sums.1 + after.1 - before.1);
    }
}

/// Returns the CPU time of an INCR in pipelines, in us.
async fn incr_us(redis: &Redis) -> f64 {
    let client = redis::Client::open(redis.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let before = redis.cpu_us();
    for batch in 0..INCRS / PIPELINE {
        let mut pipeline = redis::pipe();
        for number in 0..PIPELINE {
            pipeline.incr(format!("incr:{}", (batch * PIPELINE + number) % KEYS), 1).ignore();
        }
        pipeline.query_async::<()>(&mut connection).await.expect("answers");
    }
    (redis.cpu_us() - before) / INCRS as f64
}

/// Returns the CPU time of an INCR for each call of a load, in us.
async fn incr_of_load_us(load: &Load, weights: &Arc<[f64]>, time: Duration) -> f64 {
    let redis = Redis::start();
    let client = redis::Client::open(redis.url()).expect("an address");
    let mut limiters = Vec::new();
    for _ in 0..AGENTS {
        limiters.push(Limiter::Incr(client.get_multiplexed_async_connection().await.expect("a connection")));
    }
    let (counts, before) = (Arc::<Counts>::default(), redis.cpu_us());
    run(load, &limiters.into(), weights, time, &counts).await;
    (redis.cpu_us() - before) / counts.calls.load(Ordering::Relaxed) as f64
}

async fn start(load: &Load, demand: u64, weights: &[f64]) -> Fleet {
    let redis = Arc::new(Redis::start());
    let incr_us = incr_us(&redis).await;
    let set = rules(load, demand, weights);
    let mut agents = Vec::new();
    for _ in 0..AGENTS {
        let agent = Agent::builder().rules(set.clone()).redis(redis.url().as_str()).start().expect("it starts");
        while !agent.missing_parts().await.is_empty() {
            tokio::task::yield_now().await;
        }
        agents.push(Limiter::Agent(agent));
    }
    Fleet { redis, agents: agents.into(), incr_us }
}

/// Returns the rate of a closed loop. The quotas of each round are those of the rate before, because denials are faster than
/// admissions.
async fn demand_at_full_load(load: &Load, weights: &Arc<[f64]>, time: Duration) -> u64 {
    yield_to_redis();
    let mut demand = GUESSED_PER_SECOND;
    for _ in 0..CALIBRATIONS {
        let (fleet, counts) = (start(load, demand, weights).await, Arc::<Counts>::default());
        run(load, &fleet.agents, weights, time, &counts).await;
        demand = counts.calls.load(Ordering::Relaxed) / time.as_secs();
    }
    demand
}

/// Gives Redis precedence over the threads of the runtime from now on. Redis has a machine of its own in production.
/// Without precedence, a closed loop takes so much of the CPU that answers miss their deadline and agents decide
/// without Redis.
fn yield_to_redis() {
    for thread in std::fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if name.starts_with(WORKER) {
            let output = Command::new("renice").args(["-n", "5", "-p"]).arg(thread.file_name()).output();
            assert!(output.expect("renice of util-linux").status.success(), "renice");
        }
    }
}

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name(WORKER).enable_all().build();
    runtime.expect("threads").block_on(measure())
}

async fn measure() -> ExitCode {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let (warm_up_s, measured) = if is_quick { (5, 5) } else { (WIDTH_S, WIDTH_S) };
    let weights: Arc<[f64]> = weights().into();
    let load = |name, leases, per_second, is_limited| Load { name, leases, per_second, is_limited };
    // Full loads come last: they change the priority of threads.
    let loads = [
        load("leases, 20,000/s", true, Some(20_000), true),
        load("leases, 2,000/s", true, Some(2_000), false),
        load(SPARSE, false, Some(5_000), false),
        load("leases, full load", true, None, true),
        load(FULL, false, None, false),
    ];
    let mut missed = Vec::new();
    println!("                      calls/s admitted  leased   parts scripts  us each x INCR  x same max");
    let mut ratios = HashMap::new();
    for load in loads.iter().filter(|load| load.name.contains(&filter)) {
        let warm_up = Duration::from_secs(warm_up_s);
        let demand = match load.per_second {
            Some(per_second) => per_second,
            None => demand_at_full_load(load, &weights, warm_up).await,
        };
        let of_load_us = incr_of_load_us(load, &weights, Duration::from_secs(warm_up_s.min(INCR_OF_LOAD_S))).await;
        let Fleet { redis, agents, incr_us } = start(load, demand, &weights).await;
        run(load, &agents, &weights, warm_up, &Arc::default()).await;
        let (counts, edges) = (Arc::<Counts>::default(), Arc::<Mutex<_>>::default());
        let watch = load.leases.then(|| spawn(watch_edges(redis.clone(), counts.clone(), edges.clone())));
        let (cpu_before, scripts_before) = (redis.cpu_us(), redis.scripts_run());
        run(load, &agents, &weights, Duration::from_secs(measured), &counts).await;
        let (cpu_us, scripts) = (redis.cpu_us() - cpu_before, redis.scripts_run() - scripts_before);
        watch.iter().for_each(JoinHandle::abort);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let (calls, admitted) = (of(&counts.calls), of(&counts.admitted));
        let ratio = cpu_us / admitted / of_load_us;
        let limit = load.is_limited.then_some(LEASED_MAX);
        println!(
            "{:<20} {:>8.0} {:>7.1}% {:>6.1}% {:>6.1}% {:>7.3} {:>8.2} {:>6.1} {:>7.2} {}",
            load.name,
            calls / measured as f64,
            100.0 * admitted / calls,
            100.0 * of(&counts.leased) / admitted,
            100.0 * of(&counts.parts) / admitted,
            scripts as f64 / admitted,
            cpu_us / admitted,
            cpu_us / admitted / incr_us,
            ratio,
            limit.map_or_else(String::new, |limit| format!("<{limit}")),
        );
        if load.per_second.is_none() {
            println!("  quotas for a demand of {demand}/s");
        }
        let degraded = of(&counts.degraded) / calls;
        if degraded > DEGRADED_MAX {
            missed.push(format!("{}: {:.1}% of the calls were decided without Redis", load.name, 100.0 * degraded));
        }
        let (edge_admitted, edge_us) = *edges.lock().expect("no panic");
        if edge_admitted > 0 {
            let ratio = edge_us / edge_admitted as f64 / incr_us;
            println!("  {} ms after each edge: {edge_admitted} admitted, x INCR {ratio:.1}", EDGE.as_millis());
        }
        if limit.is_some_and(|limit| ratio > limit) {
            missed.push(format!(
                "{}: {ratio:.2} INCRs of the load for an admitted call, at most {LEASED_MAX}",
                load.name
            ));
        }
        ratios.insert(load.name, ratio);
    }
    println!("leased, parts: admissions by leases, and of late calls by parts. scripts, us: for an admitted call.");
    println!("x INCR: in pipelines of {PIPELINE}. x same: one INCR for each of the same calls at the same rate.");
    if let Some((sparse, full)) = ratios.get(SPARSE).zip(ratios.get(FULL)) {
        let ratio = sparse / full;
        println!(
            "no leases: in INCRs of the load, an admitted call at 5,000/s costs {ratio:.2} times one at full load <{SPARSE_MAX}"
        );
        if ratio > SPARSE_MAX {
            missed.push(format!("{SPARSE}: {ratio:.2} times the cost at full load, at most {SPARSE_MAX}"));
        }
    }
    for missed in &missed {
        println!("missed: {missed}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}
