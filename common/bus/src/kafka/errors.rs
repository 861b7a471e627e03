//! Errors of settings and of topics, with their remedies.

use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};

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

/// Converts the error of settings that are valid one by one but not together.
pub(super) fn contradictory(error: Native) -> BusError {
    let reason = match error {
        Native::ClientConfig(_, _, ref name, _) => return unusable(name, &error),
        Native::ClientCreation(reason) => reason,
        _ => "librdkafka cannot create a client".to_owned(),
    };
    BusError::setting("settings", &reason, "correct the settings that are passed through to librdkafka")
}

/// Returns the error of a setting that librdkafka refuses.
pub(super) fn unusable(name: &str, error: &Native) -> BusError {
    let Native::ClientConfig(_, message, ..) = error else {
        return BusError::setting(name, "it contains a zero byte", "remove it");
    };
    if message.contains("not supported in this build") {
        return not_in_this_build(name);
    }
    let (reason, remedy) = if message.starts_with("No such configuration property") {
        ("librdkafka has no such setting", "see its CONFIGURATION.md for the names")
    } else {
        ("librdkafka rejects its value", "see its CONFIGURATION.md for the values")
    };
    BusError::setting(name, reason, remedy)
}

/// Returns the error of a setting that this build does not have.
pub(super) fn not_in_this_build(name: &str) -> BusError {
    let (reason, remedy) = if cfg!(feature = "kafka-tls") {
        ("librdkafka was built without it", "it needs a library that Tollgate does not include")
    } else {
        (
            "this build has neither TLS nor SCRAM",
            "use the package or the image, or build with `cargo build --release --features kafka-tls`",
        )
    };
    BusError::setting(name, reason, remedy)
}

/// Returns true for errors that a retry cannot resolve.
pub(super) const fn is_permanent(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::PolicyViolation
            | Code::InvalidTopic
            | Code::InvalidConfig
            | Code::UnsupportedVersion
            | Code::UnsupportedFeature
    )
}
