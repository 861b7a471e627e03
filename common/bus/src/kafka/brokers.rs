//! Brokers as this process addresses them: names of topics, numbers of partitions, and the error while they are unavailable.

use tollgate_core::counter::Partition;

use super::settings::KafkaSettings;
use crate::{BusError, Topic};

impl KafkaSettings {
    pub(super) fn name(&self, topic: Topic) -> String {
        match self.topics.mirror() {
            Some((mirrored, name)) if mirrored == topic => name.to_owned(),
            _ => format!("{}{}", self.topic_prefix, topic.as_str()),
        }
    }

    /// Returns the flags by which Kafka's commands reach the brokers. An operator keeps the own login in a file.
    pub(super) fn tool_flags(&self) -> String {
        let login = if self.access.is_used() { " --command-config admin.properties" } else { "" };
        format!("--bootstrap-server {}{login}", self.brokers)
    }

    pub(super) fn unreachable(&self, reason: String) -> BusError {
        BusError::Unreachable { brokers: self.brokers.clone(), reason }
    }
}

pub(super) fn raw_partition(partition: Partition) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}
