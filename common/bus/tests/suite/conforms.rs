//! Conformance of the Kafka bus.

use tollgate_bus::conformance;
use tollgate_bus::kafka::TopicSet;

use crate::support::{broker, prepared, settings};

#[test]
fn the_kafka_bus_conforms() {
    let broker = broker();
    conformance::run(|partitions| prepared(&settings(&broker, partitions)));
    conformance::run_ledger(|| prepared(&settings(&broker, 1).carrying(TopicSet::Ledger)));
}
