//! The example `redis_and_kafka` with real servers. Cargo builds examples with the tests of a package.

use std::path::PathBuf;
use std::process::Command;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, Topic};
use tollgate_servers::{Kafka, Redis};

#[test]
fn the_example_with_redis_and_kafka_counts_and_publishes() {
    let (redis, kafka) = (Redis::start(), Kafka::start());
    let target: PathBuf = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().into();
    let example = target.join("examples/redis_and_kafka");
    assert!(example.exists(), "{} is missing; build it with `cargo build -p tollgate --examples`", example.display());
    let run = Command::new(example).args([redis.url(), kafka.brokers()]).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.ends_with("admitted by the store\n"), "{run:?}");
    let bus = KafkaBus::new(KafkaSettings::new(&kafka.brokers())).unwrap();
    let published =
        (0..bus.partitions(Topic::Calls)).any(|partition| bus.next_offset(Topic::Calls, partition) > Some(0));
    assert!(published, "the call is in the log");
}
