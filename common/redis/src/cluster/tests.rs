//! A topology of an older epoch than the known one.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::clock::SystemClock;
use tollgate_core::counter::CLUSTER_SLOTS;

use super::*;

/// A cluster that was set up anew tells an older epoch than before. An agent follows it after ten seconds in which no node told
/// anything else, and a node that was cut off does not lead it back before.
#[test]
fn an_older_topology_is_followed_after_ten_seconds_without_a_newer_one() {
    let settings = RedisSettings::new("redis+cluster://127.0.0.1:1");
    let cluster = Cluster::new(&settings, Arc::new(SystemClock::start()), || Script::new("return 1"));
    let cluster = cluster.expect("an address");
    // Epoch that is told, and the instant in ms; the epoch that is known then.
    for (told, at_ms, known) in [
        (7, 0, 7),
        (3, 1_000, 7),
        (3, 10_999, 7),
        (7, 10_999, 7),
        (3, 12_000, 7),
        (3, 21_999, 7),
        (3, 22_000, 3),
        (4, 22_001, 4),
    ] {
        let owners = vec![None; CLUSTER_SLOTS.into()];
        let topology = Topology { epoch: told, shards: Vec::new(), owners };
        cluster.learn(topology, Duration::from_millis(at_ms));
        assert_eq!(cluster.topology.load().epoch, known, "{told} at {at_ms}");
    }
}
