//! Rules that agents read at different times by different clocks, over one real Redis.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Agent, Call};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock, Timestamp};
use tollgate_core::rules::RuleSet;
use tollgate_servers::Redis;

const TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a change takes effect at all agents.
const EFFECT_MAX: Duration = Duration::from_secs(2);
const YEAR_MS: u64 = 31_536_000_000;

/// A clock that is ahead of the system's by this time in ms.
struct AheadClock(SystemClock, u64);

impl Clock for AheadClock {
    fn now(&self) -> Timestamp {
        self.0.now().plus_ms(self.1)
    }
}

/// The rules of a file without a version, as an agent with this clock reads them.
fn read_rules(clock: &dyn Clock, quota: &str) -> RuleSet {
    let rule =
        format!("{{ name: per-key, per: [api_key], quota: {quota}, consistency: strict, deadline: 5s, leases: off }}");
    tollgate_rules::from_yaml("rules.yaml", &format!("rules: [{rule}]"), clock.now().as_ms()).unwrap()
}

async fn agent(redis: &Redis, node: &str, ahead_ms: u64, quota: &str) -> Agent {
    let clock = Arc::new(AheadClock(SystemClock::start(), ahead_ms));
    let rules = read_rules(&*clock, quota);
    let agent = Agent::builder().node(node).clock(clock).rules(rules).redis(&*redis.url()).start().unwrap();
    let waited = Stopwatch::start();
    while !agent.missing_parts().await.is_empty() {
        assert!(waited.elapsed() < TIMEOUT, "timed out waiting for Redis");
        tokio::task::yield_now().await;
    }
    agent
}

/// Waits until the agents count the hot key by this quota, of which ten units are spent. The first one has these rules.
async fn takes_effect(agents: &[&Agent], quota: u64) {
    let waited = Stopwatch::start();
    let call = Call::new().with("api_key", "hot").costing(0);
    for agent in agents {
        loop {
            let decision = agent.decide(&call).await;
            if decision.status.as_ref().expect("a rule applies").remaining == quota - 10 {
                break;
            }
            assert!(waited.elapsed() < EFFECT_MAX, "{quota}: {decision:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// F9: ten calls of an agent whose clock is a year ahead keep no counter from following the rules that others read later, whether
/// that agent lives or not. Nor do denials that another agent has cached.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_a_year_ahead_makes_no_rules_the_newest_for_ever() {
    let redis = Redis::start();
    let ahead = agent(&redis, "ahead", YEAR_MS, "100/h").await;
    let call = Call::new().with("api_key", "hot");
    for _ in 0..10 {
        assert!(ahead.check(&call).await.is_ok());
    }
    let first = agent(&redis, "first", 0, "10/h").await;
    takes_effect(&[&first, &ahead], 10).await;
    assert!(first.check(&call).await.is_err() && ahead.check(&call).await.is_err(), "denials that both agents cache");
    let second = agent(&redis, "second", 0, "40/h").await;
    takes_effect(&[&second, &first, &ahead], 40).await;
    ahead.shutdown().await;
    let rules = read_rules(&SystemClock::start(), "20/h");
    first.engine().set_rules(SystemClock::start().now(), rules).expect("other rules");
    takes_effect(&[&first, &second], 20).await;
}
