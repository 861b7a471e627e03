//! Metrics of an agent whose servers fail in several ways, and the log line of each change.

use serde_json::Value;
use tollgate_bus::Topic;
use tollgate_servers::Redis;

use super::dead_letters::append;
use super::fleet_of_processes::{Fleet, Member, check};
use super::log;
use crate::support::wait_for;

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 50ms }]";
const LATE: &str = "tollgate_late_answers_total";
/// The log line of each change: its text, and its subject or remedy.
const LINES: [(&str, &str); 7] = [
    ("a record is a dead letter and changes nothing", "let only Tollgate write to this topic"),
    ("the store's clock stepped back by", "check the time service of the store's host"),
    ("signals decide, or each rule's on_failure", "check that it runs and is not overloaded, and the network to it"),
    ("the store answers again and decides", "gw-1"),
    ("so the size of the fleet stays as known last (1)", "check the network to the servers of this agent"),
    ("the size of the fleet (1) is followed again", "gw-1"),
    ("the connection to Kafka is lost", "start it or correct its address"),
];

fn wait_until(agent: &Member, gauge: &str, value: u64) {
    wait_for(gauge, || (agent.metric(gauge) == value).then_some(()));
}

/// Lets the first call of a caller miss its deadline at a suspended Redis.
fn miss(fleet: &Fleet, agent: &Member, caller: &str) {
    fleet.redis.pause();
    let said = check(&mut agent.client(), caller);
    assert_eq!((said.allowed, said.source.as_str()), (false, "fallback"), "a strict rule, and a store that is late");
}

/// H4, I8: dead letters, a step of Redis's clock, late and lost answers, units that Redis does not know, and a fleet
/// that cannot be followed: each moves its metric, which falls again if it is a state, and is one line in the log with
/// its node and a remedy.
#[test]
fn each_failure_moves_its_metric_and_is_one_line() {
    let mut fleet = Fleet::start_over(Redis::start_with_clock, "failure-metrics", RULES);
    let mut agent = fleet.agent_with("gw-1", &["--log-format", "json", "--agents-expected", "5"]);
    wait_until(&agent, "tollgate_bus_connected", 1);
    // It knows that it is alone.
    wait_until(&agent, "tollgate_agents_active", 1);
    assert_eq!(check(&mut agent.client(), "sk_a").source, "store");

    append(&log::bus(&fleet.kafka.brokers()), Topic::Signals, 0, &[vec![0xff; 16]]);
    wait_for("the dead letter", || {
        (agent.series("tollgate_dead_letters_total", "topic=\"signals\"") == 1).then_some(())
    });

    fleet.redis.set_clock(-30_000);
    wait_for("the step of the clock", || {
        let _ = check(&mut agent.client(), "sk_a");
        (agent.metric("tollgate_store_clock_steps_total") == 1).then_some(())
    });

    miss(&fleet, &agent, "sk_late");
    fleet.redis.resume();
    // By its time, Redis has charged nothing. If it did, the agent leases the units, or gives them back.
    let late = |outcome: &str| agent.series(LATE, &format!("outcome=\"{outcome}\""));
    wait_for("the late answer", || (late("not_charged") + late("leased") + late("refunded") == 1).then_some(()));
    miss(&fleet, &agent, "sk_lost");
    fleet.redis.kill();
    wait_for("the lost answer", || (late("lost") == 1).then_some(()));
    assert_eq!(agent.metric(LATE), 2);

    wait_until(&agent, "tollgate_degraded", 1);
    assert_eq!((agent.metric("tollgate_unsynced_units"), agent.metric("tollgate_fleet_frozen")), (0, 0));
    assert!((0..5).all(|_| check(&mut agent.client(), "sk_b").allowed));
    assert_eq!(agent.metric("tollgate_unsynced_units"), 5);
    fleet.kafka.kill();
    wait_until(&agent, "tollgate_fleet_frozen", 1);

    fleet.redis.restart();
    wait_until(&agent, "tollgate_degraded", 0);
    wait_until(&agent, "tollgate_unsynced_units", 0);
    wait_until(&agent, "tollgate_fleet_frozen", 0);
    assert_eq!(agent.metric("tollgate_agents_active"), 1);

    let log = agent.stop();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (text, remedy) in LINES {
        let told: Vec<_> = lines.iter().filter(|line| line.to_string().contains(text)).collect();
        assert_eq!(told.len(), 1, "{text}: {log}");
        assert!(told[0].to_string().contains(remedy), "{remedy}: {}", told[0]);
    }
    assert!(!log.contains("sk_"), "raw keys: {log}");
}
