//! Idempotent producer for all topics of a [`KafkaBus`](super::KafkaBus), and the delivery of each report to the writer that
//! sent the record.
//!
//! librdkafka sends on its own threads; this file enqueues records and polls librdkafka's events. Only one thread polls at
//! a time, because concurrent polls would reorder the reports of a partition. rdkafka's `ThreadedProducer` is not used,
//! because its thread is busy for almost a millisecond of every 100 ms. [`super::writer`] is the writer of one topic.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig};

use super::brokers::raw_partition;
use super::client_context::KafkaContext;
use super::errors::contradictory;
use super::unsent::{DeliveryTag, UnsentRecord};
use crate::{BusError, DeliveryReport};
use tollgate_core::clock::Stopwatch;

/// Maximum number of events per poll, so that polling a busy producer ends.
const EVENTS_MAX: usize = 1_000;
/// Time for the reports of a producer whose records are taken back.
const PURGE_WAIT: Duration = Duration::from_secs(1);
/// Pause between two polls of a flush.
const FLUSH_STEP: Duration = Duration::from_millis(1);

type Producer = BaseProducer<KafkaContext>;

/// Producer that is replaced after a fatal error, and when the access to the brokers changes.
pub(super) struct ProducerHandle {
    config: Mutex<ClientConfig>,
    pub(super) context: KafkaContext,
    producer: RwLock<Arc<Producer>>,
    polling: Mutex<()>,
}

impl ProducerHandle {
    pub(super) fn new(config: &ClientConfig, context: KafkaContext) -> Result<Self, BusError> {
        let producer = config.create_with_context(context.clone()).map_err(contradictory)?;
        let config = Mutex::new(config.clone());
        Ok(Self { config, context, producer: RwLock::new(Arc::new(producer)), polling: Mutex::default() })
    }

    /// Returns the present producer, also for metadata requests.
    pub(super) fn current(&self) -> Arc<Producer> {
        self.producer.read().clone()
    }

    /// Processes pending events without waiting.
    pub(super) fn poll(&self) {
        let Some(_guard) = self.polling.try_lock() else { return };
        let producer = self.current();
        for _ in 0..EVENTS_MAX {
            // The count contains the events, and a poll processes one of them.
            let before = producer.in_flight_count();
            producer.poll(Duration::ZERO);
            if producer.in_flight_count() == before {
                return;
            }
        }
    }

    /// Enqueues a record for the partition that its tag names. Without a payload, it deletes the record of the key.
    pub(super) fn send(
        &self,
        topic: &str,
        key: Option<&str>,
        payload: Option<&[u8]>,
        tag: DeliveryTag,
    ) -> Result<(), Code> {
        let partition = raw_partition(tag.partition);
        let record = BaseRecord::<str, [u8], _>::with_opaque_to(topic, Box::new(tag)).partition(partition);
        let record = BaseRecord { key, payload, ..record };
        let producer = self.current();
        let Err((error, _)) = producer.send(record) else { return Ok(()) };
        let code = code(&error);
        if code == Code::Fatal {
            self.replace(&producer);
        }
        Err(code)
    }

    /// Waits until all records are reported; returns false on a timeout.
    pub(super) fn flush(&self, wait: Duration) -> bool {
        let waited = Stopwatch::start();
        loop {
            self.poll();
            let is_done = self.current().in_flight_count() == 0;
            if is_done || waited.elapsed() >= wait {
                return is_done;
            }
            std::thread::sleep(FLUSH_STEP);
        }
    }

    /// Replaces the producer by one with another configuration. Records that the old one has not sent go to the new one.
    pub(super) fn renew(&self, config: &ClientConfig) -> Result<(), BusError> {
        let new: Arc<Producer> = Arc::new(config.create_with_context(self.context.clone()).map_err(contradictory)?);
        *self.config.lock() = config.clone();
        let _polling = self.polling.lock();
        let mut producer = self.producer.write();
        let old = std::mem::replace(&mut *producer, new.clone());
        let unsent = self.context.unsent();
        unsent.collect();
        old.purge(PurgeConfig::default().queue().inflight());
        let waited = Stopwatch::start();
        while old.in_flight_count() > 0 && waited.elapsed() < PURGE_WAIT {
            old.poll(FLUSH_STEP);
        }
        for record in unsent.take() {
            let UnsentRecord { topic, key, payload, tag } = record;
            let partition = raw_partition(tag.partition);
            let record = BaseRecord::<[u8], [u8], _>::with_opaque_to(&topic, tag).partition(partition);
            let record = BaseRecord { key: key.as_deref(), payload: payload.as_deref(), ..record };
            if let Err((_, record)) = new.send(record) {
                let DeliveryTag { queue, partition, tag } = *record.delivery_opaque;
                queue.push(DeliveryReport { partition, tag, offset: None });
            }
        }
        drop(producer);
        std::thread::spawn(move || drop(old));
        Ok(())
    }

    /// Replaces a producer after a fatal error: an idempotent producer that detects an unexplained gap in the log stops
    /// sending.
    fn replace(&self, broken: &Arc<Producer>) {
        let mut producer = self.producer.write();
        if !Arc::ptr_eq(&producer, broken) {
            return;
        }
        self.context.log_failure(
            "the producer failed; its queued records are lost, and a new producer replaces it",
            "all",
            Code::Fatal,
        );
        match self.config.lock().create_with_context(self.context.clone()) {
            Ok(new) => {
                let old = std::mem::replace(&mut *producer, Arc::new(new));
                drop(producer);
                // Dropping the producer waits for reports of its queued records, and writers must not wait.
                std::thread::spawn(move || drop(old));
            }
            Err(error) => tracing::error!(%error, "a new producer cannot be created; retried with the next record"),
        }
    }
}

impl ProducerContext for KafkaContext {
    type DeliveryOpaque = Box<DeliveryTag>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery_tag: Box<DeliveryTag>) {
        let offset = match result {
            Ok(message) => {
                self.record_accepted(message.topic());
                u64::try_from(message.offset()).ok()
            }
            Err((error, message)) if code(error) == Code::PurgeQueue && self.unsent().is_collecting() => {
                let (topic, key) = (message.topic().to_owned(), message.key().map(<[u8]>::to_vec));
                let payload = message.payload().map(<[u8]>::to_vec);
                self.unsent().add(UnsentRecord { topic, key, payload, tag: delivery_tag });
                return;
            }
            Err((error, message)) => {
                self.record_rejected(message.topic(), code(error));
                None
            }
        };
        let DeliveryTag { queue, partition, tag } = *delivery_tag;
        queue.push(DeliveryReport { partition, tag, offset });
    }
}

pub(super) fn code(error: &Native) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Fail)
}
