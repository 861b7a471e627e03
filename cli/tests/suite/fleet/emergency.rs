//! The emergency switch in a fleet with Kafka.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, free_port};

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::{Answer, file, wait_for};

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s }
";
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

fn wait_until_all(agents: &[Member], value: u64) {
    for agent in agents {
        wait_for("the switch", || (agent.metric("tollgate_emergency") == value).then_some(()));
    }
}

fn switch(agent: &Member, body: &str) -> Answer {
    let mut client = agent.client();
    client.send("POST", "/emergency", &[], body);
    client.receive()
}

/// I5: a switch at one agent reaches all agents over Kafka, also one that was killed and restarted, and holds without Redis.
#[test]
fn the_emergency_switch_reaches_all_agents() {
    let mut fleet = Fleet::start("emergency", RULES);
    let mut agents = ["gw-1", "gw-2", "gw-3"].map(|node| fleet.agent(node));
    for agent in &agents {
        wait_for("the bus", || (agent.metric("tollgate_bus_connected") == 1).then_some(()));
    }
    let told = Stopwatch::start();
    let answer = switch(&agents[0], r#"{"on": true, "quota": "10/h"}"#);
    assert_eq!((answer.status, answer.json()["agents"].as_str()), (200, Some("all agents, within a few seconds")));
    wait_until_all(&agents, 1);
    assert!(told.elapsed() < FOLLOWED_WITHIN, "{:?}", told.elapsed());

    fleet.redis.kill();
    agents[1].kill();
    agents[1].restart();
    wait_until_all(&agents, 1);
    for agent in &agents {
        let mut client = agent.client();
        let admitted = (0..12).filter(|_| check(&mut client, "sk_a").allowed).count();
        assert_eq!(admitted, 10, "at each agent");
    }

    fleet.redis.restart();
    assert_eq!(switch(&agents[2], r#"{"on": false}"#).status, 200);
    wait_until_all(&agents, 0);
    for agent in &agents {
        let mut client = agent.client();
        wait_for("the rules", || (check(&mut client, "sk_a").source == "store").then_some(()));
    }
    let log = agents[0].stop();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let lines = (count("the emergency switch is on: each caller may make 10/h"), count("the emergency switch is off"));
    assert_eq!(lines, (1, 1), "one line per change: {log}");
}

/// I5: without Kafka, an agent with a state directory that was killed while the switch was on has it on after its
/// restart, also without Redis, and off after it was switched off.
#[test]
fn the_emergency_switch_is_on_after_a_restart_without_kafka() {
    let mut redis = Redis::start();
    let rules = file("emergency-state.yaml", RULES);
    let state = rules.with_file_name("emergency-state");
    std::fs::remove_dir_all(&state).ok();
    let (url, http) = (redis.url(), format!("127.0.0.1:{}", free_port()));
    let (rules, folder) = (rules.display().to_string(), state.display().to_string());
    let args = ["agent", "--redis", &url, "--rules", &rules, "--http", &http, "--state-dir", &folder];
    let mut agent = Member::start(args.map(str::to_owned).to_vec());
    agent.wait_until_ready();
    let saved = |text: &str| {
        wait_for("the saved change", || {
            std::fs::read_to_string(state.join("agent.json")).ok().filter(|saved| saved.contains(text))
        })
    };

    let answer = switch(&agent, r#"{"on": true, "quota": "10/h"}"#);
    let told = "this agent only, because it has no bus; send the request to each agent";
    assert_eq!((answer.status, answer.json()["agents"].as_str()), (200, Some(told)));
    saved("3600000");
    redis.kill();
    agent.kill();
    agent.restart();
    assert_eq!(agent.metric("tollgate_emergency"), 1, "from the first moment on");
    let mut client = agent.client();
    let admitted = (0..12).filter(|_| check(&mut client, "sk_a").allowed).count();
    assert_eq!(admitted, 10);

    assert_eq!(switch(&agent, r#"{"on": false}"#).status, 200);
    saved("null");
    redis.restart();
    agent.kill();
    agent.restart();
    agent.wait_until_ready();
    assert_eq!(agent.metric("tollgate_emergency"), 0);
    assert_eq!(check(&mut agent.client(), "sk_a").source, "store");
}
