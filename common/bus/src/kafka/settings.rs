//! Settings of librdkafka: Tollgate's values with their reasons, and the user's values, which override them.
//!
//! Each user setting is first validated alone, so that the error names it. Messages never contain values, which may be
//! secrets.

use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::access::KafkaAccess;
use super::errors::{not_in_this_build, unusable};
use super::topic_set::TopicSet;
use crate::BusError;

/// Default number of partitions of `calls` and `signals`.
pub const PARTITIONS_DEFAULT: u32 = 8;

/// Addresses of the brokers, and the settings of the connection.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KafkaSettings {
    /// Addresses as `host:port`, separated by commas.
    pub brokers: String,
    /// Number of partitions of `calls` and `signals`.
    pub partitions: u32,
    /// Prefix of every topic name.
    pub topic_prefix: String,
    /// Topics that the bus carries.
    pub topics: TopicSet,
    /// Login at the brokers, and TLS to them.
    pub access: KafkaAccess,
    /// Settings of librdkafka; they override Tollgate's values.
    pub settings: Vec<(String, String)>,
}

type SettingsTable = &'static [(&'static str, &'static str)];

const ALL_CLIENTS: SettingsTable = &[
    ("client.id", "tollgate"),
    // Automatically created topics would have the broker's settings.
    ("allow.auto.create.topics", "false"),
    // A recovered broker is reconnected at once; librdkafka's default allows a delay of 10 s.
    ("reconnect.backoff.ms", "20"),
    ("reconnect.backoff.max.ms", "500"),
    // An unresponsive host is given up early; librdkafka's default is a minute.
    ("socket.timeout.ms", "10000"),
    ("socket.connection.setup.timeout.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    // Small requests are sent at once.
    ("socket.nagle.disable", "true"),
];

const PRODUCER: SettingsTable = &[
    // Retries neither duplicate nor reorder records, and acknowledged records survive the loss of one broker.
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Agents send batches, so waiting for more records would only delay signals.
    ("linger.ms", "0"),
    // Cheap for both sides, and included in every build of librdkafka.
    ("compression.type", "lz4"),
    // The queue bridges an outage of a few minutes; beyond these caps `append` returns `QueueFull`.
    ("queue.buffering.max.messages", "100000"),
    ("queue.buffering.max.kbytes", "65536"),
    // Records older than the longest usual window are useless.
    ("message.timeout.ms", "300000"),
    // Short retries keep the recovery time below one second.
    ("retry.backoff.ms", "50"),
    ("retry.backoff.max.ms", "500"),
];

const CONSUMER: SettingsTable = &[
    // librdkafka requires a group for manual assignment. The group is never joined, and no offsets are committed.
    ("group.id", "tollgate"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // If the requested record was deleted, reading continues at the oldest one.
    ("auto.offset.reset", "earliest"),
    // The broker responds to the first byte.
    ("fetch.min.bytes", "1"),
    // Fetching resumes shortly after a full queue or a broker failure instead of after a second.
    ("fetch.queue.backoff.ms", "5"),
    ("fetch.error.backoff.ms", "100"),
    // Maximum amount that is prefetched for a slow reader.
    ("queued.max.messages.kbytes", "16384"),
    // Tollgate writes without transactions, so foreign open transactions must not block its readers.
    ("isolation.level", "read_uncommitted"),
];

/// Maximum wait of an idle request, in ms. A newly assigned partition waits for it.
const FETCH_WAIT_MS: &str = "100";
/// Maximum wait for a reader whose partitions stay as they are: fewer requests cost an idle process and its broker less.
const FETCH_WAIT_OF_FIXED_MS: &str = "1000";

/// Aliases of the settings above: a user's alias replaces Tollgate's value.
const ALIASES: SettingsTable = &[
    ("request.required.acks", "acks"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("compression.codec", "compression.type"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
];

impl From<&str> for KafkaSettings {
    fn from(brokers: &str) -> Self {
        Self::new(brokers)
    }
}

impl KafkaSettings {
    /// Creates the default settings for the given brokers.
    #[must_use]
    pub fn new(brokers: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            partitions: PARTITIONS_DEFAULT,
            topic_prefix: String::new(),
            topics: TopicSet::Deployment,
            access: KafkaAccess::default(),
            settings: Vec::new(),
        }
    }

    /// Returns the same settings with another number of partitions of `calls` and `signals`.
    #[must_use]
    pub fn partitioned(self, partitions: u32) -> Self {
        Self { partitions, ..self }
    }

    /// Returns the same settings with another prefix of every topic name.
    #[must_use]
    pub fn prefixed(self, topic_prefix: impl Into<String>) -> Self {
        Self { topic_prefix: topic_prefix.into(), ..self }
    }

    /// Returns the same settings for a bus with other topics.
    #[must_use]
    pub fn carrying(self, topics: TopicSet) -> Self {
        Self { topics, ..self }
    }

    /// Returns the same settings with another access to the brokers.
    #[must_use]
    pub fn accessed(self, access: KafkaAccess) -> Self {
        Self { access, ..self }
    }

    /// Returns the same settings with more settings of librdkafka.
    #[must_use]
    pub fn with(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.extend(settings);
        self
    }

    pub(super) fn validate(&self) -> Result<(), BusError> {
        if self.brokers.trim().is_empty() {
            return Err(BusError::setting("brokers", "it is empty", "name at least one, as host:port"));
        }
        if self.partitions == 0 || i32::try_from(self.partitions).is_err() {
            let (reason, remedy) = ("the number is out of range", "use 8, or more for a large fleet");
            return Err(BusError::setting("partitions", reason, remedy));
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let (reason, remedy) = ("Kafka does not allow such topic names", "use letters, digits, `.`, `_` and `-`");
        if !self.topic_prefix.chars().all(legal) {
            return Err(BusError::setting("topic_prefix", reason, remedy));
        }
        if let Some((_, name)) = self.topics.mirror()
            && (name.is_empty() || !name.chars().all(legal))
        {
            return Err(BusError::setting("topics", reason, remedy));
        }
        self.access.check()?;
        self.access.load()?;
        for (name, value) in &self.settings {
            if !cfg!(feature = "kafka-tls") && needs_tls(name, value) {
                return Err(not_in_this_build(name));
            }
            if let Err(error) = ClientConfig::new().set(name, value).create_native_config() {
                return Err(unusable(name, &error));
            }
        }
        Ok(())
    }

    /// Returns the configuration of a client that neither reads nor writes.
    pub(super) fn client(&self) -> Result<ClientConfig, BusError> {
        self.override_defaults(&[])
    }

    pub(super) fn producer(&self) -> Result<ClientConfig, BusError> {
        self.override_defaults(PRODUCER)
    }

    /// Settings of a reader whose partitions change, or stay as they are.
    pub(super) fn consumer(&self, is_fixed: bool) -> Result<ClientConfig, BusError> {
        let wait = ("fetch.wait.max.ms", if is_fixed { FETCH_WAIT_OF_FIXED_MS } else { FETCH_WAIT_MS });
        self.override_defaults(&[CONSUMER, &[wait]].concat())
    }

    /// Returns the settings of a client, with the files of the access as they are now.
    fn override_defaults(&self, table: &[(&str, &str)]) -> Result<ClientConfig, BusError> {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Info).set("bootstrap.servers", &self.brokers);
        for (name, value) in ALL_CLIENTS.iter().chain(table) {
            config.set(*name, *value);
        }
        for (name, value) in self.access.load()? {
            config.set(name, value);
        }
        for (name, value) in &self.settings {
            if let Some((_, ours)) = ALIASES.iter().find(|(other, _)| other == name) {
                config.remove(ours);
            }
            config.set(name, value);
        }
        Ok(config)
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("partitions", &self.partitions)
            .field("topic_prefix", &self.topic_prefix)
            .field("topics", &self.topics)
            .field("access", &self.access)
            .field("settings", &names)
            .finish()
    }
}

/// Returns true for values that librdkafka without OpenSSL rejects as invalid, or accepts and then fails with.
fn needs_tls(name: &str, value: &str) -> bool {
    let value = value.to_ascii_uppercase();
    match name {
        "security.protocol" => value.ends_with("SSL"),
        "sasl.mechanism" | "sasl.mechanisms" => value.starts_with("SCRAM"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> KafkaSettings {
        KafkaSettings { settings: vec![(name.into(), value.into())], ..KafkaSettings::new("localhost:1") }
    }

    #[test]
    fn user_settings_override_defaults_also_by_alias() {
        let config = with("queue.buffering.max.ms", "7").producer().unwrap();
        assert_eq!((config.get("queue.buffering.max.ms"), config.get("linger.ms")), (Some("7"), None));
        assert_eq!(with("acks", "1").producer().unwrap().get("acks"), Some("1"));
    }

    #[test]
    fn an_invalid_setting_is_reported_with_its_remedy_and_without_its_value() {
        let unknown = with("sasl.pasword", "hunter2").validate().unwrap_err().to_string();
        assert!(unknown.contains("`sasl.pasword`") && unknown.contains("CONFIGURATION.md"), "{unknown}");
        let wrong = with("socket.timeout.ms", "hunter2").validate().unwrap_err().to_string();
        assert!(wrong.contains("`socket.timeout.ms`"), "{wrong}");
        assert!(!unknown.contains("hunter2") && !wrong.contains("hunter2"));
        assert!(!format!("{:?}", with("sasl.password", "hunter2")).contains("hunter2"));
        assert!(with("sasl.password", "hunter2").validate().is_ok());
    }

    #[test]
    #[cfg(not(feature = "kafka-tls"))]
    fn a_setting_that_needs_tls_is_refused_with_the_name_of_the_feature() {
        for (name, value) in
            [("security.protocol", "SASL_SSL"), ("ssl.ca.location", "ca.pem"), ("sasl.mechanism", "SCRAM-SHA-256")]
        {
            let error = with(name, value).validate().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--features kafka-tls"), "{error}");
        }
    }
}
