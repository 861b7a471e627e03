//! Redis and Kafka servers that others may use at the same time. Each run prefixes its keys and topics with a name of
//! its own, so it starts with empty counters and neither disturbs others nor is disturbed.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tollgate::store::{ChargeStore, RedisAddressError, RedisSettings, RedisStore};
use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, BusError};
use tollgate_core::clock::{Clock, Stopwatch};

/// Time after which a run gives up on a server.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Reason for which a run has no server.
#[derive(Debug, thiserror::Error)]
pub enum SharedServerError {
    /// The address of Redis is not valid.
    #[error(transparent)]
    RedisAddress(#[from] RedisAddressError),
    /// Redis does not answer.
    #[error("Redis at {0} does not answer; start it, or correct its address")]
    Redis(String),
    /// Kafka does not answer or refuses.
    #[error(transparent)]
    Kafka(#[from] BusError),
}

/// Name of a run, such as `demo-1f0c99ab`; no other run has it.
#[derive(Clone, Debug)]
pub struct RunName(String);

impl RunName {
    /// Returns a new name for a run of this demo or experiment.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self(format!("{kind}-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32))
    }

    /// Returns the settings of the same Redis with this run's prefix of keys.
    #[must_use]
    pub fn redis(&self, redis: &RedisSettings) -> RedisSettings {
        redis.clone().prefixed(format!("{}{}:", redis.prefix, self.0))
    }

    /// Returns the settings of the same Kafka with this run's prefix of topics.
    #[must_use]
    pub fn kafka(&self, kafka: &KafkaSettings) -> KafkaSettings {
        kafka.clone().prefixed(format!("{}{}-", kafka.topic_prefix, self.0))
    }
}

/// Connects to Redis and waits for its first answer.
///
/// # Errors
/// If Redis does not answer within 10 s.
pub async fn connect_redis(redis: &RedisSettings, clock: Arc<dyn Clock>) -> Result<RedisStore, SharedServerError> {
    let store = RedisStore::new(redis, clock)?;
    let waited = Stopwatch::start();
    while store.ping().await.is_err() {
        if waited.elapsed() >= PATIENCE {
            return Err(SharedServerError::Redis(store.address().to_owned()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(store)
}

/// Connects to Kafka and creates the topics of a run.
///
/// # Errors
/// If Kafka does not answer within 10 s, or the topics cannot be created.
pub fn connect_kafka(kafka: &KafkaSettings) -> Result<KafkaBus, SharedServerError> {
    let kafka = KafkaBus::new(kafka.clone())?;
    kafka.prepare(PATIENCE)?;
    Ok(kafka)
}

/// Deletes the topics of a run. Topics that cannot be deleted are logged with the reason.
pub fn clear_kafka(kafka: &KafkaBus, settings: &KafkaSettings) {
    if let Err(error) = kafka.delete_topics(PATIENCE) {
        let prefix = &settings.topic_prefix;
        tracing::error!(%error, "the topics `{prefix}*` could not be deleted and stay in Kafka; delete them by hand");
    }
}
