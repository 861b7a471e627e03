//! Bus on Apache Kafka, based on librdkafka.
//!
//! A [`KafkaBus`] has one producer for all topics and one consumer per reader. It writes and reads nothing before
//! [`Bus::prepare`] has verified the topics: a broker would create a missing topic with its own settings, and
//! counts from a topic with another number of partitions are silently wrong. Until then `append` returns
//! [`QueueFull`](super::QueueFull) and readers return nothing, so an agent may start while Kafka is unavailable;
//! [`supervise`](super::supervise()) retries. Later, `prepare` also fails while a topic rejects records.
//!
//! Not used: consumer groups (ownership follows presence records) and transactions (duplicates are recognised by their
//! batch names).

mod topic_set;
mod errors;
mod access;
mod access_fault;
#[cfg(feature = "kafka-tls")]
mod tls_fault;
mod settings;
mod brokers;
mod refused;
mod rejections;
mod unsent;
mod client_context;
#[expect(unsafe_code, reason = "rdkafka has no safe wrapper of DescribeTopics; the module documents its safety")]
mod topic_id;
mod found_topics;
mod rights;
mod producer;
mod layout;
mod topic_settings;
mod topics;
mod shared;
mod writer;
mod reader;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::producer::Producer as _;

use self::access_fault::AccessFaults;
use self::brokers::raw_partition;
use self::client_context::KafkaContext;
use self::producer::ProducerHandle;
use self::shared::KafkaShared;
use self::topic_id::{FoundTopic, TopicOperation};
use super::logs::partitions_of;
use super::{Bus, BusError, ReadFrom, Topic};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

pub use self::access::{KafkaAccess, SaslMechanism};
pub use self::reader::KafkaReader;
pub use self::settings::{KafkaSettings, PARTITIONS_DEFAULT};
pub use self::topic_set::TopicSet;
pub use self::writer::KafkaWriter;

const METADATA_WAIT: Duration = Duration::from_secs(1);

/// Bus on Apache Kafka; clones share its connections.
#[derive(Clone)]
pub struct KafkaBus(Arc<KafkaShared>);

impl KafkaBus {
    /// Creates a bus without connecting to a broker.
    ///
    /// # Errors
    /// Returns an error if a setting cannot be used.
    pub fn new(settings: KafkaSettings) -> Result<Self, BusError> {
        settings.validate()?;
        let context = KafkaContext::new("writer".into(), &settings, true, AccessFaults::default());
        let producer = ProducerHandle::new(&settings.producer()?, context)?;
        let shared = Arc::new(KafkaShared::new(settings, producer)?);
        if !shared.settings.settings.is_empty() {
            // `reader` cannot return an error, so settings that fail only in a consumer are detected here.
            KafkaReader::new(&shared, Topic::Presence, &[], ReadFrom::Next)?;
        }
        Ok(Self(shared))
    }

    /// Deletes all topics of this bus with their records. Tests and experiments use it to remove topics that they
    /// created.
    ///
    /// # Errors
    /// Returns an error if the brokers do not answer, or refuse.
    pub fn delete_topics(&self, wait: Duration) -> Result<(), BusError> {
        topics::delete(&self.0.settings, &self.0.producer, wait)
    }
}

impl Bus for KafkaBus {
    type Writer = KafkaWriter;
    type Reader = KafkaReader;

    fn prepare(&self, wait: Duration) -> Result<(), BusError> {
        self.0.renew_if_refused()?;
        let mut verified = self.0.verified.lock();
        let found = topics::prepare(&self.0.settings, &self.0.producer, &self.0.needed, wait, verified.take())?;
        self.0.ids.lock().extend(found.ids());
        let rights = self.0.needed.check(&self.0.settings, found.topics());
        self.0.note_writable(found.topics());
        *verified = Some(found);
        self.0.prepared.store(true, Ordering::Release);
        rights?;
        self.0.producer.context.rejection().map_or(Ok(()), Err)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        partitions_of(topic, self.0.settings.partitions)
    }

    /// Returns the topic's id. While the brokers are unavailable, returns the last known id, or 0.
    fn log_id(&self, topic: Topic) -> LogId {
        let producer = self.0.producer.current();
        let found = topic_id::describe(producer.client(), vec![self.0.settings.name(topic)], METADATA_WAIT);
        let mut ids = self.0.ids.lock();
        if let Ok([FoundTopic::Shown(found)]) = found.as_deref() {
            ids.insert(topic, found.id);
        }
        ids.get(&topic).copied().unwrap_or_default()
    }

    fn writer(&self, topic: Topic) -> KafkaWriter {
        self.0.needed.add(TopicOperation::Write, topic);
        KafkaWriter { shared: self.0.clone(), topic, name: self.0.settings.name(topic), queue: Arc::default() }
    }

    /// # Panics
    /// Panics if no thread can be spawned for the consumer; [`KafkaBus::new`] has verified that the settings are valid
    /// for one.
    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> KafkaReader {
        self.0.needed.add(TopicOperation::Read, topic);
        KafkaReader::new(&self.0, topic, partitions, from)
            .expect("settings that were valid for one consumer are valid for another")
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        if !self.0.is_prepared() {
            return None;
        }
        let (name, partition, producer) =
            (self.0.settings.name(topic), raw_partition(partition), self.0.producer.current());
        let (_, high) = producer.client().fetch_watermarks(&name, partition, METADATA_WAIT).ok()?;
        Offset::try_from(high).ok()
    }
}
