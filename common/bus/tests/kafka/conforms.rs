//! Conformance of the Kafka bus.

use tollgate_bus::conformance;

use crate::support::{broker, prepared, settings};

#[test]
fn the_kafka_bus_conforms() {
    let broker = broker();
    conformance::run(|partitions| prepared(&settings(&broker, partitions)));
}
