//! Cached denials of agents with one real Redis: when they end, and what they save.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tollgate::{Agent, Call, Rule, Source};
use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, scaled, wait_for};

const QUOTA: u64 = 100;
/// Time after which a refund at another agent shows: 250 ms, and the resolution of a clock.
const REFUND_SHOWS: Duration = Duration::from_millis(251);

fn agent(redis: &Redis, node: &str) -> Agent {
    let rule = Rule::per("per-key", &["api_key"], "100/h".parse().unwrap()).strict();
    // Redis decides each admission, so that the costs of admissions and denials can be told apart.
    let rule = rule.with(|policy| (policy.deadline, policy.leases) = (Duration::from_secs(5), false));
    ready(Agent::builder().node(node).rule(rule).redis(&*redis.url()).start().expect("the agent starts"))
}

fn ready(agent: Agent) -> Agent {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        wait_for("Redis", || runtime.block_on(agent.missing_parts()).is_empty().then_some(()));
    });
    agent
}

/// C7, true-denial: units that one agent gives back are free at every agent 250 ms later, without any signals. An agent
/// that repeats a denial asks the store four times a second, at any rate of calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_shows_at_every_agent_within_250_ms() {
    let redis = Redis::start();
    let (denying, refunding) = (agent(&redis, "denying"), agent(&redis, "refunding"));
    let whole = Call::new().with("api_key", "k").costing(QUOTA);
    let charged = refunding.decide(&whole).await;
    assert!(charged.allowed);
    let call = Call::new().with("api_key", "k");
    let (began, mut denied, mut asked) = (Stopwatch::start(), 0_u64, 0_u64);
    while began.elapsed() < Duration::from_secs(2) {
        let decision = denying.decide(&call).await;
        assert!(!decision.allowed);
        denied += 1;
        asked += u64::from(decision.source == Source::Store);
    }
    let elapsed = began.elapsed();
    println!("{denied} denials in {elapsed:?}, {asked} of them by the store");
    // The first two denials may both ask: the second while the first is not yet known.
    let most = 2 + u64::try_from(elapsed.as_millis()).expect("a few seconds") / 250;
    assert!((2..=most).contains(&asked), "{asked} of {denied} denials in {elapsed:?} asked the store");
    refunding.settle(&whole, -50, Some(&charged)).await.expect("Redis answers");
    let refunded = Stopwatch::start();
    let shown = loop {
        let began = refunded.elapsed();
        if denying.decide(&call).await.allowed {
            break began;
        }
        assert!(began < REFUND_SHOWS, "denied {began:?} after the refund");
    };
    println!("the refund showed after {shown:?}");
    let more = Call::new().with("api_key", "k").costing(49);
    assert!(denying.decide(&more).await.allowed, "50 units were given back");
}

/// Rules of all algorithms with a window. A slot is free when its call releases it, and has no exact retry.
const ALGORITHMS: &str = "
defaults: { consistency: strict, deadline: 5s }
rules:
  - { name: conservative, match: { kind: a0 }, per: [api_key], quota: 20/s }
  - { name: interpolated, match: { kind: a1 }, per: [api_key], quota: 20/s, consistency: bounded }
  - { name: burst, match: { kind: a2 }, per: [api_key], quota: 20/s, burst: 30, consistency: bounded }
  - { name: fixed, match: { kind: a3 }, per: [api_key], quota: 20/s, algorithm: fixed_window }
  - { name: log, match: { kind: a4 }, per: [api_key], quota: 20/s, algorithm: sliding_log }
  - { name: bucket, match: { kind: a5 }, per: [api_key], quota: 20/s, algorithm: token_bucket, burst: 10 }
  - { name: queue, match: { kind: a6 }, per: [api_key], quota: 20/s, algorithm: leaky_bucket, burst: 10 }
";
const ALGORITHM_COUNT: usize = 7;
/// Callers under each rule.
const CALLERS: u64 = 3;

/// Makes calls of random costs for a caller. After a denial, it asks for another cost at once, and then waits as it was told for the
/// smaller of both. Returns the number of these retries, and of the denials that the agent repeated.
async fn retries(agent: Agent, kind: usize, caller: u64) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(caller);
    let (mut retries, mut repeated) = (0, 0);
    let key = format!("caller-{caller}");
    let ask = async |cost: u64| {
        let call = Call::new().with("kind", format!("a{kind}")).with("api_key", key.as_str()).costing(cost);
        let decision = agent.decide(&call).await;
        let wait = Duration::from_millis(decision.status.as_ref().expect("a rule applies").retry_after_ms);
        (decision, wait, Stopwatch::start())
    };
    while retries < scaled(100) {
        let costs = [random.u64(1..=7), random.u64(1..=7)];
        let first = ask(costs[0]).await;
        if first.0.allowed {
            continue;
        }
        let second = ask(costs[1]).await;
        if second.0.allowed {
            continue;
        }
        repeated += u64::from(second.0.source == Source::Local);
        let ((denied, wait, told), cost) = if costs[0] <= costs[1] { (first, costs[0]) } else { (second, costs[1]) };
        tokio::time::sleep(wait.saturating_sub(told.elapsed())).await;
        let (retry, ..) = ask(cost).await;
        assert!(
            retry.allowed,
            "a{kind}, costs {costs:?}: told {wait:?} by {denied:?}, after {:?} {retry:?}",
            told.elapsed()
        );
        retries += 1;
    }
    (retries, repeated)
}

/// A15, C7: a denial answers only for its own cost, in memory and on Redis. Whatever other cost was denied in between, a call passes
/// after exactly the time that it was told.
#[tokio::test(flavor = "multi_thread")]
async fn every_exact_retry_passes_whatever_its_cost() {
    let redis = Redis::start();
    let rules = || tollgate_rules::from_yaml("rules.yaml", ALGORITHMS, 1).expect("valid rules");
    let builder = || Agent::builder().node("agent").rules(rules());
    let memory = builder().start().expect("the agent starts");
    let over_redis = ready(builder().redis(&*redis.url()).start().expect("the agent starts"));
    let mut callers = JoinSet::new();
    for agent in [memory, over_redis] {
        for (kind, caller) in (0..ALGORITHM_COUNT).flat_map(|kind| (0..CALLERS).map(move |caller| (kind, caller))) {
            callers.spawn(retries(agent.clone(), kind, caller));
        }
    }
    let made = callers.join_all().await.into_iter().reduce(|(a, b), (c, d)| (a + c, b + d)).expect("callers");
    println!("{} retries passed, after {} repeated denials", made.0, made.1);
    assert!(made.1 > 0, "an agent repeats denials");
}

/// CPU time of this process and of the server, in ms.
fn cpu_ms(redis: &Redis) -> f64 {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let info = redis.command("INFO cpu");
    let seconds = |name| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    let server = seconds("used_cpu_user:").expect("a number") + seconds("used_cpu_sys:").expect("a number");
    Duration::try_from(own).expect("a time").as_secs_f64() * 1e3 + server * 1e3
}

/// K1: 200 clients that retry 50,000 times in all, each of which is denied, cost less CPU than the 5,000 calls that were
/// admitted to them. The agent and Redis count together.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_retries_costs_less_than_the_calls_that_are_admitted() {
    let redis = Redis::start();
    let agent = agent(&redis, "agent");
    let clients: Vec<String> = (0..200).map(|client| format!("client-{client}")).collect();
    let decide = |index: usize| {
        let call = Call::new().with("api_key", clients[index].as_str()).costing(QUOTA / 25);
        let agent = &agent;
        async move { agent.decide(&call).await }
    };
    let (began, mut by_store) = (cpu_ms(&redis), 0);
    for index in 0..5_000 {
        assert!(decide(index / 25).await.allowed);
    }
    let admitted = cpu_ms(&redis) - began;
    for index in 0..50_000 {
        // Client after client: on a slow machine, the time of all retries is many checks of each denial.
        let denial = decide(index / 250).await;
        assert!(!denial.allowed);
        by_store += usize::from(denial.source == Source::Store);
    }
    let denied = cpu_ms(&redis) - began - admitted;
    println!(
        "50,000 denials {denied:.0} ms of CPU, {by_store} by the store; 5,000 admissions {admitted:.0} ms: {:.2}",
        denied / admitted
    );
    assert!(denied < admitted, "{denied} ms of CPU for 50,000 denials, {admitted} ms for 5,000 admissions");
}
