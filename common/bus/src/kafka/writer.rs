//! Writing: one idempotent producer for all logs of a [`Kafka`](super::Kafka), and the way of each report to its log.
//!
//! librdkafka sends from threads of its own; here records are only handed over, and what it has to say is fetched
//! whenever a log is used. It says so event by event, and to one thread at a time, or the reports of a partition would
//! change their order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, ProducerContext};

use super::contact::Contact;
use super::{KafkaError, Shared, settings};
use crate::{Full, Log, Report, Topic};
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::Partition;

/// The key of rule sets: compaction keeps the newest of them.
const RULES_KEY: &str = "rules";
/// How many reports wait for their log; older ones are forgotten, which reads as "unknown".
const REPORTS_LEN_MAX: usize = 200_000;
/// How many events one look fetches at most, so that a look at a busy producer ends.
const EVENTS_MAX: usize = 1_000;
/// How long a flush listens before it looks whether it is done.
const FLUSH_STEP: Duration = Duration::from_millis(1);

/// Writes a topic of a [`Kafka`](super::Kafka).
pub struct KafkaLog {
    shared: Arc<Shared>,
    topic: Topic,
    name: String,
    route: Arc<Route>,
}

type Producer = BaseProducer<Contact>;

/// The producer, which is replaced when it can go on no more.
pub(super) struct Writer {
    config: ClientConfig,
    contact: Contact,
    producer: RwLock<Arc<Producer>>,
    polling: Mutex<()>,
}

/// Where reports go.
#[derive(Default)]
pub(super) struct Route {
    reports: Mutex<VecDeque<Report>>,
    outstanding: AtomicUsize,
}

/// What goes with a record and comes back with its report.
pub(super) struct Handed {
    route: Arc<Route>,
    partition: Partition,
    tag: u64,
}

impl Writer {
    pub(super) fn new(config: ClientConfig, contact: Contact) -> Result<Self, KafkaError> {
        let producer = config.create_with_context(contact.clone()).map_err(|error| settings::contradictory(&error))?;
        Ok(Self { config, contact, producer: RwLock::new(Arc::new(producer)), polling: Mutex::default() })
    }

    pub(super) fn contact(&self) -> &Contact {
        &self.contact
    }

    /// The producer, also for questions to the brokers.
    pub(super) fn producer(&self) -> Arc<Producer> {
        self.producer.read().clone()
    }

    /// Fetches what librdkafka has to say; returns at once.
    pub(super) fn listen(&self) {
        let Some(_alone) = self.polling.try_lock() else { return };
        let producer = self.producer();
        for _ in 0..EVENTS_MAX {
            let before = self.contact.events();
            producer.poll(Duration::ZERO);
            if self.contact.events() == before {
                return;
            }
        }
    }

    /// Fetches what librdkafka says in a stretch of time.
    pub(super) fn listen_for(&self, wait: Duration) {
        let _alone = self.polling.lock();
        self.producer().poll(wait);
    }

    /// Hands a record over.
    pub(super) fn send(
        &self,
        (topic, partition): (&str, Partition),
        key: Option<&str>,
        payload: &[u8],
        (route, tag): (&Arc<Route>, u64),
    ) -> Result<(), Code> {
        let handed = Box::new(Handed { route: route.clone(), partition, tag });
        let mut record = BaseRecord::<str, [u8], _>::with_opaque_to(topic, handed)
            .partition(i32::try_from(partition).unwrap_or(i32::MAX))
            .payload(payload);
        if let Some(key) = key {
            record = record.key(key);
        }
        let producer = self.producer();
        // Counted first: the report may be here before `send` returns.
        route.outstanding.fetch_add(1, Ordering::AcqRel);
        let Err((error, _)) = producer.send(record) else { return Ok(()) };
        route.outstanding.fetch_sub(1, Ordering::AcqRel);
        let code = code(&error);
        if code == Code::Fatal {
            self.replace(&producer);
        }
        Err(code)
    }

    /// Waits until all records of a route are reported; whether they are.
    pub(super) fn flush(&self, route: &Route, wait: Duration) -> bool {
        let waited = Stopwatch::start();
        self.listen();
        while route.outstanding.load(Ordering::Acquire) > 0 {
            if waited.elapsed() >= wait {
                return false;
            }
            self.listen_for(FLUSH_STEP);
        }
        true
    }

    /// An idempotent producer that met a gap which it cannot explain (the log lost records) sends nothing any more.
    fn replace(&self, broken: &Arc<Producer>) {
        let mut producer = self.producer.write();
        if !Arc::ptr_eq(&producer, broken) {
            return;
        }
        self.contact.failed("the producer cannot go on; what it held is lost, another one takes over", Code::Fatal);
        match self.config.create_with_context(self.contact.clone()) {
            Ok(new) => {
                let old = std::mem::replace(&mut *producer, Arc::new(new));
                drop(producer);
                // Its end waits for reports of what it held, and writers never wait.
                std::thread::spawn(move || drop(old));
            }
            Err(error) => tracing::error!(%error, "no other producer can be made; will be tried with the next record"),
        }
    }
}

impl ProducerContext for Contact {
    type DeliveryOpaque = Box<Handed>;

    fn delivery(&self, result: &DeliveryResult<'_>, handed: Box<Handed>) {
        self.count_event();
        let offset = match result {
            Ok(message) => {
                self.heard();
                u64::try_from(message.offset()).ok()
            }
            Err((error, _)) => {
                self.failed("records are lost", code(error));
                None
            }
        };
        let Handed { route, partition, tag } = *handed;
        route.report(Report { partition, tag, offset });
        route.outstanding.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Route {
    fn report(&self, report: Report) {
        let mut reports = self.reports.lock();
        reports.push_back(report);
        if reports.len() > REPORTS_LEN_MAX {
            reports.pop_front();
        }
    }

    pub(super) fn take_reports(&self) -> Vec<Report> {
        self.reports.lock().drain(..).collect()
    }
}

impl KafkaLog {
    pub(super) fn new(shared: &Arc<Shared>, topic: Topic) -> Self {
        Self { name: shared.settings.name(topic), shared: shared.clone(), topic, route: Arc::default() }
    }
}

impl Log for KafkaLog {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), Full> {
        let writer = &self.shared.writer;
        writer.listen();
        if !self.shared.is_prepared() {
            return Err(Full(payload));
        }
        let key = (self.topic == Topic::Rules).then_some(RULES_KEY);
        match writer.send((&self.name, partition), key, &payload, (&self.route, tag)) {
            Ok(()) => Ok(()),
            Err(Code::QueueFull | Code::Fatal) => Err(Full(payload)),
            Err(code) => {
                writer.contact().failed("a record is not taken and lost", code);
                self.route.report(Report { partition, tag, offset: None });
                Ok(())
            }
        }
    }

    fn reports(&mut self) -> Vec<Report> {
        self.shared.writer.listen();
        self.route.take_reports()
    }

    fn flush(&mut self, wait: Duration) {
        self.shared.writer.flush(&self.route, wait);
    }
}

/// The code of any error of rdkafka.
pub(super) fn code(error: &Native) -> Code {
    error.rdkafka_error_code().unwrap_or(Code::Fail)
}
