//! Alerts of a running fleet whose servers and processes fail in turn.

use super::watched_fleet::{BUSY, WatchedFleet};
use crate::support::wait_for;

/// Alerts of the faults that follow. Others may fire on a busy machine, and because the busy key is denied.
const FAULTS: [&str; 5] =
    ["TollgateClockStep", "TollgateClocksApart", "TollgateFailOpen", "TollgateCountersLost", "TollgateDown"];

/// L4 to L7: a hot key, a clock that is set, a Redis that is killed and loses its data, and a process that is killed fire
/// their alerts in a real Prometheus, each with the node or the rule. Before, none of them fires.
#[test]
fn l4_to_l7_faults_of_a_running_fleet_fire_their_alerts() {
    let mut watched = WatchedFleet::start("watched-outages");
    let agents = watched.agent_names();
    let aggregator = watched.aggregator.address().to_string();
    watched.during_traffic(|watched| {
        wait_for("all processes to be read", || (watched.samples("up == 1").len() == 3).then_some(()));

        let hot = watched.wait_for_alert("TollgateHotKey", "hot-key");
        assert!(agents.iter().any(|agent| hot.description.contains(agent)), "{hot:?}");
        // The command of the alert names the key.
        let counters = watched.aggregator.get("/counters?rule=hot-key&limit=5");
        let label = counters["counters"][0]["label"].as_str().unwrap_or_else(|| panic!("a label: {counters}"));
        assert!(label.contains(&BUSY[..4]), "{label}");
        let early: Vec<_> = watched.firing().into_iter().filter(|alert| FAULTS.contains(&&*alert.name)).collect();
        assert!(early.is_empty(), "{early:?}");

        watched.fleet.redis.set_clock(5_000);
        for agent in &agents {
            watched.wait_for_alert("TollgateClockStep", agent);
        }
        watched.wait_for_alert("TollgateClocksApart", &aggregator);
        // The page that the alert names.
        assert!(watched.aggregator.get("/api/v1/agents")["agents"][0]["clock_offset_ms"].is_i64());
        watched.fleet.redis.set_clock(0);

        watched.fleet.redis.kill();
        for agent in &agents {
            let alert = watched.wait_for_alert("TollgateFailOpen", agent);
            assert!(alert.description.contains(agent) && alert.description.contains("Rule per-key: "), "{alert:?}");
        }
        watched.fleet.redis.restart();
        watched.wait_for_end("TollgateFailOpen");
        for agent in &agents {
            watched.wait_for_alert("TollgateCountersLost", agent);
        }

        watched.aggregator.kill();
        watched.wait_for_alert("TollgateDown", &aggregator);
        watched.aggregator.restart();
        watched.wait_for_end("TollgateDown");
    });
}
