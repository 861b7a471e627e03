//! Errors of settings and of topics, with their remedies.

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::BusError;

impl BusError {
    pub(super) fn setting(setting: &str, reason: &str, remedy: &str) -> Self {
        Self::Setting { setting: setting.into(), reason: reason.into(), remedy: remedy.into() }
    }

    pub(super) fn refused(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), remedy: remedy.into() }
    }
}

/// Returns the remedy of an error that is not about the connection.
pub(super) const fn remedy(code: Code) -> &'static str {
    match code {
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            "allow this user the operations Read, Write and Describe on the topic (kafka-acls.sh --add)"
        }
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => {
            "raise max.message.bytes of the topic (kafka-configs.sh --alter), and message.max.bytes of this process with --kafka-set"
        }
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            "none if the topic was deleted or recreated: Tollgate creates it again; otherwise give all processes the same --kafka-partitions"
        }
        Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend => {
            "start the missing brokers, or lower min.insync.replicas of the topic"
        }
        Code::MessageTimedOut | Code::RequestTimedOut => {
            "check that the brokers run and are not overloaded, and the network to them"
        }
        _ => "check the brokers' log for this topic and reason; Tollgate goes on by itself",
    }
}
