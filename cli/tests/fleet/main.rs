//! The whole ring as processes of their own, over real Redis and real Kafka: agents, aggregators, and what becomes of them
//! when servers and processes die.

#[path = "../commands/support.rs"]
#[allow(dead_code, reason = "shared with the tests of single commands")]
mod support;
mod fleet;
mod log;
mod outage;
mod crashes;
mod failover;
mod members;
mod dead_letters;
mod rules;
mod stopped;
