//! Completeness of the counts: the bus acknowledges, and the reader is near the end of the log.

use super::super::*;
use super::bus::{Node, TestBus, at, run};

/// A silent bus is no sign that nobody calls.
#[test]
fn counts_are_complete_while_the_bus_answers_and_the_reader_is_near_the_end() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    let counts_all = |node: &Node, ms| node.worker.counts_all(at(ms), 0);
    assert!(!counts_all(&node, 0), "it is not assigned");
    bus.append(0, 20);
    run(&mut [&mut node], &mut bus, 0, 60);
    assert!(counts_all(&node, 60) && counts_all(&node, 60_000), "nothing waits for the bus");
    assert!(!node.worker.counts_all(at(60), 1), "another partition");

    node.acknowledges = false;
    run(&mut [&mut node], &mut bus, 60, 900);
    let sent = bus.signals.iter().map(|(sent, _)| *sent).find(|sent| *sent > at(60)).expect("a heartbeat");
    assert!(node.worker.counts_all(sent.plus_ms(500), 0) && !node.worker.counts_all(sent.plus_ms(501), 0));
    for tag in 0..=bus.signals.len() as u64 {
        node.input(at(900), WorkerInput::Reported { tag, is_lost: false }, &mut bus);
    }
    assert!(counts_all(&node, 900), "all are acknowledged");

    (node.acknowledges, bus.loses) = (true, true);
    run(&mut [&mut node], &mut bus, 900, 1_200);
    assert!(!counts_all(&node, 1_200), "a heartbeat was lost");
    bus.loses = false;
    run(&mut [&mut node], &mut bus, 1_200, 1_500);
    assert!(counts_all(&node, 1_500), "the next one was not");

    bus.undelivered = 1_001;
    run(&mut [&mut node], &mut bus, 1_500, 7_500);
    assert!(!counts_all(&node, 7_500), "the reader is behind");
    bus.undelivered = 1_000;
    run(&mut [&mut node], &mut bus, 7_500, 13_500);
    assert!(counts_all(&node, 13_500), "it has nearly caught up");
}
