//! Tests of checks, settlements and releases by an agent without servers.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::decision::Source;
use tollgate_core::rules::Rule;

use super::*;
use crate::request::Request;

fn agent(rule: Rule) -> Agent {
    Agent::builder().rule(rule).start().unwrap()
}

fn strict(quota: &str) -> Rule {
    Rule::per("per-key", &["api_key"], quota.parse().unwrap()).strict()
}

#[test]
fn an_agent_does_not_start_without_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let started = Agent::builder().rule(strict("1/min")).start();
    assert!(matches!(started, Err(StartError::NoTimers)));
}

/// J2: the floor of a global rule and its counters may lie on several servers.
#[cfg(feature = "redis")]
#[tokio::test]
async fn an_agent_over_several_slots_refuses_global_rules() {
    let start = |slots| {
        let mut rules = tollgate_core::rules::RuleSet::new(1, [strict("100/min").global()]);
        rules.regions = vec![tollgate_core::regions::RegionFloorRatio { region: "eu".into(), floor_ppm: 0 }];
        let redis = crate::store::RedisSettings::new("redis://127.0.0.1:1").with_slots(slots);
        Agent::builder().region("eu").rules(rules).redis(redis).start().err()
    };
    let refused = start(crate::store::HashSlots::Multi);
    assert!(matches!(refused, Some(StartError::Unenforceable(crate::Unenforceable::NeedsOneServer(_)))), "{refused:?}");
    assert!(start(crate::store::HashSlots::Together).is_none());
}

/// capped: a cap that is none is refused at the start.
#[tokio::test]
async fn an_agent_does_not_start_with_a_cap_outside_its_range() {
    let refused = |builder: crate::Builder| match builder.rule(strict("1/min")).start() {
        Err(error @ StartError::Cap { .. }) => error.to_string(),
        started => panic!("{:?}", started.err()),
    };
    for bytes in [0, 65_535, 4_294_967_297, usize::MAX] {
        let expected = format!("`sketch_bytes` cannot be {bytes}: give a number from 65536 to 4294967296");
        assert_eq!(refused(Agent::builder().sketch_bytes(bytes)), expected);
    }
    for counters in [0, 1_000_000_001, usize::MAX] {
        let expected = format!("`counters_max` cannot be {counters}: give a number from 1 to 1000000000");
        assert_eq!(refused(Agent::builder().counters_max(counters)), expected);
    }
    assert!(Agent::builder().sketch_bytes(65_536).counters_max(1).rule(strict("1/min")).start().is_ok());
}

/// B4: a thousand concurrent calls for the last unit, one passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_unit_goes_to_one_of_a_thousand() {
    let agent = agent(strict("1/min"));
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.check(&Call::new().with("api_key", "k")).await.is_ok() })
        })
        .collect();
    let mut passed = 0;
    for call in calls {
        passed += u32::from(call.await.unwrap());
    }
    assert_eq!(passed, 1);
}

/// B8: settle 5 after an answer: remaining falls by 5; a rule with a fixed cost is not concerned.
#[tokio::test]
async fn the_real_cost_of_a_call_is_charged_afterwards() {
    let mut fixed = Rule::per("fixed", &["api_key"], "50/min".parse().unwrap());
    fixed.cost = Some(2);
    let agent = Agent::builder().rule(strict("100/min")).rule(fixed).start().unwrap();
    let call = Call::new().with("api_key", "k");
    let decision = agent.check(&call).await.unwrap().decision;
    let settled = agent.settle(&call, 5, None).await.unwrap().unwrap();
    assert_eq!((&*settled.rule, settled.remaining), ("per-key", 94));
    let back = agent.settle(&call, -4, Some(&decision)).await.unwrap().unwrap();
    assert_eq!(back.remaining, 95, "no more than it was charged");
    let again = agent.settle(&call, -1, Some(&decision)).await.unwrap().unwrap();
    assert_eq!(again.remaining, 95, "once");
    assert!(agent.settle(&call, -1, None).await.unwrap().is_none(), "nothing is refunded without the decision");
    assert_eq!(
        agent.check(&call.clone().costing(0)).await.unwrap().decision.status.unwrap().remaining,
        95,
        "nothing is charged"
    );
}

/// A call that has ended makes room at once, also for callers that were just denied: its permit was dropped, or its token
/// was released.
#[tokio::test]
async fn the_slot_of_a_call_that_ends_is_free() {
    let agent = agent(strict("2/30s").counted_by(Algorithm::Concurrency));
    let call = Call::new().with("api_key", "k");
    let first = agent.check(&call).await.unwrap();
    let second = agent.check(&call).await.unwrap().permit.expect("a slot").into_token();
    assert!(agent.check(&call).await.is_err());
    drop(first);
    let third = agent.check(&call).await.unwrap();
    assert!(agent.check(&call).await.is_err());
    agent.release(second.to_string().parse().unwrap()).await.unwrap();
    let fourth = agent.try_check(&call).unwrap().unwrap();
    assert!(agent.check(&call).await.is_err());
    drop((third, fourth));
}

/// A check that never waits is in the metrics as any other one, whether its caller is known or not.
#[cfg(feature = "metrics")]
#[tokio::test]
async fn a_check_that_never_waits_is_counted() {
    let agent = agent(strict("2/min"));
    let call = Call::new().with("api_key", "k");
    let admitted = [(); 3].map(|()| agent.try_check(&call).unwrap().is_ok());
    assert_eq!(admitted, [true, true, false]);
    let metrics = agent.metrics();
    let count = metrics.lines().find(|line| line.contains("check_duration_seconds_count"));
    assert!(count.is_some_and(|count| count.ends_with(" 3")), "{count:?}");
}

/// A permit needs no runtime: it may outlive its own, and be dropped on any thread.
#[test]
fn a_permit_is_dropped_outside_of_tokio() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let inside = runtime.enter();
    let agent = agent(strict("1/30s").counted_by(Algorithm::Concurrency));
    drop(inside);
    let call = Call::new().with("api_key", "k");
    let admission = agent.try_check(&call).unwrap().unwrap();
    assert!(agent.try_check(&call).unwrap().is_err());
    std::thread::spawn(move || drop(admission)).join().unwrap();
    let admission = agent.try_check(&call).unwrap().unwrap();
    drop(runtime);
    drop(admission);
    assert!(agent.try_check(&call).unwrap().is_ok());
}

/// Other algorithms count what has begun, which ends by itself.
#[tokio::test]
async fn a_call_without_slots_has_no_permit() {
    assert!(agent(strict("2/min")).check(&Call::new().with("api_key", "k")).await.unwrap().permit.is_none());
}

/// A2: the same request id sent twice is charged once, and passes again even when nothing is left.
#[tokio::test]
async fn a_request_that_is_retried_is_charged_once() {
    let agent = agent(strict("2/min"));
    let call = |id: &'static str| Call::new().with("api_key", "k").identified(id);
    assert_eq!(agent.check(&call("a")).await.unwrap().decision.status.unwrap().remaining, 1);
    assert_eq!(agent.check(&call("a")).await.unwrap().decision.status.unwrap().remaining, 1);
    assert!(agent.check(&call("b")).await.is_ok());
    assert!(agent.check(&call("c")).await.is_err());
    assert!(agent.check(&call("a")).await.is_ok(), "it had passed");
    assert!(agent.check(&call("c")).await.is_err(), "it had not");
}

/// C8: a denial is repeated without the store.
#[tokio::test]
async fn a_denied_caller_is_denied_without_asking_again() {
    let agent = agent(strict("1/min"));
    let call = Call::new().with("api_key", "k");
    let admission = agent.check(&call).await.unwrap();
    let denials = [agent.check(&call).await.unwrap_err(), agent.check(&call).await.unwrap_err()];
    assert_eq!(admission.decision.source, Source::Store);
    assert_eq!(denials.map(|denial| denial.decision.source), [Source::Store, Source::Local]);
}

#[tokio::test]
async fn a_call_that_no_rule_limits_passes() {
    let agent = agent(strict("1/min"));
    let admission = agent.check(&Call::new().with("ip", "10.0.0.1")).await.unwrap();
    assert!(admission.decision.status.is_none());
}

#[tokio::test]
async fn an_agent_without_rules_does_not_start() {
    assert!(matches!(Agent::builder().start(), Err(StartError::NoRules)));
}

#[test]
fn a_start_outside_of_tokio_is_an_error() {
    let error = Agent::builder().rule(strict("1/min")).start().err().expect("an error").to_string();
    assert!(error.contains("call `start` inside one"), "{error}");
}

/// A rule in Rust is checked as one in a file.
#[tokio::test]
async fn an_agent_does_not_start_with_rules_that_no_store_can_enforce() {
    let log = strict("1000000/min").counted_by(Algorithm::SlidingLog);
    let error = Agent::builder().rule(log).start().err().expect("an error").to_string();
    assert!(error.starts_with("rule `per-key` cannot be enforced: a `sliding_log` keeps every call"), "{error}");
    let error = Agent::builder().rule(strict("1/min")).rule(strict("2/min")).start().err().expect("an error");
    assert_eq!(error.to_string(), "two rules have the name `per-key`; give each rule a name of its own");
}

#[tokio::test]
async fn a_rule_applies_to_the_calls_that_it_matches() {
    let agent = agent(strict("1/min").matching("endpoint", "/v?/search*"));
    let call = |endpoint: &'static str| Call::new().with("api_key", "k").with("endpoint", endpoint);
    assert!(agent.check(&call("/v1/search/a")).await.is_ok());
    assert!(agent.check(&call("/v2/search")).await.is_err());
    assert!(agent.check(&call("/search")).await.is_ok() && agent.check(&call("/search")).await.is_ok());
}

/// Regression: rules in Rust declared no descriptors, so that a request became an empty call, which nothing limits.
#[tokio::test]
async fn a_request_is_limited_by_rules_in_rust() {
    let agent = agent(strict("1/min"));
    let headers = [(http::HeaderName::from_static("x-api-key"), "k".parse().unwrap())].into_iter().collect();
    let call = agent.describe(&Request { method: "GET", path: "/users/17", peer: None, headers: &headers });
    assert_eq!((call.get("api_key"), call.get("endpoint")), (Some("k"), Some("/users/{id}")));
    assert!(agent.check(&call).await.is_ok());
    assert_eq!(agent.check(&call).await.unwrap_err().rule(), "per-key");
}

/// Admissions that leave less than a fifth are counted by the rule that is shown, whether the call has one rule or several; questions
/// and denials are not.
#[tokio::test]
async fn admissions_near_a_limit_are_counted() {
    let wide = Rule::per("wide", &["api_key"], "100/min".parse().unwrap()).strict();
    let tried = Rule::per("tried", &["api_key"], "1/min".parse().unwrap()).in_shadow();
    for others in [vec![], vec![wide, tried]] {
        let builder = others.into_iter().fold(Agent::builder().rule(strict("10/min")), crate::Builder::rule);
        let agent = builder.start().unwrap();
        let call = Call::new().with("api_key", "k");
        for _ in 0..12 {
            let _ = agent.check(&call).await;
        }
        let _ = agent.check(&call.clone().costing(0)).await;
        let rules = agent.engine().metrics().rules();
        let near: Vec<_> = rules.iter().map(|(_, counts)| counts.near_limit()).filter(|count| *count > 0).collect();
        assert_eq!(near, [2], "the last two of ten");
    }
}
