//! Redis Cluster: calls over several primaries, slots that move under load, and primaries that are lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, RedisCluster, wait_for};

use super::{Log, agent, source, wait_for_store};
use crate::support::{Up, file, tollgate};

/// Maximum time from the end of an election to the next decision of Redis.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Two rules that limit, and one in shadow; their counters lie on different primaries.
const RULES: &str = "
version: 1
rules:
  - { name: user, per: [user], quota: 40/1m, consistency: strict }
  - { name: route, per: [route], quota: 100000/1m }
  - { name: watched, per: [user, route], quota: 5/1m, shadow: true }
";

fn fleet_agent(redis: &str, node: &str, rules: &str) -> Up {
    let rules = file("rules.yaml", rules).display().to_string();
    Up::of(&mut tollgate(&["agent", "--http", "127.0.0.1:0", "--node", node, "--rules", &rules, "--redis", redis]))
}

/// Waits until the agent knows all primaries, and each decides.
fn wait_for_cluster(agent: &Up, primaries: usize) {
    wait_for("decisions of all primaries", || {
        let health = agent.client().get("/healthz", &[]).json();
        let nodes = health["redis"].as_array().map_or(0, Vec::len);
        let are_up = health["redis"].as_array().is_some_and(|nodes| nodes.iter().all(|node| node["connected"] == true));
        (nodes == primaries && are_up && health["status"] == "ok").then_some(())
    });
}

/// Checks a call of a user on a route; returns true if it is allowed, and its source.
fn check(agent: &Up, user: &str, route: &str, id: Option<&str>) -> (bool, String) {
    let mut body = serde_json::json!({ "descriptors": { "user": user, "route": route } });
    if let Some(id) = id {
        body["id"] = id.into();
    }
    let answer = agent.client().post(&body.to_string()).json();
    (answer["allowed"] == true, answer["source"].as_str().unwrap_or_default().to_owned())
}

/// B7, N11: three agents with two rules, one in shadow, and ids share quotas over three primaries, and admit exactly the quota.
#[test]
fn a_fleet_on_a_cluster_admits_the_quota() {
    let cluster = RedisCluster::start();
    let agents = ["a", "b", "c"].map(|node| fleet_agent(&cluster.url(), node, RULES));
    agents.iter().for_each(|agent| wait_for_cluster(agent, 3));
    for user in ["u1", "u2", "u3", "u4"] {
        let mut admitted = 0;
        for call in 0..90 {
            let id = format!("{user}-{call}");
            let id = (call % 3 == 0).then_some(&*id);
            let (allowed, source) = check(&agents[call % 3], user, &format!("r{}", call % 5), id);
            assert!(source == "store" || source == "local", "{source}");
            admitted += usize::from(allowed);
        }
        assert_eq!(admitted, 40, "{user}");
    }
    // A request with an id is charged once, whichever agents it comes through.
    for call in 0..100 {
        assert!(check(&agents[call % 3], "u5", "r1", Some("same")).0, "call {call}");
    }
}
