//! Agents and aggregators as processes, over real Redis and real Kafka, while servers and processes fail.

pub(crate) mod fleet_of_processes;
mod log;
mod emergency;
mod notices;
mod failure_metrics;
mod outage;
mod lost;
mod crashes;
mod failover;
mod members;
mod empty_redis;
mod dead_letters;
mod rules;
mod rule_origins;
mod operators_week;
mod lost_publications;
mod tour;
mod stopped;
mod starting;
mod rejected_records;
mod processes;
mod parts;
mod cookbook;
mod settlements;
mod resets;
mod traces;
mod warehouse;
mod loaded_rollups;
mod rollups;
mod decisions;
mod denied_topics;
mod busy;
mod eventual;
mod local_answers;
mod own_answers;
#[cfg(feature = "otlp")]
mod otlp;
