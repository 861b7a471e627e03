//! Several agents with one real Redis: one limit, whichever agent checks a call.

use std::time::Duration;

use tollgate::{Admission, Agent, Call};
use tollgate_core::clock::Stopwatch;
use tollgate_servers::Redis;

const TIMEOUT: Duration = Duration::from_secs(20);
const RULES: &str = "
defaults: { consistency: strict, deadline: 5s }
rules:
  - { name: login, match: { endpoint: /login }, per: [ip], quota: 5/15min, algorithm: sliding_log }
  - { name: per-user, match: { endpoint: /v1/* }, per: [user], quota: 3/h }
  - { name: exports, match: { endpoint: /export }, per: [user], quota: 2/10min, algorithm: concurrency }
descriptors: { user: { jwt: sub, default: anon } }
";

async fn agents(redis: &Redis, count: usize) -> Vec<Agent> {
    let mut agents = Vec::new();
    for number in 0..count {
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
        let agent = Agent::builder().node(format!("agent-{number}")).rules(rules).redis(&*redis.url()).start().unwrap();
        let waited = Stopwatch::start();
        while !agent.missing_parts().await.is_empty() {
            assert!(waited.elapsed() < TIMEOUT, "timed out waiting for Redis");
            tokio::task::yield_now().await;
        }
        agents.push(agent);
    }
    agents
}

/// K6: five attempts within a quarter of an hour over all agents; the sixth is denied by each of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_sixth_login_is_denied_on_any_agent() {
    let redis = Redis::start();
    let agents = agents(&redis, 3).await;
    let login = Call::new().with("ip", "10.0.0.1").with("endpoint", "/login");
    for attempt in 0..5 {
        assert!(agents[attempt % 3].check(&login).await.is_ok(), "attempt {attempt}");
    }
    for agent in &agents {
        assert!(agent.check(&login).await.is_err());
    }
    assert!(agents[0].check(&Call::new().with("ip", "10.0.0.2").with("endpoint", "/login")).await.is_ok());
}

/// K7: a rule by address before authentication, and by user after it; unauthenticated users share one counter.
#[tokio::test(flavor = "multi_thread")]
async fn public_paths_are_limited_by_address_and_others_by_user() {
    let redis = Redis::start();
    let agents = agents(&redis, 2).await;
    let call = |ip: &str, endpoint: &str| Call::new().with("ip", ip.to_owned()).with("endpoint", endpoint.to_owned());
    let decision = agents[0].decide(&call("10.0.0.1", "/login")).await;
    assert_eq!(&*decision.status.unwrap().rule, "login");
    for user in ["u1", "u2"] {
        let decision = agents[1].decide(&call("10.0.0.1", "/v1/orders").with("user", user)).await;
        let status = decision.status.unwrap();
        assert_eq!((&*status.rule, status.remaining), ("per-user", 2), "{user}");
    }
    for (agent, ip) in [(0, "10.0.0.2"), (1, "10.0.0.3"), (0, "10.0.0.4")] {
        assert!(agents[agent].check(&call(ip, "/v1/orders")).await.is_ok());
    }
    assert!(agents[1].check(&call("10.0.0.5", "/v1/orders")).await.is_err(), "anon is one user");
}

/// A2: a request that is retried at another agent is charged once.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_charged_once_by_all_agents() {
    let redis = Redis::start();
    let agents = agents(&redis, 2).await;
    let call = |id: &'static str| Call::new().with("user", "u").with("endpoint", "/v1/x").identified(id);
    for agent in [&agents[0], &agents[1], &agents[0]] {
        let decision = agent.decide(&call("r-1")).await;
        assert_eq!((decision.allowed, decision.status.unwrap().remaining), (true, 2));
    }
    assert_eq!(agents[1].decide(&call("r-2")).await.status.unwrap().remaining, 1);
}

/// A slot that one agent granted is released by another, by its token.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_can_be_released_at_any_agent() {
    let redis = Redis::start();
    let agents = agents(&redis, 2).await;
    let call = Call::new().with("user", "u").with("endpoint", "/export");
    let token = agents[0].check(&call).await.unwrap().permit.expect("a slot").into_token();
    let second = agents[1].check(&call).await.unwrap();
    assert!(agents[0].check(&call).await.is_err());
    agents[1].release(token.to_string().parse().unwrap()).await.unwrap();
    let third = until_admitted(&agents[0], &call).await;
    assert!(agents[1].check(&call).await.is_err());
    drop((second, third));
}

/// A permit that is dropped outside of tokio releases its slot in Redis, on the runtime of its agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_dropped_anywhere_frees_its_slot_for_the_fleet() {
    let redis = Redis::start();
    let agents = agents(&redis, 2).await;
    let call = Call::new().with("user", "u").with("endpoint", "/export");
    let (first, second) = (agents[0].check(&call).await.unwrap(), agents[1].check(&call).await.unwrap());
    assert!(agents[1].check(&call).await.is_err());
    std::thread::spawn(move || drop(first)).join().unwrap();
    let third = until_admitted(&agents[1], &call).await;
    assert!(agents[0].check(&call).await.is_err());
    drop((second, third));
}

/// A permit may outlive the runtime of its agent: its slot is then free after the window.
#[test]
fn a_permit_that_outlives_its_runtime_is_dropped_quietly() {
    let redis = Redis::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let call = Call::new().with("user", "u").with("endpoint", "/export");
    let (agent, admission) = runtime.block_on(async {
        let agent = agents(&redis, 1).await.remove(0);
        let admission = agent.check(&call).await.unwrap();
        (agent, admission)
    });
    assert!(admission.permit.is_some());
    drop(runtime);
    drop((admission, agent));
}

async fn until_admitted(agent: &Agent, call: &Call<'_>) -> Admission {
    let waited = Stopwatch::start();
    loop {
        if let Ok(admission) = agent.check(call).await {
            return admission;
        }
        assert!(waited.elapsed() < TIMEOUT, "a denial is repeated for 10 ms only");
        tokio::task::yield_now().await;
    }
}
