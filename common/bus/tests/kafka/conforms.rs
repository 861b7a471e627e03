//! The suite of every bus.

use tollgate_bus::conformance;

use crate::support::{broker, prepared, settings};

#[test]
fn it_is_a_bus() {
    let broker = broker();
    conformance::run(|partitions| prepared(&settings(&broker, partitions)));
}
