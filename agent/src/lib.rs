//! Tollgate's agent: rate limiting inside a gateway, or beside it.
//!
//! ```no_run
//! use tollgate::{Agent, Call, Rule};
//! # async fn handle(key: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder()
//!     .rule(Rule::per("per-key", &["api_key"], "100/min".parse()?)) // or .rules_file("rules.yaml")
//!     // .redis("redis://10.0.0.5")    without it, the counters are in this process
//!     // .kafka("broker:9092")         without it, the agent publishes nothing
//!     .start()?;
//! let call = Call::new().with("api_key", key).with("endpoint", "/search");
//! let decision = agent.check(&call).await; // never fails, and never takes longer than the rule's deadline
//! if let Some(denied) = decision.denied() {
//!     println!("retry in {:?}", denied.retry_after());
//! }
//! # Ok(()) }
//! ```
//!
//! Without Redis, the counters are in the memory of the agent and limits are per process. Redis and Kafka may be
//! unavailable when an agent starts. The behaviour of an agent is in `tollgate_engine`, which has no I/O; this crate executes
//! its effects. The features `rules-file` (default), `redis`, `kafka`, `kafka-tls`, `jwt` and `metrics` add what their names
//! say, and `bus` any other [`Builder`] bus. Modules are listed in the order of their layers: each imports only the modules
//! before it.

pub mod store;
pub mod request;
pub mod http_response;
#[cfg(feature = "rules-file")]
pub mod explain;
#[cfg(feature = "metrics")]
mod metrics;
mod file_error;
mod state_dir;
#[cfg(any(feature = "rules-file", feature = "jwt"))]
mod file_watch;
#[cfg(feature = "rules-file")]
mod rules_source;
#[cfg(feature = "jwt")]
mod keys_file;
mod runtime;
mod agent;

pub use agent::{Agent, Builder, StartError};
pub use file_error::FileError;
#[cfg(feature = "rules-file")]
pub use rules_source::{RulesFileError, RulesSource, import_envoy, read_rules};
pub use tollgate_core::call::Call;
pub use tollgate_core::decision::{Decision, DecisionId, Denied, LimitStatus, Source};
pub use tollgate_core::name::Name;
pub use tollgate_core::rules::{Quota, Rule, RuleSet};
