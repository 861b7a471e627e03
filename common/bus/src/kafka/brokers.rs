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
        self.flags_with("--command-config")
    }

    /// Returns the same flags for the command that writes records.
    pub(super) fn producer_flags(&self) -> String {
        self.flags_with("--producer.config")
    }

    fn flags_with(&self, login: &str) -> String {
        let login = if self.access.is_used() { format!(" {login} admin.properties") } else { String::new() };
        format!("--bootstrap-server {}{login}", self.brokers)
    }

    pub(super) fn unreachable(&self, reason: String) -> BusError {
        BusError::Unreachable { brokers: self.brokers.clone(), reason }
    }
}

pub(super) fn raw_partition(partition: Partition) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}
