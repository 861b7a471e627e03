//! Tollgate's aggregator: the shell around `tollgate-aggregator-engine`.
//!
//! The engine decides which partitions to count and what to signal; this crate gives it records, time and a thread, and
//! carries out its effects over a bus. It also answers HTTP, shows metrics, keeps dead letters, and copies published
//! rules to Redis. Modules are listed in the order of their layers: each one imports only the modules before it.

mod thread_group;
mod fault;
mod rules_reader;
mod dead_letters;
mod queries;
mod metrics;
mod analytics;
pub mod regions;
mod event_loop;
mod runtime;
pub mod rule_mirror;
pub mod api;

pub use analytics::Analytics;
pub use queries::Queries;
pub use rules_reader::{NewestRules, RulesReader};
pub use runtime::Aggregator;
pub use tollgate_aggregator_engine::analytics::AnalyticsSettings;
pub use tollgate_aggregator_engine::replay_window::ReplayWindow;
pub use tollgate_aggregator_engine::worker::{THRESHOLD_PERMILLE_DEFAULT, WorkerSettings};
