//! Load of Redis under one hot caller of a fleet: whether its counter must be split, and what reads from replicas would save.
//!
//! C11: twenty agents check one caller 1,000,000 times a minute together. A counter would be split over several servers if it filled
//! one core of Redis with leases on: then the program exits with 1.
//!
//! C13: a replica could answer only the steps that write nothing, which are denials. The program prints the CPU time of Redis under a
//! caller that is denied nearly always: this is the most that reads from replicas would save.
//!
//! Run: `cargo bench -p tollgate --features redis --bench hot_key`; the server comes from `apt-get install redis-server`.

#![expect(clippy::cast_precision_loss, reason = "rates and shares of small numbers")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tollgate::Agent;
use tollgate::store::RedisSettings;
use tollgate_core::call::Call;
use tollgate_core::clock::Stopwatch;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Rule, RuleSet};
use tollgate_servers::Redis;

const AGENTS: u32 = 20;
/// Checks of all agents in a minute.
const CHECKS_PER_MIN: u32 = 1_000_000;
/// Checks that an agent makes at once, so that timers cost little.
const BURST: u32 = 20;
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(10);
/// Share of a core of Redis from which a counter would be split.
const FULL_CORE: f64 = 0.8;

/// Counts of all agents.
#[derive(Default)]
struct Answers {
    checks: AtomicU64,
    /// Checks that Redis decided.
    by_store: AtomicU64,
    denied: AtomicU64,
}

/// One measured load of Redis.
struct Load {
    share_of_core: f64,
    checks_per_s: f64,
    by_store: f64,
    denied: f64,
}

/// Starts the agents under one rule; each makes its part of the checks until it is dropped.
async fn start(redis: &Redis, name: &str, quota: &str, leases: bool, answers: &Arc<Answers>) -> JoinSet<()> {
    let rule = Rule::per(name, &["api_key"], quota.parse().expect("a quota"));
    let rule = rule.with(|policy| (policy.leases, policy.deadline) = (leases, Duration::from_secs(1)));
    let mut callers = JoinSet::new();
    for number in 0..AGENTS {
        let settings = RedisSettings::new(&redis.url()).prefixed(format!("{name}:"));
        let agent = Agent::builder().node(format!("a{number}")).rules(RuleSet::new(1, [rule.clone()])).redis(settings);
        let agent = agent.start().expect("it starts");
        while !agent.missing_parts().await.is_empty() {
            tokio::task::yield_now().await;
        }
        let answers = answers.clone();
        callers.spawn(async move {
            let mut due = interval(Duration::from_mins(1) * AGENTS * BURST / CHECKS_PER_MIN);
            due.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let call = Call::new().with("api_key", "hot");
            loop {
                due.tick().await;
                for _ in 0..BURST {
                    let decision = agent.decide(&call).await;
                    answers.checks.fetch_add(1, Ordering::Relaxed);
                    answers.by_store.fetch_add((decision.source == Source::Store).into(), Ordering::Relaxed);
                    answers.denied.fetch_add((!decision.allowed).into(), Ordering::Relaxed);
                }
            }
        });
    }
    callers
}

async fn measure(redis: &Redis, name: &str, quota: &str, leases: bool) -> Load {
    let answers = Arc::<Answers>::default();
    let callers = start(redis, name, quota, leases, &answers).await;
    tokio::time::sleep(WARM_UP).await;
    let read = || [&answers.checks, &answers.by_store, &answers.denied].map(|count| count.load(Ordering::Relaxed));
    let (before, cpu_before, measured) = (read(), redis.cpu_us(), Stopwatch::start());
    tokio::time::sleep(MEASURED).await;
    let (after, cpu_us, took_s) = (read(), redis.cpu_us() - cpu_before, measured.elapsed().as_secs_f64());
    drop(callers);
    let [checks, by_store, denied] = [0, 1, 2].map(|place| (after[place] - before[place]) as f64);
    Load {
        share_of_core: cpu_us / 1e6 / took_s,
        checks_per_s: checks / took_s,
        by_store: by_store / checks,
        denied: denied / checks,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let redis = Redis::start();
    println!("One caller, {CHECKS_PER_MIN} checks a minute at {AGENTS} agents\n");
    println!("{:<28} {:>9} {:>9} {:>9} {:>13}", "load", "checks/s", "by Redis", "denied", "core of Redis");
    let loads = [
        ("admitted, leases off", "off", "2000000/min", false),
        ("admitted, leases on", "on", "2000000/min", true),
        ("denied, leases on", "denied", "1000/min", true),
    ];
    let mut is_full = false;
    for (text, name, quota, leases) in loads {
        let Load { share_of_core, checks_per_s, by_store, denied } = measure(&redis, name, quota, leases).await;
        let percent = |part: f64| format!("{:.1}%", 100.0 * part);
        let (by_store, denied, core) = (percent(by_store), percent(denied), percent(share_of_core));
        println!("{text:<28} {checks_per_s:>9.0} {by_store:>9} {denied:>9} {core:>13}");
        is_full |= name == "on" && share_of_core >= FULL_CORE;
    }
    if is_full { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
