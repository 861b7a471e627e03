//! Writer of one topic of a [`KafkaBus`](super::KafkaBus). All writers share the producer in [`super::producer`].

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::shared::KafkaShared;
use super::unsent::DeliveryTag;
use crate::reports::ReportQueue;
use crate::{DeliveryReport, LogWriter, QueueFull, Topic};
use tollgate_core::counter::Partition;

/// Writer of a topic of a [`KafkaBus`](super::KafkaBus).
pub struct KafkaWriter {
    pub(super) shared: Arc<KafkaShared>,
    pub(super) topic: Topic,
    pub(super) name: String,
    pub(super) queue: Arc<ReportQueue>,
}

impl KafkaWriter {
    /// Enqueues the deletion of a record of the topic `rules`, which is known by its content.
    ///
    /// # Errors
    /// Returns the content if the queue is full.
    pub fn forget(&mut self, partition: Partition, payload: Vec<u8>) -> Result<(), QueueFull> {
        let key = rules_key(&payload);
        self.send(partition, Some(&key), None, 0).map_err(|()| QueueFull(payload))
    }

    /// Enqueues a record; fails if the queue is full.
    fn send(&mut self, partition: Partition, key: Option<&str>, payload: Option<&[u8]>, tag: u64) -> Result<(), ()> {
        let producer = &self.shared.producer;
        producer.poll();
        if !self.shared.is_writable(self.topic) {
            return Err(());
        }
        let delivery_tag = DeliveryTag { queue: self.queue.clone(), partition, tag };
        match producer.send(&self.name, key, payload, delivery_tag) {
            Ok(()) => Ok(()),
            Err(Code::QueueFull | Code::Fatal) => Err(()),
            Err(code) => {
                producer.context.record_rejected(&self.name, code);
                self.queue.push(DeliveryReport { partition, tag, offset: None });
                Ok(())
            }
        }
    }
}

impl LogWriter for KafkaWriter {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), QueueFull> {
        let key = (self.topic == Topic::Rules).then(|| rules_key(&payload));
        self.send(partition, key.as_deref(), Some(&payload), tag).map_err(|()| QueueFull(payload))
    }

    fn reports(&mut self) -> Vec<DeliveryReport> {
        self.shared.producer.poll();
        self.queue.take()
    }

    fn flush(&mut self, wait: Duration) {
        self.shared.producer.flush(wait);
    }
}

/// Returns the key of a record of the topic `rules`: compaction keeps each publication, until it is deleted by this key.
fn rules_key(payload: &[u8]) -> String {
    let mut hasher = SipHasher24::new();
    hasher.write(payload);
    format!("rules-{:032x}", hasher.finish128().as_u128())
}
