//! How librdkafka is set up: what users say, and what Tollgate says with its reasons.
//!
//! What users say wins. Each of their settings is tried alone first, so that an error names it; a value is never
//! repeated, for it may be a secret.

use std::fmt;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError as Native;

use super::KafkaError;

/// How many partitions `calls` and `signals` have unless told otherwise.
pub const PARTITIONS_DEFAULT: u32 = 8;

/// Which Kafka, and how to speak to it.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// Where it is: `host:port`, more of them after commas.
    pub brokers: String,
    /// How many partitions `calls` and `signals` have.
    pub partitions: u32,
    /// Before the name of every topic.
    pub topic_prefix: String,
    /// Settings of librdkafka (`security.protocol`, `sasl.username`, ...); they override Tollgate's own.
    pub settings: Vec<(String, String)>,
}

type Table = &'static [(&'static str, &'static str)];

const EVERY_CLIENT: Table = &[
    ("client.id", "tollgate"),
    // A topic that a broker made by itself has the broker's settings, not ours.
    ("allow.auto.create.topics", "false"),
    // A broker that comes back is found at once; librdkafka would let up to 10 s pass.
    ("reconnect.backoff.ms", "20"),
    ("reconnect.backoff.max.ms", "500"),
    // A host that is gone without a word is given up soon; librdkafka would wait a minute.
    ("socket.timeout.ms", "10000"),
    ("socket.connection.setup.timeout.ms", "5000"),
    ("socket.keepalive.enable", "true"),
    // Small requests leave at once.
    ("socket.nagle.disable", "true"),
];

const WRITER: Table = &[
    // A retry neither doubles records nor changes their order, and nothing acknowledged is lost with one broker.
    ("enable.idempotence", "true"),
    ("acks", "all"),
    // Agents send batches; waiting for more would only make signals late.
    ("linger.ms", "0"),
    // Cheap for both sides, and always in librdkafka.
    ("compression.type", "lz4"),
    // The queue carries an outage of a few minutes; past its caps `append` answers `Full`.
    ("queue.buffering.max.messages", "100000"),
    ("queue.buffering.max.kbytes", "65536"),
    // What is older than the longest usual window is of no use.
    ("message.timeout.ms", "300000"),
    // After a failure soon again, so that recovery costs less than a second.
    ("retry.backoff.ms", "50"),
    ("retry.backoff.max.ms", "500"),
];

const READER: Table = &[
    // librdkafka wants a name of a group for any assignment; nobody ever joins it, nothing is committed to it.
    ("group.id", "tollgate"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // Where the wanted record is gone, the oldest one kept is next.
    ("auto.offset.reset", "earliest"),
    // The first byte is worth an answer; and a partition just taken up waits for an idle answer to come back.
    ("fetch.min.bytes", "1"),
    ("fetch.wait.max.ms", "100"),
    // A queue that was full or a broker that failed is asked again soon, not after a second.
    ("fetch.queue.backoff.ms", "5"),
    ("fetch.error.backoff.ms", "100"),
    // What is read ahead of a slow reader.
    ("queued.max.messages.kbytes", "16384"),
    // Nobody here writes in transactions, so none of a stranger may hold readers up.
    ("isolation.level", "read_uncommitted"),
];

/// Other names of settings that stand above: the user's one replaces ours.
const OTHER_NAMES: Table = &[
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
    /// The defaults, at these brokers.
    #[must_use]
    pub fn new(brokers: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            partitions: PARTITIONS_DEFAULT,
            topic_prefix: String::new(),
            settings: Vec::new(),
        }
    }

    pub(super) fn check(&self) -> Result<(), KafkaError> {
        let invalid = |setting: &str, reason: &str, remedy: &str| {
            Err(KafkaError::Setting { setting: setting.into(), reason: reason.into(), remedy: remedy.into() })
        };
        if self.brokers.trim().is_empty() {
            return invalid("brokers", "it is empty", "name at least one, as host:port");
        }
        if self.partitions == 0 || i32::try_from(self.partitions).is_err() {
            return invalid("partitions", "there is no such number of partitions", "take 8, or more for a big fleet");
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !self.topic_prefix.chars().all(legal) {
            return invalid("topic_prefix", "Kafka has no such topics", "use letters, digits, `.`, `_` and `-`");
        }
        for (name, value) in &self.settings {
            if !cfg!(feature = "kafka-tls") && wants_tls(name, value) {
                return Err(beyond_this_build(name));
            }
            if let Err(error) = ClientConfig::new().set(name, value).create_native_config() {
                return Err(unusable(name, &error));
            }
        }
        Ok(())
    }

    /// What any client needs.
    pub(super) fn client(&self) -> ClientConfig {
        self.over(&[])
    }

    pub(super) fn writer(&self) -> ClientConfig {
        self.over(WRITER)
    }

    pub(super) fn reader(&self) -> ClientConfig {
        self.over(READER)
    }

    fn over(&self, table: Table) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Warning).set("bootstrap.servers", &self.brokers);
        for (name, value) in EVERY_CLIENT.iter().chain(table) {
            config.set(*name, *value);
        }
        for (name, value) in &self.settings {
            if let Some((_, ours)) = OTHER_NAMES.iter().find(|(other, _)| other == name) {
                config.remove(ours);
            }
            config.set(name, value);
        }
        config
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("partitions", &self.partitions)
            .field("topic_prefix", &self.topic_prefix)
            .field("settings", &names)
            .finish()
    }
}

/// Settings that are right one by one and make no client together.
pub(super) fn contradictory(error: &Native) -> KafkaError {
    let reason = match error {
        Native::ClientCreation(reason) => reason.clone(),
        Native::ClientConfig(_, _, name, _) => return unusable(name, error),
        _ => "librdkafka makes no client of it".into(),
    };
    let remedy = "correct the settings that are passed through to librdkafka".into();
    KafkaError::Setting { setting: "settings".into(), reason, remedy }
}

fn unusable(name: &str, error: &Native) -> KafkaError {
    let Native::ClientConfig(_, said, ..) = error else {
        let (reason, remedy) = ("it holds a zero byte".into(), "leave that out".into());
        return KafkaError::Setting { setting: name.into(), reason, remedy };
    };
    if said.contains("not supported in this build") {
        return beyond_this_build(name);
    }
    let (reason, remedy) = if said.starts_with("No such configuration property") {
        ("librdkafka has no such setting", "see its CONFIGURATION.md for the names")
    } else {
        ("librdkafka does not take its value", "see its CONFIGURATION.md for the values")
    };
    KafkaError::Setting { setting: name.into(), reason: reason.into(), remedy: remedy.into() }
}

/// Values that librdkafka without OpenSSL calls invalid, or takes and then makes no client of.
fn wants_tls(name: &str, value: &str) -> bool {
    let value = value.to_ascii_uppercase();
    match name {
        "security.protocol" => value.ends_with("SSL"),
        "sasl.mechanism" | "sasl.mechanisms" => value.starts_with("SCRAM"),
        _ => false,
    }
}

fn beyond_this_build(name: &str) -> KafkaError {
    let (reason, remedy) = if cfg!(feature = "kafka-tls") {
        ("librdkafka was built without it", "it needs a library that Tollgate does not bring")
    } else {
        ("this build has neither TLS nor SCRAM", "build with `--features kafka-tls`")
    };
    KafkaError::Setting { setting: name.into(), reason: reason.into(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> KafkaSettings {
        KafkaSettings { settings: vec![(name.into(), value.into())], ..KafkaSettings::new("localhost:1") }
    }

    #[test]
    fn what_users_say_wins_by_any_name() {
        let config = with("queue.buffering.max.ms", "7").writer();
        assert_eq!((config.get("queue.buffering.max.ms"), config.get("linger.ms")), (Some("7"), None));
        assert_eq!(with("acks", "1").writer().get("acks"), Some("1"));
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named_with_its_remedy_and_without_its_value() {
        let unknown = with("sasl.pasword", "hunter2").check().unwrap_err().to_string();
        assert!(unknown.contains("`sasl.pasword`") && unknown.contains("CONFIGURATION.md"), "{unknown}");
        let wrong = with("socket.timeout.ms", "hunter2").check().unwrap_err().to_string();
        assert!(wrong.contains("`socket.timeout.ms`"), "{wrong}");
        assert!(!unknown.contains("hunter2") && !wrong.contains("hunter2"));
        assert!(!format!("{:?}", with("sasl.password", "hunter2")).contains("hunter2"));
        assert!(with("sasl.password", "hunter2").check().is_ok());
    }

    #[test]
    #[cfg(not(feature = "kafka-tls"))]
    fn what_needs_tls_says_which_feature_to_build() {
        for (name, value) in
            [("security.protocol", "SASL_SSL"), ("ssl.ca.location", "ca.pem"), ("sasl.mechanism", "SCRAM-SHA-256")]
        {
            let error = with(name, value).check().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("--features kafka-tls"), "{error}");
        }
    }
}
