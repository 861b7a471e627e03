//! Published rules and the publications before them, on Kafka and in Redis.

mod publication;
mod heard_agents;
mod kafka_log;
mod published_rules;

pub(super) use publication::{KeptPublication, author, utc};
pub(super) use published_rules::{PublishedArgs, PublishedRules};
