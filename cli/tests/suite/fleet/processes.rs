//! Each process of a fleet killed in turn, while calls go on.

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::wait_for;

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";
/// Calls to each living agent while a process is dead.
const CALLS: usize = 200;

/// N7: whichever one process is killed, the agents that live answer each call, and admit those within the quota.
#[test]
fn calls_are_answered_whichever_process_is_killed() {
    let mut fleet = Fleet::start("processes", RULES);
    let mut aggregators = ["a", "b"].map(|node| fleet.aggregator(node));
    aggregators.iter().for_each(Member::wait_until_ready);
    let mut agents = ["gw-1", "gw-2"].map(|node| fleet.agent(node));
    let answers = |agents: &[Member], killed: &str| {
        for (number, agent) in agents.iter().enumerate() {
            let mut client = agent.client();
            for call in 0..CALLS {
                let said = check(&mut client, &format!("{killed}-{number}-{call}"));
                assert!(said.allowed, "{killed} is dead, call {call}: {said:?}");
            }
        }
    };
    answers(&agents, "nobody");
    for (number, aggregator) in aggregators.iter_mut().enumerate() {
        aggregator.kill();
        answers(&agents, &format!("aggregator {number}"));
        aggregator.restart();
        aggregator.wait_until_ready();
    }
    agents[0].kill();
    answers(&agents[1..], "an agent");
    agents[0].restart();
    agents[0].wait_until_ready();
    fleet.kafka.kill();
    answers(&agents, "Kafka");
    fleet.kafka.restart();
    wait_for("Kafka", || agents.iter().all(|agent| agent.metric("tollgate_bus_connected") == 1).then_some(()));
    fleet.redis.kill();
    answers(&agents, "Redis");
    fleet.redis.restart();
    wait_for("Redis", || (check(&mut agents[0].client(), "afterwards").source == "store").then_some(()));
}
