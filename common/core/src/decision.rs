//! The result of a check: [`Decision`], its [`Source`], and the [`LimitStatus`] of the rule that it reports.
//!
//! The types are plain data; surfaces such as `tollgate::http_response` turn them into headers and bodies. They may grow
//! (`#[non_exhaustive]`). `Algorithm` and `StoreError` are not marked, so that the compiler makes each of our own crates
//! handle a new variant.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::decision_id::DecisionId;
use crate::name::Name;
use crate::own_answer::OwnAnswer;

/// Name reported in place of a rule for calls that the deny list denies.
pub const DENY_LIST: &str = "lists.deny";

/// Name reported in place of a rule while the emergency switch is on.
pub const EMERGENCY: &str = "emergency";

/// Authority that made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// The agent, by a lease or a cached denial of the store, or because no rule applies.
    Local,
    /// The store.
    Store,
    /// The agent, from a signal of the aggregator, while the store was unavailable.
    Signal,
    /// The agent alone, by the rule's `on_failure`, without store or signals.
    Fallback,
}

/// Reason for which an agent made a decision on its own while the store was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LocalAnswer {
    /// A denial, which the agent repeated.
    CachedDenial,
    /// A lease: the store had charged the units before.
    Lease,
    /// This agent's part of the quota: the answer of the store was late, and the agent admitted the call.
    Part,
    /// The answer of the store was late, and the agent denied the call.
    Late,
}

/// Result of checking one call, as data. The library's `Agent::check` returns it as the `Ok` or the `Err` of a `Result`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[must_use]
pub struct Decision {
    /// True if the call may pass.
    pub allowed: bool,
    /// The denying rule, or else the rule with the smallest part left of what may pass at once. A rule in shadow is here
    /// only if all rules that apply are in shadow. `None` if no rule applies.
    pub status: Option<LimitStatus>,
    /// The other rules that apply, in their order, if [`MatchScope::tells_all`](crate::rules::MatchScope::tells_all) asks for them.
    /// A denial that the agent repeats has none, because only the denying rule is known.
    pub others: Box<[LimitStatus]>,
    /// True if the call is over the limit of a rule in quota mode, and is allowed all the same.
    pub is_over_quota: bool,
    /// True if a rule in shadow is known to deny the call.
    pub is_shadow_denied: bool,
    /// Delay in ms before the caller may forward the call: its turn under a `leaky_bucket`, else 0.
    pub delay_ms: u64,
    /// True if the call holds slots of `concurrency` rules, which its end must release.
    pub holds_slots: bool,
    /// True if no counter was charged, because the emergency switch decided: there is nothing to settle.
    pub is_uncounted: bool,
    /// Authority that made the decision.
    pub source: Source,
    /// Answer of the store by which the agent decided on its own; `None` if another source decided, or no counter.
    pub by: Option<LocalAnswer>,
    /// Time of the decision, in store time as estimated by the agent. Of a call that several primaries count, that of the first
    /// rule's primary.
    pub at: Timestamp,
    /// Time in ms from `at` to the instant at which each further rule counts the call, by the clock of its primary; empty if all
    /// rules count it at `at`.
    #[doc(hidden)]
    pub counted_after_ms: Box<[i64]>,
    /// Identifier of the decision.
    pub id: DecisionId,
}

/// State of one rule's limit at the time of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitStatus {
    /// Name of the rule.
    pub rule: Name,
    /// Kind of the limit.
    pub kind: LimitKind,
    /// Quota in units, or number of slots.
    pub limit: u64,
    /// Window in ms, or the time after which a slot without a release is free.
    pub window_ms: u64,
    /// Maximum units that can be admitted at the same instant: the quota, or the burst.
    pub at_once: u64,
    /// True if the rule is in shadow: it is counted and never denies, and clients should not see it.
    pub shadow: bool,
    /// Cost of the call in units.
    pub cost: u64,
    /// Largest cost that the rule ever admits, if the call was denied because it costs more: no retry of it passes.
    pub cost_max: Option<NonZeroU64>,
    /// Units that can be admitted after this decision, at most `at_once`.
    pub remaining: u64,
    /// True if no store decides under the rule (`consistency: eventual`), so an answer by signal is none of an outage.
    pub is_eventual: bool,
    /// True if clients should not see `remaining`, because the store does not answer.
    pub hides_remaining: bool,
    /// Time in ms until the whole quota is free again if no other call arrives.
    pub reset_ms: u64,
    /// Time in ms until the same call would be admitted if no other call arrives; 0 for an admitted call. With `cost_max`,
    /// it has no meaning.
    pub retry_after_ms: u64,
    /// Own answer of the rule; none if it answers like all others.
    pub own_answer: Option<Arc<OwnAnswer>>,
}

/// Kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKind {
    /// Units in a window.
    Window,
    /// Calls at a time (`concurrency`); each has a slot until its release.
    Slots,
    /// Denial of every call, by the deny list or by a rule with `deny: true`.
    Denial(DenyStatus),
}

/// Value of `X-RateLimit-Remaining` while the store does not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DegradedRemaining {
    /// Units that this agent alone may still admit.
    #[default]
    Estimate,
    /// -1: the number is not known.
    Unknown,
}

/// HTTP status of a denial regardless of any count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DenyStatus {
    /// 429, the status of all other denials, with the time of a retry.
    #[default]
    TooManyRequests,
    /// 403, without a time.
    Forbidden,
}

impl Source {
    /// All sources.
    #[doc(hidden)]
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

    /// Returns true if the decision was made because the store does not answer.
    #[must_use]
    pub const fn is_degraded(self) -> bool {
        matches!(self, Self::Signal | Self::Fallback)
    }
}

impl LocalAnswer {
    /// Returns the name used in responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CachedDenial => "cached_denial",
            Self::Lease => "lease",
            Self::Part => "part",
            Self::Late => "late",
        }
    }
}

impl DegradedRemaining {
    /// Returns the name used in rules files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Estimate => "estimate",
            Self::Unknown => "-1",
        }
    }
}

impl DenyStatus {
    /// Returns the status code.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::TooManyRequests => 429,
            Self::Forbidden => 403,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Decision {
    /// Creates a decision without status, delay and slots.
    #[doc(hidden)]
    pub fn new(allowed: bool, source: Source, at: Timestamp, id: DecisionId) -> Self {
        Self {
            allowed,
            status: None,
            others: Box::default(),
            is_over_quota: false,
            is_shadow_denied: false,
            delay_ms: 0,
            holds_slots: false,
            is_uncounted: false,
            source,
            by: None,
            at,
            counted_after_ms: Box::default(),
            id,
        }
    }

    /// Returns true if a part of the deployment that should have decided does not answer: the store, or under
    /// `consistency: eventual` the signals.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        let is_by_design =
            self.source == Source::Signal && self.status.as_ref().is_some_and(|status| status.is_eventual);
        self.source.is_degraded() && !is_by_design
    }

    /// Creates a decision by one rule that holds no slots.
    #[doc(hidden)]
    #[inline]
    pub fn of_rule(
        allowed: bool,
        (source, by): (Source, Option<LocalAnswer>),
        at: Timestamp,
        id: DecisionId,
        status: LimitStatus,
        delay_ms: u64,
    ) -> Self {
        let mut decision = Self::new(allowed, source, at, id);
        (decision.status, decision.by, decision.delay_ms) = (Some(status), by, delay_ms);
        decision
    }
}

impl LimitStatus {
    /// Creates the status of a rule that admits nothing: all numbers except the cost are 0.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn new(rule: Name, kind: LimitKind, cost: u64) -> Self {
        let (limit, window_ms, at_once, remaining, reset_ms, retry_after_ms) = (0, 0, 0, 0, 0, 0);
        let (shadow, is_eventual, hides_remaining) = (false, false, false);
        Self {
            rule,
            kind,
            limit,
            window_ms,
            at_once,
            shadow,
            cost,
            cost_max: None,
            remaining,
            is_eventual,
            hides_remaining,
            reset_ms,
            retry_after_ms,
            own_answer: None,
        }
    }
}
