//! Steps of the clock of a real Redis, which libfaketime answers for.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, wait_for};

const QUOTA: usize = 100;
const WIDTH: Duration = Duration::from_secs(6);
/// Width of a sub-window (half a second), and the patience of a busy machine.
const LATE: Duration = Duration::from_secs(2);

/// Agents that limit by this Redis, whose callers have no units left.
async fn full(redis: &Redis) -> [Agent; 2] {
    let agents = ["charging", "repeating"].map(|node| {
        let rule = Rule::per("per-key", &["api_key"], "100/6s".parse().unwrap()).strict();
        let rule = rule.with(|policy| policy.deadline = Duration::from_secs(5));
        Agent::builder().node(node).rule(rule).redis(&*redis.url()).start().expect("the agent starts")
    });
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        for agent in &agents {
            wait_for("Redis", || runtime.block_on(agent.missing_parts()).is_empty().then_some(()));
        }
    });
    for _ in 0..QUOTA {
        assert!(decide(&agents[0]).await.allowed);
    }
    for agent in &agents {
        assert!(!decide(agent).await.allowed);
    }
    agents
}

async fn decide(agent: &Agent) -> Decision {
    agent.decide(&Call::new().with("api_key", "k")).await
}

fn steps(agent: &Agent) -> u64 {
    agent.engine().metrics().store_clock_steps.get()
}

/// one-truth-of-time: after a step back by half a minute, by an hour, and after a glitch, every agent admits again, and
/// counts the steps. It admits once a window has passed since the units were admitted, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn every_agent_admits_again_within_a_window_of_a_step_back() {
    for (steps_ms, expected) in [(&[-30_150][..], 1), (&[-3_600_000], 1), (&[3_600_000, 0], 2)] {
        let redis = Redis::start_with_clock();
        let (charged, agents) = (Stopwatch::start(), full(&redis).await);
        let full = charged.elapsed();
        for offset_ms in steps_ms {
            redis.set_clock(*offset_ms);
            // Each step is seen by an answer before the next one.
            let seen = |agent: &Agent| steps(agent) > 0;
            if *offset_ms > 0 {
                while !agents.iter().all(seen) {
                    for agent in &agents {
                        let _ = decide(agent).await;
                    }
                }
            }
        }
        for agent in agents.iter().rev() {
            while !decide(agent).await.allowed {
                assert!(charged.elapsed() < full + 2 * WIDTH + LATE, "{steps_ms:?}: {} is locked out", agent.node());
            }
            let waited = charged.elapsed();
            println!(
                "{steps_ms:?}: {} admits {waited:?} after the first charge, {full:?} of it charging",
                agent.node()
            );
            if expected == 1 {
                assert!((WIDTH..full + WIDTH + LATE).contains(&waited), "{steps_ms:?}: after {waited:?}");
            }
            // A busy machine may have decided the call without the answer that tells the step.
            let asked = Stopwatch::start();
            while steps(agent) < expected && asked.elapsed() < LATE {
                let _ = decide(agent).await;
            }
            assert_eq!(steps(agent), expected, "{steps_ms:?} at {}", agent.node());
        }
    }
}

/// one-truth-of-time: a step forward takes no decision from the store, although requests expire by its clock. The
/// answer tells the new time, and each request is sent once more.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_step_forward_the_store_decides_every_call() {
    let redis = Redis::start_with_clock();
    let agents = full(&redis).await;
    redis.set_clock(3_600_000);
    for agent in &agents {
        let calls: Vec<_> = (0..20).map(|call| Call::new().with("api_key", format!("after {call}"))).collect();
        let decisions = join_all(calls.iter().map(|call| agent.decide(call))).await;
        let by_store = |decision: &&Decision| decision.allowed && decision.source == Source::Store;
        assert_eq!(decisions.iter().filter(by_store).count(), calls.len(), "{decisions:?}");
        let errors: Vec<_> = agent.engine().metrics().store_errors().filter(|(_, count)| *count > 0).collect();
        assert_eq!((steps(agent), errors), (1, vec![]));
    }
}
