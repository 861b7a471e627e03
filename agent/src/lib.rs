//! Rate limiting for API gateways, inside one process or across a fleet.
//!
//! An [`Agent`] decides calls by rules. A [`Call`] is a set of named values with a cost; a [`Rule`] limits the calls
//! that have the same values; [`Agent::check`] returns an [`Admission`] or a [`Denial`].
//!
//! ```
//! use tollgate::{Agent, Call, Rule};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder()
//!     .rule(Rule::per("per-key", &["api_key"], "100/min".parse()?)) // or .rules_file("rules.yaml")
//!     // .redis("redis://10.0.0.5")    without it, the counters are in this process
//!     // .kafka("broker:9092")         without it, the agent publishes nothing
//!     .start()?;
//! let call = Call::new().with("api_key", "k1").with("endpoint", "/search");
//! match agent.check(&call).await {
//!     Ok(admission) => println!("forward the call after {:?}", admission.delay()),
//!     Err(denial) => println!("respond with 429; retry after {:?}: {denial}", denial.retry_after()),
//! }
//! agent.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! Without Redis, the counters are in the memory of the agent, and limits are per process. Redis and Kafka may be
//! unavailable when an agent starts and while it runs: checks neither fail nor wait longer than the deadline of their rules.
//!
//! | feature | adds |
//! | --- | --- |
//! | `rules-file` (default) | rules files in YAML, published rules |
//! | `redis` | counters in Redis, which a fleet of agents shares |
//! | `redis-tls` | TLS to Redis |
//! | `kafka`, `kafka-tls` | calls are published to Kafka, and signals of the aggregators are read |
//! | `jwt` | descriptors from the claims of bearer tokens |
//! | `metrics` | metrics in the OpenMetrics text format |
//! | `bus` | part of `kafka`: other buses than Kafka |
//!
//! Rules files, wire format, bus and Redis are crates of their own. With `default-features = false`, a gateway that
//! writes its rules in code compiles none of them. Compiling librdkafka alone takes about a minute.
//!
//! The folder `examples` of the crate has complete programs. The times of all types are in milliseconds since the Unix
//! epoch, and durations are in milliseconds where the name ends in `_ms`.
// The behaviour of an agent is in `tollgate_engine`, which has no I/O; this crate executes its effects. Modules are
// listed in the order of their layers: each imports only the modules before it. Hidden items are for Tollgate's own
// crates: they may change in any version.

#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod request;
pub mod http_response;
#[cfg(feature = "rules-file")]
#[doc(hidden)]
pub mod explain;
#[cfg(feature = "metrics")]
mod check_durations;
#[cfg(feature = "metrics")]
mod metrics;
mod unenforceable;
mod state_dir;
#[cfg(any(feature = "rules-file", feature = "jwt"))]
mod file_watch;
#[cfg(feature = "rules-file")]
mod rules_source;
#[cfg(feature = "jwt")]
mod keys_file;
mod runtime;
mod agent;
#[cfg(feature = "rules-file")]
#[doc(hidden)]
pub mod envoy_rate_limit;

pub use agent::{Admission, Agent, Builder, Denial, Permit, ReleaseToken, ReleaseTokenError, StartError};
#[doc(hidden)]
pub use agent::{AskedDecision, RuleBudget};
#[cfg(any(feature = "rules-file", feature = "jwt"))]
#[doc(hidden)]
pub use file_watch::{FileWatch, watch_files};
pub use request::Request;
#[cfg(feature = "jwt")]
pub use request::jwt::TokenRequirements;
#[cfg(feature = "rules-file")]
pub use rules_source::{RulesFileError, RulesSource};
#[cfg(feature = "rules-file")]
#[doc(hidden)]
pub use rules_source::{RulesFiles, import_envoy, read_rules};
pub use store::StoreError;
#[doc(hidden)]
pub use store::{AnyStore, ChargeStore};
#[cfg(feature = "redis")]
pub use store::{HashSlots, RedisAddressError, RedisCredentials, RedisSettings, RedisTlsFiles};
#[cfg(feature = "kafka")]
pub use tollgate_bus::{BusError, kafka::KafkaSettings};
pub use tollgate_core::call::Call;
pub use tollgate_core::clock::Timestamp;
#[doc(hidden)]
pub use tollgate_core::decided_call::DecidedCall;
pub use tollgate_core::decision::{
    Decision, DegradedRemaining, DenyStatus, LimitKind, LimitStatus, LocalAnswer, Source,
};
pub use tollgate_core::decision_id::DecisionId;
pub use tollgate_core::name::Name;
pub use tollgate_core::rules::{Quota, Rule, RuleSet};
pub use tollgate_engine::{CallerReset, ResetEffect, ResetRule};
pub use unenforceable::Unenforceable;

/// Parts of rules that are written in Rust, and the errors of rules.
pub mod rules {
    pub use tollgate_core::algorithm::Algorithm;
    pub use tollgate_core::own_answer::{DenialBody, ErrorStatus, FieldValue, OwnAnswer};
    pub use tollgate_core::rules::problem::{Problem, Problems};
    pub use tollgate_core::rules::{Charging, Consistency, LimitPolicy, OnFailure, PolicyError, QuotaError};
    pub use tollgate_core::window::Estimate;
    #[cfg(feature = "rules-file")]
    pub use tollgate_rules::import::EnvoySettings;
}

/// Program in the README.
#[cfg(all(doctest, feature = "rules-file", feature = "redis", feature = "kafka"))]
#[doc = include_str!("../../README.md")]
struct Readme;
