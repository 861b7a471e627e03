//! Writer of one topic of a [`KafkaBus`](super::KafkaBus). All writers share the producer in [`super::producer`].

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;

use super::shared::KafkaShared;
use super::unsent::DeliveryTag;
use crate::reports::ReportQueue;
use crate::{DeliveryReport, LogWriter, QueueFull, Topic};
use tollgate_core::counter::Partition;

/// Compaction keeps the newest record of this key.
const RULES_KEY: &str = "rules";

/// Writer of a topic of a [`KafkaBus`](super::KafkaBus).
pub struct KafkaWriter {
    pub(super) shared: Arc<KafkaShared>,
    pub(super) topic: Topic,
    pub(super) name: String,
    pub(super) queue: Arc<ReportQueue>,
}

impl LogWriter for KafkaWriter {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), QueueFull> {
        let producer = &self.shared.producer;
        producer.poll();
        if !self.shared.is_writable(self.topic) {
            return Err(QueueFull(payload));
        }
        let key = (self.topic == Topic::Rules).then_some(RULES_KEY);
        let delivery_tag = DeliveryTag { queue: self.queue.clone(), partition, tag };
        match producer.send(&self.name, key, &payload, delivery_tag) {
            Ok(()) => Ok(()),
            Err(Code::QueueFull | Code::Fatal) => Err(QueueFull(payload)),
            Err(code) => {
                producer.context.record_rejected(&self.name, code);
                self.queue.push(DeliveryReport { partition, tag, offset: None });
                Ok(())
            }
        }
    }

    fn reports(&mut self) -> Vec<DeliveryReport> {
        self.shared.producer.poll();
        self.queue.take()
    }

    fn flush(&mut self, wait: Duration) {
        self.shared.producer.flush(wait);
    }
}
