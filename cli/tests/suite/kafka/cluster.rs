//! Three brokers, one of which dies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_servers::{KafkaCluster, free_port};

use super::{RULES, rows};
use crate::support::{Up, file, tollgate, wait_for};

/// Calls that are counted before a broker dies, and again while it is dead.
const CALLS: u64 = 2_000;

/// The first name of the list is that of a broker which does not run.
#[test]
fn counting_goes_on_and_is_exact_while_one_of_three_brokers_is_dead() {
    let mut cluster = KafkaCluster::start();
    let brokers = format!("127.0.0.1:{},{}", free_port(), cluster.brokers());
    let rules = file("cluster.yaml", RULES).display().to_string();
    let start = |command: &str| {
        let args =
            [command, "--http", "127.0.0.1:0", "--rules", &rules, "--kafka", &brokers, "--kafka-partitions", "3"];
        Up::of(&mut tollgate(&args))
    };
    let (aggregator, agent) = (start("aggregator"), start("agent"));
    for process in [&aggregator, &agent] {
        wait_for("readiness", || (process.client().get("/readyz", &[]).status == 200).then_some(()));
    }
    let node = cluster.node(1);
    let described = tollgate_servers::Kafka::run_in(
        node.folder(),
        &format!("kafka-topics.sh --bootstrap-server {} --describe --topic calls", node.brokers()),
    );
    assert!(described.contains("ReplicationFactor: 3"), "{described}");

    let (made, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = agent.client();
            while !is_over.load(Ordering::Relaxed) {
                let key = format!("k{}", made.fetch_add(1, Ordering::Relaxed) % 10);
                client.check(&key);
            }
        });
        wait_for("counts", || (rows(&aggregator) >= CALLS).then_some(()));
        cluster.node(0).kill();
        let goal = made.load(Ordering::Relaxed) + CALLS;
        wait_for("counts without one broker", || (rows(&aggregator) >= goal).then_some(()));
        is_over.store(true, Ordering::Relaxed);
    });
    let made = made.into_inner();
    wait_for("the counts of all calls", || (rows(&aggregator) >= made).then_some(()));
    let counters = aggregator.client().get("/counters?limit=100", &[]).json();
    let units = |name: &str| {
        let each = counters["counters"].as_array().expect("counters").iter();
        each.map(|counter| counter[name].as_u64().expect("units")).sum::<u64>()
    };
    assert_eq!(units("admitted") + units("denied"), made);
    assert_eq!(rows(&aggregator), made);
}
