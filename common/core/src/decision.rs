//! The result of a check: [`Decision`], its [`Source`], and the [`LimitStatus`] of the rule that it reports.
//!
//! The types are plain data; surfaces such as `tollgate::http_response` turn them into headers and bodies.

use std::fmt;

use crate::clock::Timestamp;
use crate::name::Name;

/// Name reported in place of a rule for calls that the deny list denies.
pub const DENY_LIST: &str = "lists.deny";

/// Authority that made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The agent, from a cached denial of the store, or because no rule applies.
    Local,
    /// The store.
    Store,
    /// The agent, from a signal of the aggregator, while the store was unavailable.
    Signal,
    /// The agent alone, by the rule's `on_failure`, without store or signals.
    Fallback,
}

/// Identifier of a decision, unique in the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionId {
    /// Name of the agent.
    pub agent: Name,
    /// Start of the agent's process, in ms since the Unix epoch.
    pub epoch: u64,
    /// Sequence number of the call since the start.
    pub call: u64,
}

/// Result of checking one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// True if the call may pass.
    pub allowed: bool,
    /// The denying rule, or else the rule with the smallest share of its quota left; `None` if no rule applies.
    pub status: Option<LimitStatus>,
    /// Delay in ms before the caller may forward the call: its turn under a `leaky_bucket`, else 0.
    pub delay_ms: u64,
    /// Authority that made the decision.
    pub source: Source,
    /// Time of the decision, in store time as estimated by the agent.
    pub at: Timestamp,
    /// Identifier of the decision.
    pub id: DecisionId,
}

/// State of one rule's limit at the time of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// Name of the rule.
    pub rule: Name,
    /// Quota in units.
    pub limit: u64,
    /// Window in ms.
    pub window_ms: u64,
    /// Maximum units that can be admitted at the same instant: the quota, or the burst.
    pub at_once: u64,
    /// Cost of the call in units. A call that costs more than `at_once` is never admitted.
    pub cost: u64,
    /// Units left in the window.
    pub remaining: u64,
    /// Time in ms until the whole quota is free again if no other call arrives.
    pub reset_ms: u64,
    /// Time in ms until the same call would be admitted if no other call arrives; 0 for an admitted call.
    pub retry_after_ms: u64,
}

/// Denial, obtained from [`Decision::denied`].
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    /// Status of the rule that denied the call.
    pub status: &'a LimitStatus,
}

impl Source {
    /// All sources.
    pub const ALL: [Self; 4] = [Self::Local, Self::Store, Self::Signal, Self::Fallback];

    /// Returns the name used in responses, metrics and wire records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Store => "store",
            Self::Signal => "signal",
            Self::Fallback => "fallback",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}-{:x}", self.agent, self.epoch, self.call)
    }
}

impl Decision {
    /// Returns the denial, or `None` if the call was admitted.
    #[must_use]
    pub fn denied(&self) -> Option<Denied<'_>> {
        self.status.as_ref().filter(|_| !self.allowed).map(|status| Denied { status })
    }
}

impl Denied<'_> {
    /// Returns the time after which the caller may retry.
    #[must_use]
    pub fn retry_after(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.status.retry_after_ms)
    }
}
