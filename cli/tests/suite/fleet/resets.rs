//! Reset of a caller in a fleet with Redis and Kafka.

use std::time::Duration;

use serde_json::json;
use tollgate_core::clock::Stopwatch;

use super::fleet_of_processes::{Fleet, Member};
use crate::support::{Answer, wait_for};

/// No call of the second rule can be settled, so its cached denials last for 10 s.
const RULES: &str = "
rules:
  - { name: tenant, per: [tenant], quota: 10000/h, deadline: 1s }
  - { name: per-key, per: [api_key], quota: 30/h, cost: 1, deadline: 1s }
";

/// Less than a cached denial lasts, so that only the reset can have ended it.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(8);

fn post(agent: &Member, path: &str, key: &str) -> Answer {
    let mut client = agent.client();
    client.send("POST", path, &[], &json!({ "descriptors": { "tenant": "t1", "api_key": key } }).to_string());
    client.receive()
}

fn is_admitted(agent: &Member, key: &str) -> bool {
    post(agent, "/check", key).status == 200
}

/// Calls at all agents in turn until each has denied one; returns the number of admitted calls.
fn exhaust(agents: &[Member], key: &str) -> usize {
    let (mut admitted, mut denials) = (0, 0);
    for agent in agents.iter().cycle().take(300) {
        let allowed = is_admitted(agent, key);
        (admitted, denials) = if allowed { (admitted + 1, 0) } else { (admitted, denials + 1) };
        if denials == agents.len() {
            return admitted;
        }
    }
    panic!("{admitted} calls were admitted")
}

/// A caller whom every agent denies by itself passes at each after its reset at one of them, and has one quota more. Others stay
/// denied. The aggregator counts anew and shows the instant; the log names the rule and the operator, and no key.
#[test]
fn a_reset_at_one_agent_passes_at_all() {
    let mut fleet = Fleet::start("resets", RULES);
    let mut agents = ["gw-1", "gw-2", "gw-3"].map(|node| fleet.agent(node));
    let aggregator = fleet.aggregator("agg-1");
    for agent in &agents {
        wait_for("the bus", || (agent.metric("tollgate_bus_connected") == 1).then_some(()));
    }
    assert_eq!((exhaust(&agents, "sk_caller"), exhaust(&agents, "sk_other")), (30, 30));
    wait_for("the charges of before", || {
        let shown = aggregator.get("/counters?rule=per-key");
        let counters = shown["counters"].as_array()?;
        (counters.len() == 2 && counters.iter().all(|counter| counter["admitted"] == 30)).then_some(())
    });
    let told = Stopwatch::start();
    let reset = post(&agents[0], "/reset", "sk_caller").json();
    assert_eq!(reset["agents"], "all agents of this region, within a second", "{reset}");
    assert_eq!(reset["rules"].as_array().map(Vec::len), Some(2));
    let mut admitted = 0;
    for agent in &agents {
        wait_for("the reset", || is_admitted(agent, "sk_caller").then_some(()));
        assert!(!is_admitted(agent, "sk_other"));
        admitted += 1;
    }
    assert!(told.elapsed() < FOLLOWED_WITHIN, "{:?}", told.elapsed());
    let counter_after_reset = || {
        let shown = aggregator.get("/counters?rule=per-key");
        shown["counters"].as_array()?.iter().find(|counter| counter["emptied_at_ms"].is_u64()).cloned()
    };
    wait_for("the reset in the log", counter_after_reset);
    let before = admitted;
    admitted += exhaust(&agents, "sk_caller");
    // The units of a lease that another agent held at the reset may be spent until it hears of it.
    assert!((30..=33).contains(&admitted), "{admitted} admitted");
    // A charge whose batch precedes that of the reset in the log is emptied with the others.
    let counts = (admitted - before) as u64..=admitted as u64;
    wait_for("the count", || counter_after_reset()?["admitted"].as_u64().filter(|units| counts.contains(units)));
    fleet.redis.kill();
    let failed = post(&agents[0], "/reset", "sk_caller");
    assert_eq!(failed.status, 503);
    assert!(
        failed.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.starts_with("Redis has not confirmed the reset under tenant, per-key: "))
    );
    let log = agents[0].stop();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("an operator has reset the caller")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for part in ["rule=\"per-key\"", "caller=api_key=sk_c…", "by=127.0.0.1", "gw-1"] {
        assert!(lines[1].contains(part), "{part} is missing: {}", lines[1]);
    }
    assert!(!log.contains("sk_caller"), "{log}");
}
