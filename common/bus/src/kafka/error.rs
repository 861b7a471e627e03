//! What can be wrong between Tollgate and Kafka, and whether it is worth asking again.

/// Why Kafka cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KafkaError {
    /// A setting does not exist, has a value that does not, or is beyond this build.
    #[error("the Kafka setting `{setting}` cannot be used: {reason}; {remedy}")]
    Setting {
        /// Its name.
        setting: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The brokers do not answer, or not yet.
    #[error("Kafka at {brokers} does not answer: {reason}")]
    Unreachable {
        /// Who was asked.
        brokers: String,
        /// What was seen of them.
        reason: String,
    },
    /// The brokers answer, but Tollgate may not or cannot work with what is there.
    #[error("{reason}; {remedy}")]
    Refused {
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
}

impl KafkaError {
    /// Whether the same request may succeed later with nothing changed here.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    pub(super) fn refused(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), remedy: remedy.into() }
    }
}
