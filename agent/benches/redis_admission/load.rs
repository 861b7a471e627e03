//! Loads of calls, and the limiters that decide them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, spawn_blocking};
use tollgate::{Agent, Call, LocalAnswer, RuleSet, Source};
use tollgate_core::clock::Stopwatch;

pub(crate) const AGENTS: usize = 4;
pub(crate) const KEYS: usize = 10_000;
pub(crate) const ZIPF_EXPONENT: f64 = 1.1;
/// Window of the quotas, in s: twelve sub-windows.
pub(crate) const WIDTH_S: u64 = 60;
pub(crate) const CALLERS: u64 = 128;

/// A load: its name, whether agents lease, and its rate; none for a closed loop.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) leases: bool,
    pub(crate) per_second: Option<u64>,
    /// True if the limit of an admitted call with leases applies.
    pub(crate) is_limited: bool,
}

#[derive(Clone)]
pub(crate) enum Limiter {
    Agent(Agent),
    Incr(MultiplexedConnection),
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) leased: AtomicU64,
    pub(crate) parts: AtomicU64,
    pub(crate) degraded: AtomicU64,
}

/// Cumulated weights of the keys.
pub(crate) fn weights() -> Vec<f64> {
    let mut sum = 0.0;
    (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-ZIPF_EXPONENT);
            sum
        })
        .collect()
}

pub(crate) fn rules(load: &Load, demand: u64, weights: &[f64]) -> RuleSet {
    let quota = |rank: usize| {
        let weight = weights[rank] - if rank == 0 { 0.0 } else { weights[rank - 1] };
        let units = weight / weights[KEYS - 1] * (demand * WIDTH_S) as f64;
        let units = if rank < KEYS / 100 { units / 3.0 } else { units * 2.0 };
        format!("k{rank}: {{ quota: {}/{WIDTH_S}s }}", units.ceil())
    };
    let quotas: Vec<String> = (0..KEYS).map(quota).collect();
    let leases = if load.leases { "on" } else { "off" };
    let settings = format!("per: [api_key], quota: 1/min, leases: {leases}, keys: {{ {} }}", quotas.join(", "));
    tollgate_rules::from_yaml("rules.yaml", &format!("rules: [{{ name: key, {settings} }}]"), 1).expect("valid rules")
}

pub(crate) async fn call(limiter: &mut Limiter, rank: usize, counts: &Counts) {
    counts.calls.fetch_add(1, Ordering::Relaxed);
    let agent = match limiter {
        Limiter::Agent(agent) => agent,
        Limiter::Incr(connection) => {
            let _: u64 = connection.incr(format!("incr:{rank}"), 1).await.expect("an answer");
            return;
        }
    };
    let decision = agent.decide(&Call::new().with("api_key", format!("k{rank}"))).await;
    counts.admitted.fetch_add(decision.allowed.into(), Ordering::Relaxed);
    counts.leased.fetch_add((decision.by == Some(LocalAnswer::Lease)).into(), Ordering::Relaxed);
    counts.degraded.fetch_add((decision.source == Source::Fallback).into(), Ordering::Relaxed);
    counts.parts.fetch_add((decision.by == Some(LocalAnswer::Part)).into(), Ordering::Relaxed);
}

pub(crate) fn draw(rng: &mut Rng, weights: &[f64]) -> usize {
    let place = rng.f64() * weights[KEYS - 1];
    weights.partition_point(|sum| *sum <= place).min(KEYS - 1)
}

pub(crate) async fn run(
    load: &Load,
    agents: &Arc<[Limiter]>,
    weights: &Arc<[f64]>,
    time: Duration,
    counts: &Arc<Counts>,
) {
    let mut calls = JoinSet::new();
    let started = Stopwatch::start();
    let Some(per_second) = load.per_second else {
        for seed in 0..CALLERS {
            let (agents, weights, counts) = (agents.clone(), weights.clone(), counts.clone());
            calls.spawn(async move {
                let mut rng = Rng::with_seed(seed);
                while started.elapsed() < time {
                    call(&mut agents[rng.usize(..AGENTS)].clone(), draw(&mut rng, &weights), &counts).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        calls.join_all().await;
        return;
    };
    // Timers of the runtime have a resolution of 1 ms: the calls of each would come at once, and share requests.
    let (runtime, agents, weights, counts) = (Handle::current(), agents.clone(), weights.clone(), counts.clone());
    let arrivals = spawn_blocking(move || {
        let (mut rng, mut next, mut calls) = (Rng::with_seed(1), Duration::ZERO, JoinSet::new());
        while next < time {
            std::thread::sleep(next.saturating_sub(started.elapsed()));
            let (rank, mut agent, counts) =
                (draw(&mut rng, &weights), agents[rng.usize(..AGENTS)].clone(), counts.clone());
            calls.spawn_on(async move { call(&mut agent, rank, &counts).await }, &runtime);
            while calls.try_join_next().is_some() {}
            next += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / per_second as f64);
        }
        calls
    });
    arrivals.await.expect("no panic").join_all().await;
}
