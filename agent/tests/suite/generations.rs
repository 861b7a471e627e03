//! Changes of a rule with counters in use, while one agent still has the old rules, with both stores.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tollgate::store::{AnyStore, ChargeStore, MemoryStore, RedisSettings, RedisStore};
use tollgate::{Agent, Call, Decision, Rule, RuleSet};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::{Clock, Stopwatch, SystemClock, Timestamp};
use tollgate_core::window::Estimate;
use tollgate_servers::Redis;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Two agents; only the first one receives the change.
struct Fleet {
    new: Agent,
    old: Agent,
}

impl Fleet {
    /// Starts both agents with the old rule.
    async fn of(store: &Arc<AnyStore>, clock: &Arc<dyn Clock>, rule: &Rule) -> Self {
        let start = || {
            let rules = RuleSet::new(1, [rule.clone()]);
            Agent::builder().clock(clock.clone()).rules(rules).store(store.clone()).start_with_store().unwrap()
        };
        let fleet = Self { new: start(), old: start() };
        for agent in [&fleet.new, &fleet.old] {
            let waited = Stopwatch::start();
            while !agent.missing_parts().await.is_empty() {
                assert!(waited.elapsed() < TIMEOUT, "timed out waiting for the store");
                tokio::task::yield_now().await;
            }
        }
        fleet
    }

    /// Applies a changed rule to the first agent.
    fn change(&self, rule: &Rule) {
        self.new.engine().set_rules(Timestamp::from_ms(1), RuleSet::new(2, [rule.clone()])).unwrap();
    }
}

async fn check(agent: &Agent, cost: u64) -> Decision {
    agent.decide(&Call::new().with("api_key", "k").costing(cost)).await
}

fn remaining(decision: &Decision) -> u64 {
    decision.status.as_ref().expect("a rule applies").remaining
}

/// Creates a rule with a deadline that a busy machine meets, so that the store decides every call.
fn rule(quota: &str) -> Rule {
    Rule::per("per-key", &["api_key"], quota.parse().unwrap())
        .strict()
        .with(|policy| policy.deadline = Duration::from_secs(5))
}

fn bucket(quota: &str, burst: u64) -> Rule {
    rule(quota).with(|policy| policy.burst = burst).counted_by(Algorithm::TokenBucket)
}

/// Runs a test with the memory store and with a real Redis.
async fn over_both_stores<F: Future<Output = ()>>(run: impl Fn(Arc<AnyStore>, Arc<dyn Clock>) -> F) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    run(Arc::new(AnyStore::Memory(Arc::new(MemoryStore::new(clock.clone())))), clock.clone()).await;
    let redis = Redis::start();
    let store = RedisStore::new(&RedisSettings::from(&*redis.url()), clock.clone()).unwrap();
    let waited = Stopwatch::start();
    while store.ping().await.is_err() {
        assert!(waited.elapsed() < TIMEOUT, "timed out waiting for Redis");
    }
    run(Arc::new(AnyStore::Redis(store)), clock).await;
}

/// F9: after a raise, a window keeps its count and admits more at once; the agent with the old rules gets the new quota
/// from the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_raise_applies_at_once_to_all_agents() {
    over_both_stores(|store, clock| async move {
        let fleet = Fleet::of(&store, &clock, &rule("100/h")).await;
        assert_eq!(remaining(&check(&fleet.old, 100).await), 0);
        fleet.change(&rule("500/h"));
        assert_eq!(remaining(&check(&fleet.new, 50).await), 350);
        let old = check(&fleet.old, 50).await;
        assert_eq!((old.allowed, remaining(&old)), (true, 300));
    })
    .await;
}

/// F9: after a raise from 100 to 500 with 20 tokens left, a bucket has 20 tokens left and accrues 8.33/s.
#[tokio::test(flavor = "multi_thread")]
async fn a_raised_bucket_keeps_its_tokens() {
    over_both_stores(|store, clock| async move {
        let fleet = Fleet::of(&store, &clock, &bucket("100/h", 100)).await;
        assert_eq!(remaining(&check(&fleet.old, 80).await), 20);
        fleet.change(&bucket("500/h", 500));
        assert!((20..=21).contains(&remaining(&check(&fleet.new, 0).await)));
        assert!((20..=21).contains(&remaining(&check(&fleet.old, 0).await)));
        assert!(!check(&fleet.old, 30).await.allowed);
    })
    .await;
}

/// F10: after a reduction from 1000 to 100 at 500 used units, no agent admits more once the store has received it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reduction_applies_to_all_agents() {
    over_both_stores(|store, clock| async move {
        let fleet = Fleet::of(&store, &clock, &rule("1000/h")).await;
        assert!(check(&fleet.old, 500).await.allowed);
        fleet.change(&rule("100/h"));
        assert!(!check(&fleet.new, 1).await.allowed);
        for _ in 0..50 {
            assert!(!check(&fleet.old, 1).await.allowed && !check(&fleet.new, 1).await.allowed);
        }
    })
    .await;
}

/// F13: after a change of the algorithm within a window, the count is kept, also for the agent with the old rules.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_algorithm_keeps_the_count() {
    let all = [
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingLog,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::Concurrency,
    ];
    over_both_stores(|store, clock| async move {
        for (number, (from, to)) in all.iter().flat_map(|from| all.iter().map(move |to| (from, to))).enumerate() {
            let named = |algorithm: Algorithm| {
                let burst = if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) { 10 } else { 0 };
                let mut rule = rule("10/d").with(|policy| policy.burst = burst).counted_by(algorithm);
                rule.name = format!("switch-{number}").into();
                rule
            };
            let fleet = Fleet::of(&store, &clock, &named(*from)).await;
            assert!(check(&fleet.old, 10).await.allowed, "{from:?}");
            fleet.change(&named(*to));
            assert!(!check(&fleet.new, 1).await.allowed, "{from:?} to {to:?}");
            assert!(!check(&fleet.old, 1).await.allowed, "{from:?} to {to:?}, by the old rule");
        }
    })
    .await;
}

/// Rules without `version:` have the time at which each agent read them as their generation. With equal rules, agents that read
/// them earlier are served by the short form of the step, too, which writes only the bytes that change.
#[tokio::test(flavor = "multi_thread")]
async fn agents_that_read_equal_rules_at_different_times_use_the_short_step() {
    const CALLS: u64 = 200;
    let redis = Redis::start();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = RedisStore::new(&RedisSettings::from(&*redis.url()), clock.clone()).unwrap();
    let fleet =
        Fleet::of(&Arc::new(AnyStore::Redis(store)), &clock, &rule("1000/h").with(|policy| policy.leases = false))
            .await;
    fleet.change(&rule("1000/h").with(|policy| policy.leases = false));
    let short_steps = || {
        let info = redis.command("INFO commandstats");
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_setrange:calls="));
        line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or_default()
    };
    for agent in [&fleet.old, &fleet.new, &fleet.old] {
        let before = short_steps();
        for _ in 0..CALLS {
            assert!(check(agent, 1).await.allowed);
        }
        // A new counter, a newer generation, a count that needs another byte and a new sub-window take one whole step each.
        let short = short_steps() - before;
        assert!(short >= CALLS - 4, "{short} of {CALLS}");
    }
    assert_eq!(remaining(&check(&fleet.new, 0).await), 1_000 - 3 * CALLS);
}

/// F9: rules of another origin change counters in use, whatever their number, in the own table of an agent and in a memory store.
#[tokio::test(flavor = "multi_thread")]
async fn rules_of_another_origin_change_counters_in_use_without_redis() {
    let read = |version: &str, quota: &str, now_ms: u64| {
        let rule = format!("rules: [{{ name: per-key, per: [api_key], quota: {quota}, consistency: strict }}]");
        tollgate_rules::from_yaml("rules.yaml", &format!("{version}\n{rule}"), now_ms).expect("valid rules")
    };
    let first = read("", "100/h", 1_800_000_000_000);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = Arc::new(AnyStore::Memory(Arc::new(MemoryStore::new(clock.clone()))));
    let builder = || Agent::builder().clock(clock.clone()).rules(first.clone());
    for agent in [builder().start().unwrap(), builder().store(store).start_with_store().unwrap()] {
        for _ in 0..10 {
            assert!(check(&agent, 1).await.allowed);
        }
        let changes = [("version: 7", "12/h"), ("version: 8", "40/h"), ("", "30/h"), ("version: 7", "20/h")];
        for (number, (version, quota)) in changes.into_iter().enumerate() {
            let rules = read(version, quota, 1_700_000_000_000 + number as u64);
            agent.engine().set_rules(clock.now(), rules).expect("other rules");
            let limit = check(&agent, 0).await.status.expect("a rule applies").limit;
            assert_eq!(format!("{limit}/h"), quota, "change {number}");
        }
    }
}
