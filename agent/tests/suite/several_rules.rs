//! Calls on which several rules count, of one and of three agents with one real Redis: leases deny no call that one
//! store without leases would admit.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate::{Agent, Call};
use tollgate_servers::{Redis, wait_for};

/// Calls that are in flight at once.
const IN_FLIGHT: usize = 16;

/// Rules that count together on each call, and a burst of calls.
struct Case {
    name: &'static str,
    rules: &'static str,
    calls: usize,
    users: usize,
    /// Calls that one store without leases admits.
    admitted: usize,
}

const CASES: [Case; 8] = [
    Case {
        name: "tenant and user",
        rules: "- { name: tenant, per: [tenant], quota: 1000/min }\n- { name: user, per: [user], quota: 100/min }",
        calls: 3_000,
        users: 40,
        admitted: 1_000,
    },
    Case {
        name: "minute and day",
        rules: "- { name: minute, per: [tenant], quota: 900/min }\n- { name: day, per: [tenant], quota: 1000/d }",
        calls: 1_200,
        users: 1,
        admitted: 900,
    },
    Case {
        name: "window and token bucket",
        rules: "- { name: window, per: [tenant], quota: 1000/min }\n\
                - { name: bucket, per: [tenant], quota: 10000/min, algorithm: token_bucket, burst: 10000 }",
        calls: 1_500,
        users: 1,
        admitted: 1_000,
    },
    Case {
        name: "window and log",
        rules: "- { name: window, per: [tenant], quota: 1000/min }\n\
                - { name: log, per: [user], quota: 100/min, algorithm: sliding_log }",
        calls: 1_500,
        users: 40,
        admitted: 1_000,
    },
    Case {
        name: "window and shadow",
        rules: "- { name: window, per: [tenant], quota: 1000/min }\n\
                - { name: shadow, per: [tenant], quota: 10/min, shadow: true }",
        calls: 1_500,
        users: 1,
        admitted: 1_000,
    },
    Case {
        name: "window and one without leases",
        rules: "- { name: window, per: [tenant], quota: 1000/min }\n\
                - { name: unleased, per: [user], quota: 100/min, leases: off }",
        calls: 1_500,
        users: 40,
        admitted: 1_000,
    },
    Case {
        name: "calls and tokens",
        rules: "- { name: calls, per: [tenant], quota: 1000/min }\n\
                - { name: tokens, per: [tenant], quota: 4500/min, cost: 5 }",
        calls: 1_500,
        users: 1,
        admitted: 900,
    },
    Case {
        name: "two windows of one caller",
        rules: "- { name: second, per: [tenant], quota: 2000/h }\n- { name: minute, per: [tenant], quota: 1000/min }",
        calls: 1_500,
        users: 1,
        admitted: 1_000,
    },
];

fn agent(redis: &Redis, case: &Case, number: usize) -> Agent {
    let rules = format!("defaults: {{ consistency: strict, deadline: 5s }}\nrules:\n{}", case.rules);
    let rules = tollgate_rules::from_yaml("rules.yaml", &rules, 1).expect("valid rules");
    let agent = Agent::builder().node(format!("agent-{number}")).rules(rules).redis(&*redis.url()).start();
    let agent = agent.expect("the agent starts");
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        wait_for("Redis", || runtime.block_on(agent.missing_parts()).is_empty().then_some(()));
    });
    agent
}

/// no-waste: at most 3% of the quota are not admitted, whatever rules a call has. When each counter leased for itself, most
/// leased units could not be spent: of 1,000 calls, 68 to 295 were admitted.
#[tokio::test(flavor = "multi_thread")]
async fn calls_under_several_rules_get_the_whole_quota() {
    for case in &CASES {
        for agents in [1, 3] {
            let redis = Redis::start();
            let agents: Vec<Agent> = (0..agents).map(|number| agent(&redis, case, number)).collect();
            let decide = |number: usize| {
                let user = format!("user-{}", number % case.users);
                let call = Call::new().with("tenant", "t").with("user", user);
                let agent = &agents[number % agents.len()];
                async move { agent.decide(&call).await.allowed }
            };
            let mut admitted = 0;
            for first in (0..case.calls).step_by(IN_FLIGHT) {
                let decided = join_all((first..case.calls.min(first + IN_FLIGHT)).map(decide)).await;
                admitted += decided.into_iter().filter(|allowed| *allowed).count();
            }
            let least = case.admitted - (case.admitted * 3 / 100).max(1);
            println!("{}, {} agents: {admitted} of {}", case.name, agents.len(), case.admitted);
            assert!((least..=case.admitted).contains(&admitted), "{}, {} agents: {admitted}", case.name, agents.len());
        }
    }
}

/// A caller under `100/min` and `1000/d` that stays within both is never denied. Leases of the day denied it after 76 calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_steady_caller_within_its_minute_keeps_its_day() {
    let rules = "- { name: minute, per: [tenant], quota: 100/min }\n- { name: day, per: [tenant], quota: 1000/d }";
    let case = Case { name: "steady", rules, calls: 100, users: 1, admitted: 100 };
    for agents in [1, 3] {
        let redis = Redis::start();
        let agents: Vec<Agent> = (0..agents).map(|number| agent(&redis, &case, number)).collect();
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        for number in 0..case.calls {
            interval.tick().await;
            let decision = agents[number % agents.len()].decide(&Call::new().with("tenant", "t")).await;
            assert!(decision.allowed, "call {number} of {} agents: {decision:?}", agents.len());
        }
    }
}
