//! Whole agents over a real Redis in trouble.

use std::time::Duration;

use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::DigestKey;
use tollgate_servers::Redis;

const PATIENCE: Duration = Duration::from_secs(20);

/// An agent that has reached its store.
async fn agent(redis: &Redis) -> Agent {
    let rule = Rule::per("per-key", &["api_key"], "100/h".parse().unwrap()).strict();
    let agent = Agent::builder().rule(rule).redis(&*redis.url()).start().unwrap();
    until("the store", || async { agent.readiness().await.missing.is_empty() }).await;
    agent
}

async fn check(agent: &Agent, key: &str) -> Decision {
    agent.check(&Call::new().with("api_key", key)).await
}

/// Looks again and again, giving way to others in between.
async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let waited = Stopwatch::start();
    while !look().await {
        assert!(waited.elapsed() < PATIENCE, "timed out waiting for {what}");
        tokio::task::yield_now().await;
    }
}

/// Regression: one foreign value under a counter's key took the whole agent off its store for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_holds_something_else_troubles_no_other_counter() {
    let redis = Redis::start();
    let agent = agent(&redis).await;
    let foreign = DigestKey::default().counter("per-key", ["foreign"]);
    assert_eq!(redis.command(&format!("SET tollgate:{{{foreign}}} hello")), "+OK");
    for call in 0..200 {
        assert_ne!(check(&agent, "foreign").await.source, Source::Store);
        let key = format!("key-{call}");
        until("the others", || async { check(&agent, &key).await.source == Source::Store }).await;
    }
    assert!(!agent.limiter().is_degraded());
}

/// Regression: an agent that nobody asked did not notice that its Redis was gone, nor that it was back.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_agent_notices_that_its_store_is_gone_and_back() {
    let mut redis = Redis::start();
    let agent = agent(&redis).await;
    redis.kill();
    until("the loss to be noticed", || async { agent.limiter().is_degraded() }).await;
    redis.restart();
    until("the return to be noticed", || async { !agent.limiter().is_degraded() }).await;
    assert_eq!(check(&agent, "k1").await.source, Source::Store);
}
