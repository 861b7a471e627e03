//! Idempotent producer for all topics of a [`KafkaBus`](super::KafkaBus), and the delivery of each report to the writer that
//! sent the record.
//!
//! librdkafka sends on its own threads; this file enqueues records and polls librdkafka's events. Only one thread polls at
//! a time, because concurrent polls would reorder the reports of a partition. [`super::writer`] is the writer of one topic.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, ProducerContext};

use super::client_context::KafkaContext;
use super::{KafkaError, settings};
use crate::DeliveryReport;
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::Partition;

/// Maximum number of reports that a writer has not fetched. Older ones are dropped; their records then count as
/// unreported.
const REPORTS_LEN_MAX: usize = 200_000;
/// Maximum number of events per poll, so that polling a busy producer ends.
const EVENTS_MAX: usize = 1_000;
/// Duration of one poll during a flush.
const FLUSH_STEP: Duration = Duration::from_millis(1);

type Producer = BaseProducer<KafkaContext>;

/// Producer that is replaced after a fatal error.
pub(super) struct ProducerHandle {
    config: ClientConfig,
    context: KafkaContext,
    producer: RwLock<Arc<Producer>>,
    polling: Mutex<()>,
}

/// Delivery reports of one writer.
#[derive(Default)]
pub(super) struct ReportQueue {
    reports: Mutex<VecDeque<DeliveryReport>>,
    outstanding: AtomicUsize,
}

/// Data that librdkafka returns with a record's delivery report.
pub(super) struct DeliveryTag {
    queue: Arc<ReportQueue>,
    partition: Partition,
    tag: u64,
}

impl ProducerHandle {
    pub(super) fn new(config: ClientConfig, context: KafkaContext) -> Result<Self, KafkaError> {
        let producer = config.create_with_context(context.clone()).map_err(|error| settings::contradictory(&error))?;
        Ok(Self { config, context, producer: RwLock::new(Arc::new(producer)), polling: Mutex::default() })
    }

    pub(super) fn context(&self) -> &KafkaContext {
        &self.context
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
            let before = self.context.events();
            producer.poll(Duration::ZERO);
            if self.context.events() == before {
                return;
            }
        }
    }

    /// Processes events for at most `wait`.
    pub(super) fn poll_for(&self, wait: Duration) {
        let _guard = self.polling.lock();
        self.current().poll(wait);
    }

    /// Enqueues a record.
    pub(super) fn send(
        &self,
        (topic, partition): (&str, Partition),
        key: Option<&str>,
        payload: &[u8],
        (queue, tag): (&Arc<ReportQueue>, u64),
    ) -> Result<(), Code> {
        let delivery_tag = Box::new(DeliveryTag { queue: queue.clone(), partition, tag });
        let mut record = BaseRecord::<str, [u8], _>::with_opaque_to(topic, delivery_tag)
            .partition(i32::try_from(partition).unwrap_or(i32::MAX))
            .payload(payload);
        if let Some(key) = key {
            record = record.key(key);
        }
        let producer = self.current();
        // Counted first, because the report may arrive before `send` returns.
        queue.outstanding.fetch_add(1, Ordering::AcqRel);
        let Err((error, _)) = producer.send(record) else { return Ok(()) };
        queue.outstanding.fetch_sub(1, Ordering::AcqRel);
        let code = code(&error);
        if code == Code::Fatal {
            self.replace(&producer);
        }
        Err(code)
    }

    /// Waits until all records of a queue are reported; returns false on a timeout.
    pub(super) fn flush(&self, queue: &ReportQueue, wait: Duration) -> bool {
        let waited = Stopwatch::start();
        self.poll();
        while queue.outstanding.load(Ordering::Acquire) > 0 {
            if waited.elapsed() >= wait {
                return false;
            }
            self.poll_for(FLUSH_STEP);
        }
        true
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
            Code::Fatal,
        );
        match self.config.create_with_context(self.context.clone()) {
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
        self.count_event();
        let offset = match result {
            Ok(message) => {
                self.confirm_connection();
                u64::try_from(message.offset()).ok()
            }
            Err((error, _)) => {
                self.log_failure("records were lost", code(error));
                None
            }
        };
        let DeliveryTag { queue, partition, tag } = *delivery_tag;
        queue.push(DeliveryReport { partition, tag, offset });
        queue.outstanding.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ReportQueue {
    /// Adds a report; drops the oldest one beyond the cap.
    pub(super) fn push(&self, report: DeliveryReport) {
        let mut reports = self.reports.lock();
        reports.push_back(report);
        if reports.len() > REPORTS_LEN_MAX {
            reports.pop_front();
        }
    }

    pub(super) fn take_reports(&self) -> Vec<DeliveryReport> {
        self.reports.lock().drain(..).collect()
    }
}

/// Returns the error code of an rdkafka error.
pub(super) fn code(error: &Native) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Fail)
}
