//! What a caller is told.

use std::fmt;
use std::sync::Arc;

use crate::clock::Timestamp;

/// What denies those who are on the deny list, where a rule would stand.
pub const DENY_LIST: &str = "lists.deny";

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The agent, by what the store had already proven, or because no rule applies.
    Local,
    /// The store.
    Store,
    /// The agent, by a signal of the aggregator, while the store did not answer.
    Signal,
    /// The agent alone, by the rule's `on_failure`.
    Fallback,
}

/// The name of a decision, unique in the fleet: which agent, which of its lives, which of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionId {
    /// The agent.
    pub agent: Arc<str>,
    /// When this life of the agent began, in ms since the epoch.
    pub epoch: u64,
    /// The number of the call in this life.
    pub call: u64,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the call may pass.
    pub allowed: bool,
    /// The rule that denied, else the one with the least part of its quota left; none when no rule applies.
    pub status: Option<LimitStatus>,
    /// How long the call must be held back before it goes on, in ms: its turn under a `leaky_bucket`, else 0.
    pub delay_ms: u64,
    /// Who decided.
    pub source: Source,
    /// When, in the store's time as well as the agent knows it.
    pub at: Timestamp,
    /// The decision's name.
    pub id: DecisionId,
}

/// How a decision stands to the rule that it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// The rule.
    pub rule: Arc<str>,
    /// Its quota, in units.
    pub limit: u64,
    /// Its window, in ms.
    pub window_ms: u64,
    /// The most that passes at once: the quota, or a burst.
    pub at_once: u64,
    /// What the call costs, in units; above what passes at once it can never pass.
    pub cost: u64,
    /// Units left in the window.
    pub remaining: u64,
    /// How long until the whole quota is free again if nothing else comes, in ms.
    pub reset_ms: u64,
    /// How long until the same call would pass if nothing else comes, in ms; 0 when it was allowed.
    pub retry_after_ms: u64,
}

/// A decision that is known to be a denial.
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    /// What denied.
    pub status: &'a LimitStatus,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Local, Self::Store, Self::Signal, Self::Fallback];

    /// Its name in answers, metrics and on the wire.
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
    /// The denial, if it is one.
    #[must_use]
    pub fn denied(&self) -> Option<Denied<'_>> {
        self.status.as_ref().filter(|_| !self.allowed).map(|status| Denied { status })
    }
}

impl Denied<'_> {
    /// How long the caller should stay away.
    #[must_use]
    pub fn retry_after(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.status.retry_after_ms)
    }
}
