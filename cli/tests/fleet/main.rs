//! Agents and aggregators as processes, over real Redis and real Kafka, while servers and processes fail.

#[path = "../commands/support.rs"]
#[allow(dead_code, reason = "shared with the tests of single commands")]
mod support;
mod fleet;
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
mod stopped;
mod starting;
mod processes;
mod parts;
mod settlements;
mod busy;
mod refused;
mod eventual;
mod local_answers;
