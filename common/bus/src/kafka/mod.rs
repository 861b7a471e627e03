//! The bus on Apache Kafka, by librdkafka.
//!
//! One [`Kafka`] has one producer for all it writes and one consumer per reader; clones are the same bus. Nothing is
//! written or read before [`Kafka::prepare`] has seen that the topics are there and right: a broker would make a missing
//! topic with settings of its own, and counts from a topic of another shape are wrong without a sign. Until then `append`
//! answers [`Full`](super::Full) and readers are silent, so an agent may start while Kafka is away and call `prepare`
//! until it succeeds.
//!
//! Left out: consumer groups (owners are found by presence) and transactions (records that come twice are removed by
//! their names).

mod error;
mod settings;
mod contact;
#[expect(unsafe_code, reason = "rdkafka has no safe form of DescribeTopics; the module says how it is kept safe")]
mod topic_id;
mod writer;
mod layout;
mod reader;
mod topics;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::producer::Producer as _;

use self::contact::Contact;
use self::layout::LAYOUT_KEY;
use self::writer::Writer;
use super::{Bus, From, Topic, Unusable};
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

pub use self::error::KafkaError;
pub use self::reader::KafkaReader;
pub use self::settings::{KafkaSettings, PARTITIONS_DEFAULT};
pub use self::writer::KafkaLog;

/// How long a question about a topic waits for its answer.
const ASK_WAIT: Duration = Duration::from_secs(1);
/// How long after a failure that may pass preparing is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// A bus on Apache Kafka; clones are the same bus.
#[derive(Clone)]
pub struct Kafka(Arc<Shared>);

struct Shared {
    settings: KafkaSettings,
    writer: Writer,
    prepared: AtomicBool,
    /// The identities that were heard last.
    ids: Mutex<HashMap<Topic, LogId>>,
}

impl Kafka {
    /// A bus with these settings. Does not wait for a broker, which may be away.
    ///
    /// # Errors
    /// Returns an error if a setting cannot be used.
    pub fn new(settings: KafkaSettings) -> Result<Self, KafkaError> {
        settings.check()?;
        let contact = Contact::of_writer(&settings.brokers);
        let writer = Writer::new(settings.writer(), contact)?;
        let shared = Arc::new(Shared { settings, writer, prepared: AtomicBool::default(), ids: Mutex::default() });
        if !shared.settings.settings.is_empty() {
            // What of them fails here would otherwise fail where a reader is made, which cannot say so.
            KafkaReader::new(&shared, Topic::Presence)?;
        }
        Ok(Self(shared))
    }

    /// Makes the topics that are missing and checks those that are there, in about so much time. May be called by many at
    /// once and again and again; from its first success on, the bus works.
    ///
    /// # Errors
    /// Returns an error if the brokers do not answer, which is [transient](KafkaError::is_transient), or the topics are not as they must
    /// be, which is not.
    pub fn prepare(&self, wait: Duration) -> Result<(), KafkaError> {
        let waited = Stopwatch::start();
        let found = loop {
            let left = wait.saturating_sub(waited.elapsed());
            match topics::prepare(&self.0.settings, &self.0.writer, left) {
                // A topic that was just made has no leader for a moment.
                Err(error) if error.is_transient() && waited.elapsed() + AGAIN < wait => {
                    std::thread::park_timeout(AGAIN);
                }
                found => break found?,
            }
        };
        let ids = Topic::ALL.into_iter().zip(found.map(|found| found.id));
        self.0.ids.lock().extend(ids);
        self.0.prepared.store(true, Ordering::Release);
        Ok(())
    }

    /// Deletes the topics with all that is in them: for those who made topics of their own and are done with them.
    ///
    /// # Errors
    /// Returns an error if the brokers do not answer, or refuse.
    pub fn delete_topics(&self, wait: Duration) -> Result<(), KafkaError> {
        topics::delete(&self.0.settings, &self.0.writer, wait)
    }
}

impl Bus for Kafka {
    type Log = KafkaLog;
    type Reader = KafkaReader;

    fn prepare(&self, wait: Duration) -> Result<(), Unusable> {
        let unusable = |error: KafkaError| Unusable { reason: error.to_string(), transient: error.is_transient() };
        Self::prepare(self, wait).map_err(unusable)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.0.settings.partitions_of(topic)
    }

    /// The topic's id. While the brokers are away the one that was heard last, or 0.
    fn log_id(&self, topic: Topic) -> LogId {
        let producer = self.0.writer.producer();
        let found = topic_id::describe(producer.client(), &[&self.0.settings.name(topic)], ASK_WAIT);
        let mut ids = self.0.ids.lock();
        if let Ok(found) = found
            && let [Some(found)] = found[..]
        {
            ids.insert(topic, found.id);
        }
        ids.get(&topic).copied().unwrap_or_default()
    }

    fn log(&self, topic: Topic) -> KafkaLog {
        KafkaLog::new(&self.0, topic)
    }

    /// # Panics
    /// Panics if the system has no thread left for the reader; [`Kafka::new`] has seen that the settings make one.
    fn read(&self, topic: Topic, partitions: &[Partition], from: From) -> KafkaReader {
        let mut reader = KafkaReader::new(&self.0, topic).expect("settings that made a reader make another");
        reader.start(partitions, from);
        reader
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        if !self.0.is_prepared() {
            return None;
        }
        let (name, partition) = (self.0.settings.name(topic), i32::try_from(partition).ok()?);
        let (_, high) = self.0.writer.producer().client().fetch_watermarks(&name, partition, ASK_WAIT).ok()?;
        Offset::try_from(high).ok()
    }
}

impl Shared {
    fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }
}

impl KafkaSettings {
    fn name(&self, topic: Topic) -> String {
        format!("{}{}", self.topic_prefix, topic.as_str())
    }

    const fn partitions_of(&self, topic: Topic) -> u32 {
        match topic {
            Topic::Calls | Topic::Signals => self.partitions,
            Topic::Presence | Topic::Rules => 1,
        }
    }

    fn unreachable(&self, reason: String) -> KafkaError {
        KafkaError::Unreachable { brokers: self.brokers.clone(), reason }
    }
}
