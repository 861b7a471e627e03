//! Flags that name Redis and Kafka.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use anyhow::bail;
use tollgate_bus::Bus;
use tollgate_bus::kafka::{KafkaAccess, KafkaBus, KafkaSettings, PARTITIONS_DEFAULT, SaslMechanism, TopicSet};
use tollgate_core::rules::parse_duration_ms;
use tollgate_redis::{HashSlots, RedisAddressError, RedisCredentials, RedisSettings, RedisTlsFiles};

use crate::secret;

/// Time that a command waits for Kafka at its start before it continues without.
const KAFKA_WAIT: Duration = Duration::from_secs(3);
/// Time that a command waits for a Kafka that it needs.
const KAFKA_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum durations of an attempt to connect that can be chosen.
const CONNECT_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_mins(1);

/// Redis of a command.
#[derive(Clone, Debug, clap::Args)]
pub struct RedisArgs {
    /// Redis that holds the counters of all agents: `redis://10.0.0.5:6379`, `rediss://` for TLS, `redis://host,host` of which one is
    /// the primary, `redis+sentinel://host,host/NAME`, `redis+cluster://host,host`, or `redis+unix:///path`
    #[arg(long, value_name = "URL", value_parser = redis_address)]
    redis: Option<String>,
    /// User of Redis
    #[arg(long, value_name = "NAME", requires = "redis")]
    redis_user: Option<String>,
    /// Password of Redis; write it only into the variable, or into the file of --config
    #[arg(long, value_name = "TEXT", requires = "redis")]
    redis_password: Option<String>,
    /// File with the password of Redis in its first line; read again for each connection
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_password_file: Option<PathBuf>,
    /// Issuers of the certificate of Redis, in PEM [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_ca: Option<PathBuf>,
    /// Certificate for a Redis that asks for one, in PEM; the three files are read again for each connection
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_key: Option<PathBuf>,
    /// User of the Sentinels
    #[arg(long, value_name = "NAME", requires = "redis_sentinel_password_file")]
    redis_sentinel_user: Option<String>,
    /// File with the password of the Sentinels in its first line
    #[arg(long, value_name = "FILE", requires = "redis")]
    redis_sentinel_password_file: Option<PathBuf>,
    /// Maximum duration of an attempt to connect
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = connect_timeout)]
    redis_connect_timeout: Duration,
    /// Prefix of keys in Redis
    #[arg(long, value_name = "TEXT", default_value = "tollgate:")]
    redis_prefix: String,
    /// Steps of a call: one for all counters, or one per slot, for several servers behind one address
    #[arg(long, value_name = "STEPS", default_value = "together")]
    redis_slots: HashSlotsArg,
}

/// Steps in which the counters of a call are charged.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HashSlotsArg {
    /// One step; for one server
    Together,
    /// One step per slot; if one refuses, the others are refunded
    Multi,
}

/// Kafka of a command.
#[derive(Clone, Debug, clap::Args)]
pub struct KafkaArgs {
    /// Kafka brokers for calls and signals: `broker-1:9092,broker-2:9092`
    #[arg(long, value_name = "BROKERS")]
    kafka: Option<String>,
    /// Partitions of the topics `calls` and `signals`; the same for all agents and aggregators
    #[arg(long, value_name = "N", default_value_t = PARTITIONS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    kafka_partitions: u32,
    /// Prefix of topics
    #[arg(long, value_name = "TEXT", default_value = "")]
    kafka_prefix: String,
    /// TLS to the brokers; implied by the files
    #[arg(long, requires = "kafka")]
    kafka_tls: bool,
    /// Issuers of the certificates of the brokers, in PEM [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", requires = "kafka")]
    kafka_ca: Option<PathBuf>,
    /// Certificate for brokers that ask for one, in PEM; the files are read again after a refusal
    #[arg(long, value_name = "FILE", requires = "kafka")]
    kafka_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "kafka")]
    kafka_key: Option<PathBuf>,
    /// User of Kafka
    #[arg(long, value_name = "NAME", requires = "kafka")]
    kafka_user: Option<String>,
    /// Password of Kafka; write it only into the variable, or into the file of --config
    #[arg(long, value_name = "TEXT", requires = "kafka")]
    kafka_password: Option<String>,
    /// File with the password of Kafka in its first line; read again after a refusal
    #[arg(long, value_name = "FILE", requires = "kafka")]
    kafka_password_file: Option<PathBuf>,
    /// Mechanism of the login
    #[arg(long, value_name = "MECHANISM", default_value = "scram-sha-512")]
    kafka_sasl: SaslMechanismArg,
    /// Setting of librdkafka, such as `client.rack=a`, which overrides the others; put secrets into the variable or the file
    #[arg(long, value_name = "NAME=VALUE", value_parser = kafka_set)]
    kafka_set: Vec<KafkaSet>,
}

/// Mechanism of the login at Kafka.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SaslMechanismArg {
    /// The password as it is
    Plain,
    /// SCRAM with SHA-256
    #[value(name = "scram-sha-256")]
    ScramSha256,
    /// SCRAM with SHA-512
    #[value(name = "scram-sha-512")]
    ScramSha512,
}

/// Settings of librdkafka from one value: `a=1,b=2`.
#[derive(Clone, Debug)]
struct KafkaSet(Vec<(String, String)>);

impl RedisArgs {
    /// Returns the address of the named Redis as it may be printed.
    #[must_use]
    pub fn shown(&self) -> Option<String> {
        self.settings()?.shown()
    }

    /// Returns the settings of the named Redis.
    #[must_use]
    pub fn settings(&self) -> Option<RedisSettings> {
        let url = self.redis.clone()?;
        let slots = match self.redis_slots {
            HashSlotsArg::Together => HashSlots::Together,
            HashSlotsArg::Multi => HashSlots::Multi,
        };
        let settings = RedisSettings::new(&url).prefixed(self.redis_prefix.clone()).with_slots(slots);
        let settings = settings.with_connect_timeout(self.redis_connect_timeout);
        let (user, password) = (self.redis_user.clone(), self.redis_password.clone());
        let credentials = RedisCredentials { user, password, password_file: self.redis_password_file.clone() };
        let (user, password_file) = (self.redis_sentinel_user.clone(), self.redis_sentinel_password_file.clone());
        let of_sentinels = RedisCredentials { user, password: None, password_file };
        let (ca, cert, key) = (self.redis_ca.clone(), self.redis_cert.clone(), self.redis_key.clone());
        let settings = settings.with_credentials(credentials).with_sentinel_credentials(of_sentinels);
        Some(settings.with_tls(RedisTlsFiles { ca, cert, key }))
    }
}

impl KafkaArgs {
    /// Returns the brokers of the named Kafka.
    #[must_use]
    pub fn shown(&self) -> Option<&str> {
        self.kafka.as_deref()
    }

    /// Returns the settings of the named Kafka.
    #[must_use]
    pub fn settings(&self) -> Option<KafkaSettings> {
        let brokers = self.kafka.as_ref()?;
        let settings = KafkaSettings::new(brokers).partitioned(self.kafka_partitions);
        let settings = settings.prefixed(self.kafka_prefix.clone()).accessed(self.access());
        Some(settings.with(self.kafka_set.iter().flat_map(|set| set.0.clone())))
    }

    fn access(&self) -> KafkaAccess {
        let mut access = KafkaAccess::default();
        (access.ca, access.cert, access.key) = (self.kafka_ca.clone(), self.kafka_cert.clone(), self.kafka_key.clone());
        (access.user, access.password) = (self.kafka_user.clone(), self.kafka_password.clone());
        (access.is_tls, access.password_file) = (self.kafka_tls, self.kafka_password_file.clone());
        access.sasl = match self.kafka_sasl {
            SaslMechanismArg::Plain => SaslMechanism::Plain,
            SaslMechanismArg::ScramSha256 => SaslMechanism::ScramSha256,
            SaslMechanismArg::ScramSha512 => SaslMechanism::ScramSha512,
        };
        access
    }

    /// Connects to the named Kafka and prepares its topics. If that fails, the process starts without it, and the
    /// thread that supervises the bus reports the reason and tries again: nothing in Kafka may stop a fleet from
    /// starting.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn connect(&self) -> anyhow::Result<Option<KafkaBus>> {
        let kafka = self.settings().map(KafkaBus::new).transpose()?;
        if let Some(kafka) = &kafka {
            let _ = kafka.prepare(KAFKA_WAIT);
        }
        Ok(kafka)
    }

    /// Returns the bus of the topics of analytics of the named Kafka, which the aggregator prepares.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn connect_analytics(&self) -> anyhow::Result<Option<KafkaBus>> {
        let settings = self.settings().map(|settings| settings.carrying(TopicSet::Analytics));
        Ok(settings.map(KafkaBus::new).transpose()?)
    }

    /// Prepares the topics of the named Kafka, which must answer.
    ///
    /// # Errors
    /// If it does not.
    pub fn prepare(&self, kafka: &KafkaBus) -> anyhow::Result<()> {
        let (sender, prepared) = mpsc::channel();
        let preparing = kafka.clone();
        // Several requests may each take their time, so a thread waits for them; it ends with the process.
        Builder::new().name("tollgate-kafka".into()).spawn(move || sender.send(preparing.prepare(KAFKA_WAIT_MAX)))?;
        match prepared.recv_timeout(KAFKA_WAIT_MAX) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if !error.is_transient() => Err(error.into()),
            _ => bail!(
                "Kafka at {} does not answer within {} s; start it, or correct the address",
                self.shown().unwrap_or_default(),
                KAFKA_WAIT_MAX.as_secs()
            ),
        }
    }
}

fn redis_address(text: &str) -> Result<String, RedisAddressError> {
    RedisSettings::new(text).check_form().map(|()| text.to_owned())
}

fn connect_timeout(text: &str) -> Result<Duration, &'static str> {
    let timeout = parse_duration_ms(text).map(Duration::from_millis);
    timeout.filter(|timeout| CONNECT_TIMEOUTS.contains(timeout)).ok_or("write a time from 10ms to 1m")
}

fn kafka_set(text: &str) -> Result<KafkaSet, &'static str> {
    // Text before `=` that is not a valid name may be part of a value.
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let is_name = |name: &str| !name.is_empty() && name.chars().all(legal);
    let name_and_value = |setting: &str| {
        let (name, value) = setting.trim_start().split_once('=').filter(|(name, _)| is_name(name))?;
        Some((name.to_owned(), value.to_owned()))
    };
    let set: Option<_> = secret::settings(text).into_iter().map(name_and_value).collect();
    set.map(KafkaSet).ok_or("write NAME=VALUE, such as security.protocol=SSL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_settings_may_hold_commas() {
        let KafkaSet(set) = kafka_set("a.hosts=h:1,h:2, sasl.password=p,=w,b=").unwrap();
        let set: Vec<_> = set.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(set, [("a.hosts", "h:1,h:2"), ("sasl.password", "p,=w"), ("b", "")]);
        assert!(kafka_set("a").is_err() && kafka_set("=a").is_err() && kafka_set("a,=b").is_err());
    }
}
