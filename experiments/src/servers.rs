//! Redis and Kafka that were there before an experiment and will be after it: each run has names of its own on them, so
//! that it disturbs nobody, is not disturbed, and starts with nothing counted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tollgate::store::{ChargeStore, RedisAddressError, RedisSettings, RedisStore};
use tollgate_bus::kafka::{Kafka, KafkaError, KafkaSettings};
use tollgate_core::clock::{Clock, Stopwatch};

/// How long a server may take to answer before an experiment gives up.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Why servers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address of Redis makes no sense.
    #[error(transparent)]
    RedisAddress(#[from] RedisAddressError),
    /// Redis is silent.
    #[error("Redis at {0} does not answer; start it, or correct its address")]
    Redis(String),
    /// Kafka is silent or refuses.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

/// What no other run is called: `demo-1f0c99ab`.
#[derive(Clone, Debug)]
pub struct RunName(String);

impl RunName {
    /// A name for a run of this experiment.
    #[must_use]
    pub fn new(experiment: &str) -> Self {
        Self(format!("{experiment}-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32))
    }

    /// The same Redis, with keys of this run only.
    #[must_use]
    pub fn redis(&self, redis: &RedisSettings) -> RedisSettings {
        RedisSettings { prefix: format!("{}{}:", redis.prefix, self.0), ..redis.clone() }
    }

    /// The same Kafka, with topics of this run only.
    #[must_use]
    pub fn kafka(&self, kafka: &KafkaSettings) -> KafkaSettings {
        KafkaSettings { topic_prefix: format!("{}{}-", kafka.topic_prefix, self.0), ..kafka.clone() }
    }
}

/// A Redis that has answered.
///
/// # Errors
/// When it does not.
pub async fn reach_redis(redis: &RedisSettings, clock: Arc<dyn Clock>) -> Result<RedisStore, ServerError> {
    let store = RedisStore::new(redis, clock)?;
    let waited = Stopwatch::start();
    while store.ping().await.is_err() {
        if waited.elapsed() >= PATIENCE {
            return Err(ServerError::Redis(store.address().to_owned()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(store)
}

/// A Kafka that has answered, with its topics.
///
/// # Errors
/// When it does not, or the topics cannot be made.
pub fn reach_kafka(kafka: &KafkaSettings) -> Result<Kafka, ServerError> {
    let kafka = Kafka::new(kafka.clone())?;
    let waited = Stopwatch::start();
    loop {
        match kafka.prepare(PATIENCE.saturating_sub(waited.elapsed())) {
            // Topics that were just made may have no leader yet.
            Err(error) if error.is_transient() && waited.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            prepared => return Ok(prepared.map(|()| kafka)?),
        }
    }
}

/// Deletes the topics of a run; those that stay, and why, are told in the log.
pub fn clear_kafka(kafka: &Kafka, settings: &KafkaSettings) {
    if let Err(error) = kafka.delete_topics(PATIENCE) {
        let prefix = &settings.topic_prefix;
        tracing::error!(%error, "the topics `{prefix}*` stay in Kafka and can be deleted");
    }
}
