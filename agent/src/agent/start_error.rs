//! The reason why an agent cannot start.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tollgate_core::rules::PolicyError;
use tollgate_files::FileError;

#[cfg(feature = "rules-file")]
use crate::rules_source::RulesFileError;
use crate::unenforceable::Unenforceable;

/// Error of starting an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The rules cannot be read.
    #[cfg(feature = "rules-file")]
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// The keys of tokens cannot be read.
    #[cfg(feature = "jwt")]
    #[error(transparent)]
    Keys(FileError),
    /// A store cannot enforce a rule.
    #[error("rule `{0}` cannot be enforced: {1}")]
    Rule(Arc<str>, PolicyError),
    /// Two rules would share their counters.
    #[error("two rules have the name `{0}`; give each rule a name of its own")]
    SameName(Arc<str>),
    /// The agent cannot enforce a rule: it lacks a store, or its region has no part of the quota.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
    /// There are no rules.
    #[error("an agent needs rules: give a rules file, a rule set or a rule")]
    NoRules,
    /// A cap is outside its range.
    #[error("`{name}` cannot be {value}: give a number from {} to {}", range.start(), range.end())]
    Cap {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Values that it may have.
        range: RangeInclusive<u64>,
    },
    /// The address of Redis is not valid.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Redis(#[from] crate::store::RedisAddressError),
    /// The settings of Kafka are not valid.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] tollgate_bus::BusError),
    /// The state folder cannot be used.
    #[error(transparent)]
    StateDir(FileError),
    /// There is no tokio runtime.
    #[error(
        "an agent runs its tasks on tokio, and no runtime was found: call `start` inside one, such as in a function with #[tokio::main]"
    )]
    NoRuntime,
    /// The tokio runtime has no timers.
    #[error("an agent needs timers, and the tokio runtime has none: build it with `enable_all`")]
    NoTimers,
    /// The system refused a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}
