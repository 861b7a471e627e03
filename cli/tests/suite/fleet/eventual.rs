//! Agents with Kafka and without Redis, whose rules are all under `consistency: eventual`.

use super::fleet_of_processes::{Fleet, Member, Said, check};
use crate::support::{Client, file, finish, tollgate, wait_for};

const RULES: &str =
    "rules: [{ name: per-key, per: [api_key], quota: 100/h, estimate: conservative, consistency: eventual }]";
const MORE: &str =
    "rules: [{ name: per-key, per: [api_key], quota: 200/h, estimate: conservative, consistency: eventual }]";
const STORED: &str = "rules: [{ name: per-key, per: [api_key], quota: 300/h, consistency: strict }]";
const NEEDS_REDIS: &str = "rule `per-key` needs the Redis that all agents share";

/// Returns the units that an agent believes to be free, by a call that costs more than the quota.
fn free_units(client: &mut Client) -> u64 {
    let call = r#"{"descriptors": {"api_key": "k"}, "cost": 1000}"#;
    client.post(call).json()["remaining"].as_u64().expect("remaining")
}

/// I5: one quota for both agents, by signals alone; rules that need a Redis never come into force. Without signals,
/// `on_failure` decides.
#[test]
fn agents_without_redis_share_a_quota_by_signals() {
    let mut fleet = Fleet::start("eventual", RULES);
    fleet.redis.kill();
    let aggregator = fleet.aggregator("counting");
    aggregator.wait_until_ready();
    let mut agents = ["gw-1", "gw-2"].map(|node| fleet.agent_without_redis(node));
    let mut clients = agents.each_ref().map(Member::client);
    for (agent, client) in agents.iter().zip(&mut clients) {
        wait_for("two agents", || (agent.get("/healthz")["agents"] == 2).then_some(()));
        wait_for("signals", || Some(check(client, "first")).filter(|said| said.source == "signal"));
    }
    let answer = clients[0].check("header");
    assert_eq!((answer.status, answer.find("x-ratelimit-policy")), (200, None), "it is no outage");

    // Free units are not divided: one agent has them all. On a busy machine, a batch counts twice from a signal that
    // contains it until Kafka's report on it has come.
    for _ in 0..90 {
        wait_for("a free unit", || check(&mut clients[0], "k").allowed.then_some(()));
    }
    wait_for("the signal of 90 units", || (free_units(&mut clients[1]) == 10).then_some(()));
    let passed = (0..60).filter(|_| check(&mut clients[1], "k").allowed).count();
    assert_eq!(passed, 10, "what the signal leaves free");
    wait_for("the signal of all units", || (free_units(&mut clients[0]) == 0).then_some(()));
    assert_eq!(check(&mut clients[0], "k"), Said { allowed: false, source: "signal".into(), remaining: 0 });

    // A reload.
    let path = fleet.rules.file_name().unwrap().to_str().unwrap().to_owned();
    file(&path, STORED);
    let log = agents[0].log().find(|line| line.contains("rules rejected"));
    assert!(log.is_some_and(|line| line.contains("stays in force")));
    let error = agents[0].get("/healthz")["rules_error"].to_string();
    assert!(error.contains(NEEDS_REDIS) && error.contains("write `consistency: eventual`"), "{error}");
    assert!(!check(&mut clients[0], "k").allowed, "those before stay in force");
    file(&path, MORE);
    wait_for("the new rules", || check(&mut clients[0], "k").allowed.then_some(()));

    for agent in &agents {
        let metrics = ["tollgate_degraded", "tollgate_unsynced_units", "tollgate_store_errors_total"];
        assert_eq!(metrics.map(|metric| agent.metric(metric)), [0; 3]);
    }
    fleet.kafka.kill();
    let mut call = 0;
    let said = wait_for("the end of the signals", || {
        call += 1;
        Some(check(&mut clients[1], &format!("later-{call}"))).filter(|said| said.source == "fallback")
    });
    assert!(said.allowed, "this agent's part of the quota is free");
    // The signals of another partition may be fresh for longer.
    wait_for("a degraded answer", || {
        (clients[1].check("later").find("x-ratelimit-policy") == Some("degraded")).then_some(())
    });
}

/// A rule that needs a Redis stops the start, before Kafka is asked for anything.
#[test]
fn an_agent_without_redis_refuses_other_rules_at_its_start() {
    let rules = file("eventual-refused.yaml", STORED);
    for command in ["agent", "up"] {
        let args = [command, "--kafka", "127.0.0.1:1", "--http", "127.0.0.1:0", "--rules", rules.to_str().unwrap()];
        let said = finish(&mut tollgate(&args));
        assert_eq!(said.exit, 2, "{command}: {}", said.err);
        assert!(said.err.contains(NEEDS_REDIS) && said.err.contains("--redis URL"), "{command}: {}", said.err);
    }
}
