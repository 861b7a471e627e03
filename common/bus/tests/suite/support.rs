//! Support: one broker shared by all tests that do not damage it, separate topics for each test, and administration.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, BusRecord, DeliveryReport, LogReader, LogWriter};
use tollgate_servers::{Kafka as Broker, wait_for};

pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Returns the shared broker; it stops with the last test that uses it.
pub(crate) fn broker() -> Arc<Broker> {
    static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let broker = Arc::new(Broker::start());
        *shared = Arc::downgrade(&broker);
        broker
    })
}

/// Returns settings with topic names that no other test uses.
pub(crate) fn settings(broker: &Broker, partitions: u32) -> KafkaSettings {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let topic_prefix = format!("test{}.", NEXT.fetch_add(1, Ordering::Relaxed));
    KafkaSettings::new(&broker.brokers()).partitioned(partitions).prefixed(topic_prefix)
}

pub(crate) fn with(settings: &KafkaSettings, more: &[(&str, &str)]) -> KafkaSettings {
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    settings.clone().with(more)
}

pub(crate) fn prepared(settings: &KafkaSettings) -> KafkaBus {
    let bus = KafkaBus::new(settings.clone()).expect("the settings are valid");
    bus.prepare(TIMEOUT).expect("the topics are as required");
    bus
}

pub(crate) fn admin(broker: &Broker) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.brokers()).set("allow.auto.create.topics", "false");
    config.create().expect("an admin client")
}

/// Waits until the broker reports the number of partitions that its controller has decided.
pub(crate) fn wait_until_it_has(broker: &Broker, topic: &str, partitions: usize) {
    let admin = admin(broker);
    wait_for(&format!("{topic} with {partitions} partitions"), || {
        let metadata = admin.inner().fetch_metadata(Some(topic), TIMEOUT).expect("the broker answers");
        (metadata.topics()[0].partitions().len() == partitions).then_some(())
    });
}

pub(crate) fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT))
}

/// Blocks on a future that another thread completes.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        std::thread::yield_now();
    }
}

pub(crate) fn read<R: LogReader>(reader: &mut R, records: usize) -> Vec<BusRecord> {
    let mut all = Vec::new();
    while all.len() < records {
        let some = reader.poll(TIMEOUT, records - all.len());
        assert!(!some.is_empty(), "{} of {records} records arrived", all.len());
        all.extend(some);
    }
    all
}

/// Appends one record per number, with the number as its payload and tag.
pub(crate) fn append<L: LogWriter>(log: &mut L, numbers: std::ops::Range<u8>) {
    for number in numbers {
        log.append(0, vec![number], number.into()).expect("the queue has room");
    }
}

pub(crate) fn reports<L: LogWriter>(log: &mut L) -> Vec<DeliveryReport> {
    log.flush(TIMEOUT);
    log.reports()
}

pub(crate) fn numbers(records: &[BusRecord]) -> Vec<u8> {
    records.iter().map(|record| record.payload[0]).collect()
}
