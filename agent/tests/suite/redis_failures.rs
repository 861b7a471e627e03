//! Agents with a real Redis that fails.

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::OnFailure;
use tollgate_engine::FleetPart;
use tollgate_servers::Redis;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Creates an agent that is connected to its store.
async fn agent(redis: &Redis) -> Agent {
    let rule = Rule::per("per-key", &["api_key"], "100/h".parse().unwrap()).strict();
    let agent = Agent::builder().rule(rule).redis(&*redis.url()).start().unwrap();
    until("the store", || async { agent.missing_parts().await.is_empty() }).await;
    agent
}

async fn check(agent: &Agent, key: &str) -> Decision {
    agent.decide(&Call::new().with("api_key", key)).await
}

/// Polls a condition, yielding to other tasks in between.
async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let waited = Stopwatch::start();
    while !look().await {
        assert!(waited.elapsed() < TIMEOUT, "timed out waiting for {what}");
        tokio::task::yield_now().await;
    }
}

/// Regression: one foreign value under a counter's key disconnected the agent from its store permanently.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_value_does_not_affect_other_counters() {
    let redis = Redis::start();
    let agent = agent(&redis).await;
    let foreign = DigestKey::default().counter("per-key", ["foreign"]);
    assert_eq!(redis.command(&format!("SET tollgate:{{{foreign}}} hello")), "+OK");
    for call in 0..200 {
        assert_ne!(check(&agent, "foreign").await.source, Source::Store);
        let key = format!("key-{call}");
        until("the other counters", || async { check(&agent, &key).await.source == Source::Store }).await;
    }
    assert!(!agent.engine().is_degraded());
}

/// Regression: an agent without calls noticed neither the loss nor the recovery of its Redis.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_agent_notices_loss_and_recovery_of_its_store() {
    let mut redis = Redis::start();
    let agent = agent(&redis).await;
    redis.kill();
    until("the agent to detect the loss", || async { agent.engine().is_degraded() }).await;
    redis.restart();
    until("the agent to detect the recovery", || async { !agent.engine().is_degraded() }).await;
    assert_eq!(check(&agent, "k1").await.source, Source::Store);
}

/// I2: while Redis is down, the agent itself counts attempts at a login, with those that Redis had counted. After five
/// in a quarter of an hour, the sixth is denied.
#[tokio::test(flavor = "multi_thread")]
async fn the_sixth_login_is_denied_while_redis_is_down() {
    let mut redis = Redis::start();
    let rule = Rule::per("login", &["ip"], "5/15min".parse().unwrap()).strict().counted_by(Algorithm::SlidingLog);
    let agent = Agent::builder().rule(rule).agents_expected(NonZeroU32::MIN).redis(&*redis.url()).start().unwrap();
    until("the store", || async { agent.missing_parts().await.is_empty() }).await;
    until("its part", || async { agent.engine().fleet_part() == FleetPart::OneOf(NonZeroU32::MIN) }).await;
    let login = async |ip: &'static str| agent.decide(&Call::new().with("ip", ip)).await;
    for attempt in 1..=3 {
        let decision = login("10.0.0.1").await;
        assert_eq!((decision.allowed, decision.source), (true, Source::Store), "attempt {attempt}");
    }
    redis.kill();
    until("the agent to detect the loss", || async { agent.engine().is_degraded() }).await;
    for (ip, attempts) in [("10.0.0.1", 4..=7), ("10.0.0.2", 1..=7)] {
        for attempt in attempts {
            let decision = login(ip).await;
            assert_ne!(decision.source, Source::Store);
            assert_eq!(decision.allowed, attempt <= 5, "attempt {attempt} of {ip}");
        }
    }
}

/// capped, I12: 5,000 calls with ids on one counter during an outage. Redis learns of all of them in requests of up to
/// 32. It works on none of them for so long that the agent gives up on it.
#[tokio::test(flavor = "multi_thread")]
async fn redis_learns_of_thousands_of_calls_on_one_counter_in_small_requests() {
    const CALLS: u64 = 5_000;
    let mut redis = Redis::start();
    let rule = Rule::per("per-key", &["api_key"], "1000000/h".parse().unwrap());
    let rule = rule.with(|policy| policy.on_failure = OnFailure::Open);
    let agent = Agent::builder().rule(rule).redis(&*redis.url()).start().unwrap();
    until("the store", || async { agent.missing_parts().await.is_empty() }).await;
    redis.kill();
    until("the agent to detect the loss", || async { agent.engine().is_degraded() }).await;
    for call in 0..CALLS {
        let call = Call::new().with("api_key", "k").identified(call.to_string());
        assert!(agent.decide(&call).await.allowed);
    }
    assert_eq!(agent.engine().metrics().unsynced_units.get(), CALLS);
    redis.restart();
    until("the units to be in Redis", || async { agent.engine().metrics().unsynced_units.get() == 0 }).await;
    until("the agent to use it", || async { !agent.engine().is_degraded() }).await;
    let timed_out = agent.engine().metrics().store_errors().find(|(name, _)| *name == "timed_out");
    let stats = redis.command("INFO commandstats");
    let scripts =
        stats.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")?.split_once("calls=")?.1.split_once(','));
    let scripts: u64 = scripts.filter_map(|(calls, _)| calls.parse::<u64>().ok()).sum();
    println!("{scripts} scripts, {timed_out:?}: {stats}");
    assert!((128..=200).contains(&scripts), "{scripts} scripts for {CALLS} units: {stats}");
    let decision = check(&agent, "k").await;
    let remaining = decision.status.expect("a rule").remaining;
    assert_eq!((decision.source, remaining), (Source::Store, 1_000_000 - CALLS - 1));
}
