//! Which Redis and which Kafka a command uses.

use std::time::Duration;

use anyhow::bail;
use tollgate_bus::kafka::{Kafka, KafkaSettings};
use tollgate_redis::{RedisSettings, Slots};

use crate::exit::Usage;
use crate::secret;

/// How long a command waits for Kafka at its start before it goes on without.
const KAFKA_WAIT: Duration = Duration::from_secs(3);
/// How long one that needs it waits.
const KAFKA_WAIT_MAX: Duration = Duration::from_secs(15);

/// Where counters live.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RedisArgs {
    /// Redis, where the counters of all agents live: `redis://10.0.0.5:6379`; a password belongs into the variable
    #[arg(long, value_name = "URL", env = "TOLLGATE_REDIS", hide_env_values = true)]
    redis: Option<String>,
    /// What the names of keys in Redis begin with
    #[arg(
        long,
        value_name = "TEXT",
        env = "TOLLGATE_REDIS_PREFIX",
        hide_env_values = true,
        default_value = "tollgate:"
    )]
    redis_prefix: String,
    /// Whether a call is one step, or one for each slot of its counters, as several servers behind one address need
    #[arg(long, value_name = "HOW", env = "TOLLGATE_REDIS_SLOTS", hide_env_values = true, default_value = "together")]
    redis_slots: SlotsArg,
}

/// How the counters of a call are charged.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SlotsArg {
    /// In one step: right for one server
    Together,
    /// In a step for each slot; where one refuses, the others give back
    Multi,
}

/// Where calls and signals go.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KafkaArgs {
    /// Kafka, through which calls and signals go: `broker-1:9092,broker-2:9092`
    #[arg(long, value_name = "BROKERS", env = "TOLLGATE_KAFKA", hide_env_values = true)]
    kafka: Option<String>,
    /// How many partitions the topics `calls` and `signals` have; the same for all agents and aggregators
    #[arg(long, value_name = "N", env = "TOLLGATE_KAFKA_PARTITIONS", hide_env_values = true, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    kafka_partitions: u32,
    /// What the names of topics begin with
    #[arg(long, value_name = "TEXT", env = "TOLLGATE_KAFKA_PREFIX", hide_env_values = true, default_value = "")]
    kafka_prefix: String,
    /// A setting of librdkafka, such as `security.protocol=SASL_SSL`; secrets belong into the variable or the file
    #[arg(long, value_name = "NAME=VALUE", env = "TOLLGATE_KAFKA_SET", hide_env_values = true, value_parser = kafka_set)]
    kafka_set: Vec<KafkaSet>,
}

/// Settings of librdkafka that were given together: `a=1,b=2`.
#[derive(Clone, Debug)]
struct KafkaSet(Vec<(String, String)>);

/// Refuses a Kafka that others may share without a Redis that all share: each agent would limit on its own.
pub(crate) fn check_together(redis: &RedisArgs, kafka: &KafkaArgs) -> Result<(), Usage> {
    if kafka.is_named() && redis.settings().is_none() {
        let text = "with --kafka and without --redis each agent would limit on its own; name the Redis that all share with --redis URL";
        return Err(Usage(text.to_owned()));
    }
    Ok(())
}

impl RedisArgs {
    /// The Redis that was named.
    pub(crate) fn settings(&self) -> Option<RedisSettings> {
        let url = self.redis.clone()?;
        let slots = match self.redis_slots {
            SlotsArg::Together => Slots::Together,
            SlotsArg::Multi => Slots::Multi,
        };
        Some(RedisSettings { prefix: self.redis_prefix.clone(), slots, ..RedisSettings::new(&url) })
    }
}

impl KafkaArgs {
    /// How to speak to the Kafka that was named.
    pub(crate) fn settings(&self) -> Option<KafkaSettings> {
        let brokers = self.kafka.as_ref()?;
        Some(KafkaSettings {
            partitions: self.kafka_partitions,
            topic_prefix: self.kafka_prefix.clone(),
            settings: self.kafka_set.iter().flat_map(|set| set.0.clone()).collect(),
            ..KafkaSettings::new(brokers)
        })
    }

    /// Whether one was named.
    pub(crate) fn is_named(&self) -> bool {
        self.kafka.is_some()
    }

    /// The Kafka that was named; its topics are there, unless it does not answer for now.
    pub(crate) fn connect(&self) -> anyhow::Result<Option<Kafka>> {
        let Some(kafka) = self.open()? else { return Ok(None) };
        match kafka.prepare(KAFKA_WAIT) {
            Err(error) if !error.is_transient() => bail!(error),
            // Whoever uses it waits for it and says so.
            Ok(()) | Err(_) => Ok(Some(kafka)),
        }
    }

    /// The Kafka that was named, which must answer.
    pub(crate) fn require(&self) -> anyhow::Result<Kafka> {
        let Some(kafka) = self.open()? else {
            bail!(Usage("this needs Kafka: --kafka BROKERS".to_owned()));
        };
        kafka.prepare(KAFKA_WAIT_MAX)?;
        Ok(kafka)
    }

    fn open(&self) -> anyhow::Result<Option<Kafka>> {
        Ok(self.settings().map(Kafka::new).transpose()?)
    }
}

fn kafka_set(text: &str) -> Result<KafkaSet, &'static str> {
    // An error names the setting: what is no name may be a part of a value.
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
