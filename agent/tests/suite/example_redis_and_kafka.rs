//! The example `redis_and_kafka` with real servers.

use std::time::Duration;

use tollgate::Source;
use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, Topic};
use tollgate_servers::{Kafka, Redis, wait_for};

#[path = "../../examples/redis_and_kafka.rs"]
#[expect(dead_code, reason = "the test calls the rest of the example, without its `main`")]
mod example;

/// The example ends a moment after its start; its call must be in the log all the same.
#[tokio::test]
async fn the_example_with_redis_and_kafka_counts_and_publishes() {
    let (redis, kafka) = (Redis::start(), Kafka::start());
    assert_eq!(example::check_once(&redis.url(), &kafka.brokers()).await.unwrap(), Source::Store);
    let bus = KafkaBus::new(KafkaSettings::new(&kafka.brokers())).unwrap();
    bus.prepare(Duration::from_secs(10)).unwrap();
    let end = |partition| wait_for("the end of the log", || bus.next_offset(Topic::Calls, partition));
    assert!((0..bus.partitions(Topic::Calls)).any(|partition| end(partition) > 0), "the call is in the log");
}
