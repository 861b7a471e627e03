//! Agents through the public interface of the library, in memory and over real servers.

mod allocations;
mod any_resource;
mod busy_machine;
mod cached_denials;
mod clock_skew;
mod denied_requests;
mod example_redis_and_kafka;
mod fleet;
mod flood;
mod fresh_project;
mod generations;
mod joint_requests;
mod large_fleet;
mod late_store;
mod lost_answers;
mod lost_connections;
mod own_table;
mod redis_failures;
mod regions;
mod rule_origins;
mod several_rules;
mod shutdown;
mod store_clock_steps;
mod store_delays;
mod store_unavailable;
mod tokens;
