//! An agent without its store, under buckets and `concurrency`.

use std::num::NonZeroU32;

use tollgate::{Agent, Call, Rule};
use tollgate_core::algorithm::Algorithm;

/// Creates an agent, one of two, whose Redis is unavailable, and waits until it knows that.
async fn agent(rule: Rule) -> Agent {
    let agents = NonZeroU32::new(2).unwrap();
    let agent = Agent::builder().rule(rule).redis("redis://127.0.0.1:1").agents_expected(agents).start().unwrap();
    while !agent.engine().is_degraded() {
        tokio::task::yield_now().await;
    }
    agent
}

fn rule(quota: &str, burst: u64, algorithm: Algorithm) -> Rule {
    Rule::per("r", &["user"], quota.parse().unwrap()).strict().with(|policy| policy.burst = burst).counted_by(algorithm)
}

/// Regression: without its store, a queue had no rate and a bucket no burst, only a window.
#[tokio::test]
async fn buckets_keep_their_rate_without_the_store() {
    let call = Call::new().with("user", "u");
    let queue = agent(rule("600/min", 10, Algorithm::LeakyBucket)).await;
    let mut delays = Vec::new();
    while delays.len() < 50 {
        let Ok(admission) = queue.check(&call).await else { break };
        delays.push(admission.decision.delay_ms);
    }
    assert!((5..=8).contains(&delays.len()) && delays.is_sorted() && delays[4] >= 600, "{delays:?}: half of the queue");
    let bucket = agent(rule("100000/d", 8, Algorithm::TokenBucket)).await;
    let mut passed = 0;
    for _ in 0..50 {
        passed += u32::from(bucket.check(&call).await.is_ok());
    }
    assert!((4..=7).contains(&passed), "{passed}: half of the burst, and what it refills meanwhile");
}

/// Regression: slots that were granted without the store could not be released without it.
#[tokio::test]
async fn slots_are_released_without_the_store() {
    let agent = agent(rule("4/10min", 0, Algorithm::Concurrency)).await;
    let call = Call::new().with("user", "u");
    let first = agent.check(&call).await.unwrap();
    let second = agent.check(&call).await.unwrap();
    assert!(agent.check(&call).await.is_err());
    drop(first);
    let third = agent.check(&call).await.unwrap();
    assert!(agent.check(&call).await.is_err());
    drop((second, third));
}
