//! One broker for all tests that do it no harm, topics of their own for each, and hands to alter them.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use tollgate_bus::kafka::{Kafka, KafkaSettings};
use tollgate_bus::{Delivered, Log, Reader, Report};
use tollgate_servers::{Kafka as Broker, wait_for};

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The broker that tests share; it ends with the last of them.
pub(crate) fn broker() -> Arc<Broker> {
    static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let broker = Arc::new(Broker::start());
        *shared = Arc::downgrade(&broker);
        broker
    })
}

/// Settings with topics that nobody else has.
pub(crate) fn settings(broker: &Broker, partitions: u32) -> KafkaSettings {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let topic_prefix = format!("test{}.", NEXT.fetch_add(1, Ordering::Relaxed));
    KafkaSettings { partitions, topic_prefix, ..KafkaSettings::new(&broker.brokers()) }
}

pub(crate) fn with(settings: &KafkaSettings, more: &[(&str, &str)]) -> KafkaSettings {
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    KafkaSettings { settings: more.collect(), ..settings.clone() }
}

/// A bus whose topics are there.
pub(crate) fn prepared(settings: &KafkaSettings) -> Kafka {
    let bus = Kafka::new(settings.clone()).expect("the settings can be used");
    bus.prepare(PATIENCE).expect("the topics are right");
    bus
}

pub(crate) fn admin(broker: &Broker) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.brokers()).set("allow.auto.create.topics", "false");
    config.create().expect("an admin client")
}

/// Waits until the broker tells clients what its controller has decided: that a topic has so many partitions.
pub(crate) fn wait_until_it_has(broker: &Broker, topic: &str, partitions: usize) {
    let admin = admin(broker);
    wait_for(&format!("{topic} with {partitions} partitions"), || {
        let told = admin.inner().fetch_metadata(Some(topic), PATIENCE).expect("the broker answers");
        (told.topics()[0].partitions().len() == partitions).then_some(())
    });
}

pub(crate) fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

/// Waits for an answer that comes on another thread.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        std::thread::yield_now();
    }
}

pub(crate) fn read<R: Reader>(reader: &mut R, records: usize) -> Vec<Delivered> {
    let mut all = Vec::new();
    while all.len() < records {
        let some = reader.poll(PATIENCE, records - all.len());
        assert!(!some.is_empty(), "{} of {records} records came", all.len());
        all.extend(some);
    }
    all
}

/// Hands records over that say their number.
pub(crate) fn append<L: Log>(log: &mut L, numbers: std::ops::Range<u8>) {
    for number in numbers {
        log.append(0, vec![number], number.into()).expect("there is room");
    }
}

pub(crate) fn reports<L: Log>(log: &mut L) -> Vec<Report> {
    log.flush(PATIENCE);
    log.reports()
}

pub(crate) fn numbers(records: &[Delivered]) -> Vec<u8> {
    records.iter().map(|record| record.payload[0]).collect()
}
