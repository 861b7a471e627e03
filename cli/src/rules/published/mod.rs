//! Published rules and the publications before them, on Kafka and in Redis.

mod publication;
mod kafka_log;
mod place;

pub(super) use kafka_log::KafkaRules;
pub(super) use place::{PublishedArgs, RulesPlace};
pub(super) use publication::{KeptPublication, author, utc};
