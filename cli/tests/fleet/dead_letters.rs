//! Undecodable records on the bus.

use std::time::Duration;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, LogWriter, Topic};

use crate::fleet::{Fleet, check};
use crate::support::wait_for;

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 50ms }]";
/// Field 8 of a batch of calls, empty: a counter without content.
const COUNTER: [u8; 2] = [8 << 3 | 2, 0];

/// exactly-counted: random bytes, an unknown version, a batch of a million counters: each becomes a dead letter with its
/// offset, and counting continues.
#[test]
fn an_undecodable_record_is_a_dead_letter_and_stops_nothing() {
    let fleet = Fleet::start("poison", RULES);
    let aggregator = fleet.aggregator("counting");
    let agent = fleet.agent("gw-1");
    aggregator.wait_until_ready();
    let mut client = agent.client();
    assert!((0..10).all(|_| check(&mut client, "before").allowed));

    // A producer that may send records larger than any agent does.
    let settings = vec![("message.max.bytes".to_owned(), "10000000".to_owned())];
    let bus =
        KafkaBus::new(KafkaSettings { settings, ..KafkaSettings::new(&fleet.kafka.brokers()) }).expect("settings");
    bus.prepare(Duration::from_secs(10)).expect("Kafka is there");
    let mut rng = fastrand::Rng::with_seed(7);
    let random: Vec<u8> = (0..500).map(|_| rng.u8(..)).collect();
    let unknown_version = vec![1 << 3, 99];
    let million = [&[1 << 3, 1][..], &COUNTER.repeat(1_000_000)].concat();
    let mut log = bus.writer(Topic::Calls);
    for partition in 0..bus.partitions(Topic::Calls) {
        for poison in [&random, &unknown_version, &million] {
            log.append(partition, poison.clone(), 0).expect("there is room");
        }
    }
    log.flush(Duration::from_secs(20));
    let reports = log.reports();
    let offsets: Vec<(u64, u64)> =
        reports.iter().map(|report| (u64::from(report.partition), report.offset.expect("it is in the log"))).collect();
    assert_eq!(offsets.len(), 24);

    wait_for("all of them to be counted", || {
        (aggregator.metric("tollgate_aggregator_poisoned_total") == 24).then_some(())
    });
    let listed = aggregator.get("/dead-letters");
    let letters = listed["poisoned"].as_array().expect("a list");
    for (partition, offset) in offsets {
        let letter = letters.iter().find(|letter| letter["partition"] == partition && letter["offset"] == offset);
        assert!(letter.is_some_and(|letter| !letter["reason"].as_str().unwrap_or_default().is_empty()), "{letters:?}");
    }
    assert!((0..20).all(|_| check(&mut client, "before").allowed));
    wait_for("what came after them", || {
        let counters = aggregator.get("/counters");
        (counters["counters"][0]["admitted"] == 30).then_some(())
    });
}
