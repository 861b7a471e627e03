//! Reasons for which a bus is unusable.

/// Error of the connection to a bus, of its settings, or of its topics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
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

impl BusError {
    /// Returns true if the bus may become usable without any change by an operator.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
