//! A late Redis: paused, suspended under load, or with connections that are lost. Its answers count however late they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{Agent, Call, Rule};
use tollgate_core::clock::Stopwatch;
use tollgate_servers::Redis;

const QUOTA: u64 = 100;
/// Quota that no test exhausts.
const PLENTY: u64 = 1_000_000;
const TIMEOUT: Duration = Duration::from_secs(30);

async fn agent(redis: &Redis, rule: Rule) -> Agent {
    let agent = Agent::builder().rule(rule).redis(redis.url().as_str()).start().expect("a rule and an address");
    while !agent.missing_parts().await.is_empty() {
        tokio::task::yield_now().await;
    }
    agent
}

fn rule(quota: u64) -> Rule {
    Rule::per("per-key", &["api_key"], format!("{quota}/h").parse().expect("a quota"))
}

/// Units that the store has counted for a key.
async fn counted(redis: &Redis, key: &str) -> u64 {
    let agent = agent(redis, rule(PLENTY).with(|policy| policy.deadline = Duration::from_secs(5))).await;
    let call = Call::new().with("api_key", key.to_owned()).costing(0);
    let decision = agent.check(&call).await.expect("a call that costs nothing").decision;
    PLENTY - decision.status.expect("a rule").remaining
}

/// Waits until the store has counted so many units for a key. Returns the units that it has counted then.
async fn counted_at_least(redis: &Redis, key: &str, units: u64) -> u64 {
    let waited = Stopwatch::start();
    loop {
        let counted = counted(redis, key).await;
        if counted >= units {
            return counted;
        }
        assert!(waited.elapsed() < TIMEOUT, "{counted} of {units} units are counted");
    }
}

/// never-over, I12: under `strict`, a Redis that pauses before every fifth call admits no more than the quota, and the calls in
/// between pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_pauses_adds_no_excess() {
    let redis = Arc::new(Redis::start());
    let agent = agent(&redis, rule(QUOTA).strict()).await;
    let call = Call::new().with("api_key", "k");
    let mut admitted = 0;
    for number in 0..300 {
        if number % 5 == 0 {
            redis.pause();
            let (redis, pause_ms) = (redis.clone(), [8, 40, 90][number / 5 % 3]);
            tokio::task::spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(pause_ms));
                redis.resume();
            });
        }
        admitted += u64::from(agent.check(&call).await.is_ok());
    }
    println!("{admitted} of {QUOTA} admitted");
    assert!((60..=QUOTA).contains(&admitted), "{admitted} of {QUOTA}");
}

/// D9, I12: Redis is suspended under load and continues. Then it counts every admitted unit, once. The experiment on failures
/// measures that a second is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_is_in_a_suspended_redis_after_it_continues() {
    let redis = Redis::start();
    let agent = agent(&redis, rule(PLENTY)).await;
    let admitted = under_load(&agent, || {
        redis.pause();
        std::thread::sleep(Duration::from_millis(300));
        redis.resume();
    })
    .await;
    let counted = counted_at_least(&redis, "k", admitted).await;
    println!("{counted} counted of {admitted} admitted");
    assert_eq!(counted, admitted);
}

/// D9, I12: connections are lost before answers. Then Redis counts every admitted unit at least once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_is_in_redis_after_connections_were_lost() {
    let redis = Redis::start();
    let agent = agent(&redis, rule(PLENTY)).await;
    let admitted = under_load(&agent, || {
        for _ in 0..5 {
            assert!(redis.command("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'), "connections were killed");
            std::thread::sleep(Duration::from_millis(60));
        }
    })
    .await;
    let counted = counted_at_least(&redis, "k", admitted).await;
    println!("{counted} counted of {admitted} admitted, connections lost");
    assert!(counted >= admitted && counted <= admitted + 200, "{counted} counted of {admitted} admitted");
}

/// Runs calls on one key until `fault` has passed and for a while longer. Returns the number of admitted ones.
async fn under_load(agent: &Agent, fault: impl FnOnce()) -> u64 {
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let (agent, done) = (agent.clone(), done.clone());
            tokio::spawn(async move {
                let (call, mut admitted) = (Call::new().with("api_key", "k"), 0);
                while !done.load(Ordering::Relaxed) {
                    admitted += u64::from(agent.check(&call).await.is_ok());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                admitted
            })
        })
        .collect();
    let while_running = |ms| tokio::time::sleep(Duration::from_millis(ms));
    while_running(100).await;
    tokio::task::block_in_place(fault);
    while_running(300).await;
    done.store(true, Ordering::Relaxed);
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.expect("a caller ends");
    }
    admitted
}
