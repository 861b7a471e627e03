//! Requests of several descriptors to two agents that share a real Redis, with leases, rules in shadow and in quota mode, ids and
//! negative hits.

use tollgate::{Decision, Source};
use tollgate_servers::{Redis, wait_for};

use super::*;

const RULES: &str = "defaults: { deadline: 5s }
rules:
  - { name: per-user, match: { domain: web }, per: [user], quota: 60/h, algorithm: fixed_window, consistency: strict, refunds: true }
  - { name: per-plan, match: { domain: web }, per: [plan], quota: 40/h, consistency: strict }
  - { name: tried, match: { domain: web }, per: [plan], quota: 1/h, shadow: true }
  - { name: large, match: { domain: web, model: large }, per: [], quota: 10/h, algorithm: fixed_window, charge: each, quota_mode: true }
  - { name: small, match: { domain: web, model: small }, per: [], quota: 20/h, algorithm: fixed_window, charge: each, quota_mode: true }
";

/// Starts an agent on Redis; returns it and its services.
fn agent(redis: &Redis, node: &str) -> (Agent, Router) {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let agent = Agent::builder().node(node).rules(rules).redis(&*redis.url()).start().unwrap();
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        wait_for("Redis", || runtime.block_on(agent.missing_parts()).is_empty().then_some(()));
    });
    (agent.clone(), crate::router(agent))
}

/// Asks the agents in turn with equal requests, and returns the number that passed.
async fn passed(routers: &[&Router; 2], requests: usize, asked: &RateLimitRequest) -> usize {
    let mut passed = 0;
    for number in 0..requests {
        let response = limit(routers[number % 2], asked).await.unwrap();
        passed += usize::from(response.overall_code() == Code::Ok);
    }
    passed
}

/// P1, never-over: over all agents, a request of two descriptors passes as often as the lesser quota allows, and a denied one takes
/// nothing from the other. Rules in shadow deny nothing.
#[tokio::test(flavor = "multi_thread")]
async fn two_agents_share_the_quotas_of_two_descriptors() {
    let redis = Redis::start();
    let ((first, one), (_, two)) = (agent(&redis, "one"), agent(&redis, "two"));
    let routers = [&one, &two];
    // Single calls of the same counters take leases, which requests of several descriptors neither spend nor waste.
    let single = request(vec![descriptor(&[("user", "u1")])]);
    assert_eq!(passed(&routers, 10, &single).await, 10);
    let both = request(vec![descriptor(&[("user", "u1")]), descriptor(&[("plan", "free")])]);
    assert_eq!(passed(&routers, 60, &both).await, 40, "the plan has 40");
    assert_eq!(passed(&routers, 40, &single).await, 10, "60 of the user less the 50 that passed");
    let rules = first.engine().metrics().rules();
    let tried = rules.iter().find(|(name, _)| &**name == "tried").unwrap();
    assert!(tried.1.shadow_denials.get() > 0, "the rule in shadow would have denied");
}

/// P1: over all agents, a request passes over one limit in quota mode while another one has room.
#[tokio::test(flavor = "multi_thread")]
async fn two_agents_share_limits_in_quota_mode() {
    let redis = Redis::start();
    let ((_, one), (_, two)) = (agent(&redis, "one"), agent(&redis, "two"));
    let both = request(vec![descriptor(&[("model", "large")]), descriptor(&[("model", "small")])]);
    assert_eq!(passed(&[&one, &two], 30, &both).await, 20);
    let large = request(vec![descriptor(&[("model", "large")])]);
    assert_eq!(passed(&[&one, &two], 2, &large).await, 0, "all its 10 are used up");
}

/// B8, A2: units that one agent gives back pass at the other, and a retry under an id is charged once beside them.
#[tokio::test(flavor = "multi_thread")]
async fn negative_hits_give_back_units_at_every_agent() {
    let redis = Redis::start();
    let ((first, one), (second, two)) = (agent(&redis, "one"), agent(&redis, "two"));
    let user = |hits: u64, is_negative_hits| {
        let user = descriptor(&[("user", "u1")]);
        request(vec![RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..user }])
    };
    let code = async |router, asked| limit(router, &asked).await.unwrap().overall_code();
    assert_eq!(code(&one, user(60, false)).await, Code::Ok);
    assert_eq!(code(&two, user(1, false)).await, Code::OverLimit);
    assert_eq!(code(&one, user(7, true)).await, Code::Ok);
    let call = tollgate::Call::new().with("domain", "web").with("user", "u1").identified("payment-1").costing(5);
    let decided: [Decision; 2] = [first.decide(&call).await, second.decide(&call).await];
    assert!(decided.iter().all(|decision| decision.allowed && decision.source == Source::Store));
    assert_eq!(code(&one, user(3, false)).await, Code::OverLimit, "2 are left, because the retry was charged once");
    assert_eq!(code(&two, user(2, false)).await, Code::Ok);
}

/// stand-alone: while Redis is down, descriptors are decided beside one with negative hits, whose units are not given back. A request
/// of negative hits alone learns that.
#[tokio::test(flavor = "multi_thread")]
async fn negative_hits_without_redis_fail_no_other_descriptor() {
    let redis = Redis::start();
    let (_, router) = agent(&redis, "one");
    drop(redis);
    let back = RateLimitDescriptor { is_negative_hits: true, ..descriptor(&[("user", "u1")]) };
    let mixed = request(vec![back.clone(), descriptor(&[("plan", "free")])]);
    let response = limit(&router, &mixed).await.unwrap();
    let shown = response.statuses.iter().map(|status| (status.code(), status.current_limit.is_some()));
    assert_eq!(shown.collect::<Vec<_>>(), [(Code::Ok, false), (Code::Ok, true)]);
    let (code, text) = limit(&router, &request(vec![back])).await.unwrap_err();
    assert_eq!(code, GrpcCode::Unavailable, "{text}");
    assert!(text.contains("did not confirm that units were given back"), "{text}");
}
