//! Exceptions of a rule that end by themselves. `in_force_at` puts them in their place.

use std::sync::Arc;

use super::limit_policy::LimitPolicy;
use crate::clock::Timestamp;

/// Exception of a rule for one caller or tier, which ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedException {
    /// Callers of the exception.
    pub callers: TimedCallers,
    /// Policy until the end; none when the rule does not limit them.
    pub policy: Option<LimitPolicy>,
    /// Policies of a key by the tier of its call, where they differ.
    pub by_tier: Vec<(Arc<str>, Option<LimitPolicy>)>,
    /// End of the exception.
    pub end: TimedEnd,
}

/// Callers of a [`TimedException`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimedCallers {
    /// Value of the first descriptor of `per`.
    Key(Box<str>),
    /// Tier.
    Tier(Arc<str>),
    /// All callers without another exception: the quota before a lower one, which no file contains.
    All,
}

/// End of an exception or a list entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedEnd {
    /// First instant without it, in store time.
    pub until: Timestamp,
    /// Reason that an operator has given; empty without one.
    pub reason: Arc<str>,
}
