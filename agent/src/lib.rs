//! Tollgate's agent: rate limiting inside a gateway, or beside it.
//!
//! ```no_run
//! use tollgate::{Agent, Call};
//! # async fn handle(key: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder()
//!     .rules_file("rules.yaml")      // or .rule(Rule::per("per-key", &["api_key"], "100/min".parse()?))
//!     .redis("redis://10.0.0.5")     // left out: in memory
//!     .kafka("broker:9092")          // left out: stand-alone
//!     .start()?;
//! let call = Call::new().with("api_key", key).with("endpoint", "/search");
//! let decision = agent.check(&call).await; // never fails, never longer than the rule's deadline
//! if let Some(denied) = decision.denied() {
//!     println!("come back in {:?}", denied.retry_after());
//! }
//! # Ok(()) }
//! ```
//!
//! Without Redis the counters live in this process ([`store::MemoryStore`]): limits are per process. Neither server need be
//! there when an agent starts. Modules stand in the
//! order of their layers: each imports only what stands before it.

pub mod store;
pub mod request;
pub mod http_response;
pub mod explain;
mod metrics;
mod state_dir;
mod file_watch;
mod rules_source;
mod keys_file;
mod runtime;
mod agent;

pub use agent::{Agent, Builder, Readiness, StartError};
pub use keys_file::KeysFileError;
pub use rules_source::{RulesFileError, RulesSource, import_envoy, read_rules};
pub use tollgate_core::call::Call;
pub use tollgate_core::decision::{Decision, DecisionId, Denied, LimitStatus, Source};
pub use tollgate_core::rules::{Quota, Rule, RuleSet};
