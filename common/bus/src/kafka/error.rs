//! Errors of the Kafka bus.

/// Error of the connection to Kafka, of its settings, or of its topics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KafkaError {
    /// A librdkafka setting that does not exist, has an invalid value, or needs another build.
    #[error("the Kafka setting `{setting}` cannot be used: {reason}; {remedy}")]
    Setting {
        /// Name of the setting.
        setting: String,
        /// Cause.
        reason: String,
        /// Remedy.
        remedy: String,
    },
    /// Brokers that do not answer.
    #[error("Kafka at {brokers} does not answer: {reason}")]
    Unreachable {
        /// Addresses of the brokers.
        brokers: String,
        /// Cause.
        reason: String,
    },
    /// Brokers that refuse a request, or topics that do not have the required form.
    #[error("{reason}; {remedy}")]
    Refused {
        /// Cause.
        reason: String,
        /// Remedy.
        remedy: String,
    },
}

impl KafkaError {
    /// Returns true if the same request may succeed later without any change of settings.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    pub(super) fn setting(setting: &str, reason: &str, remedy: &str) -> Self {
        Self::Setting { setting: setting.into(), reason: reason.into(), remedy: remedy.into() }
    }

    pub(super) fn refused(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), remedy: remedy.into() }
    }
}
