//! One rule as written: its conditions, its policies, and the counters that it charges.

use std::collections::HashMap;
use std::sync::Arc;

use super::limit_policy::LimitPolicy;
use super::pattern::Pattern;
use super::timed::{TimedCallers, TimedException};
use crate::own_answer::OwnAnswer;

/// Conditions on descriptors; all of them must hold.
pub type Matches = Vec<(Arc<str>, Pattern)>;

/// Costs by the first pattern that matches.
pub type CostTable = Vec<(Pattern, u64)>;

/// Policies by tier; none for a tier that the rule does not limit.
type PoliciesByTier = Vec<(Arc<str>, Option<LimitPolicy>)>;

/// One rule as written: the calls that it matches, and its policies. The default limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the rules file")]
pub struct Rule {
    /// Name, unique in the set.
    pub name: Arc<str>,
    /// Owner of the file of the rule, such as a team.
    pub owner: Option<Arc<str>>,
    /// Group of rules of which only the narrowest applies.
    pub group: Option<Arc<str>>,
    /// Conditions that must all hold.
    pub matches: Matches,
    /// Restriction to calls that have no other descriptors than those of `matches` and `per`.
    pub exact_match: bool,
    /// Descriptors whose values select the counter. The rule does not apply to a call that lacks one of them.
    pub per: Vec<Arc<str>>,
    /// Policy of callers without a policy of their own; none when the rule does not limit them.
    pub policy: Option<LimitPolicy>,
    /// Policies by tier.
    pub by_tier: PoliciesByTier,
    /// Policies of single callers, by the value of the first descriptor of `per`.
    pub by_key: HashMap<Box<str>, Option<LimitPolicy>>,
    /// Policies of single callers by the tier of their calls, where they differ from those in `by_key`.
    #[doc(hidden)]
    pub by_key_and_tier: HashMap<Box<str>, PoliciesByTier>,
    /// Exceptions that end by themselves.
    #[doc(hidden)]
    pub timed: Vec<TimedException>,
    /// Descriptor that holds the quota itself; only a verified value counts.
    pub quota_from: Option<Arc<str>>,
    /// Cost of a call; by default the cost that the call itself has.
    pub cost: Option<u64>,
    /// Cost of a call by the value of a descriptor; the first pattern that matches wins.
    pub costs: Option<(Arc<str>, CostTable)>,
    /// Condition for charging the counter.
    pub charge: Charging,
    /// Denies every call that matches, and counts nothing.
    pub deny: bool,
    /// Counts and never denies.
    pub shadow: bool,
    /// Denies a request only if all rules in quota mode that apply to it are over their limits.
    pub quota_mode: bool,
    /// Gives back units that a caller does not prove by the id of a decision.
    pub refunds: bool,
    /// Keeps the quota before a lower one until the next edge of the window.
    pub lowers_at_edge: bool,
    /// Regions over which a counter is one.
    pub scope: Scope,
    /// Names of the rules that do not apply where this one does.
    pub replaces: Vec<Arc<str>>,
    /// Own answer of the rule; none if it answers like all others.
    pub own_answer: Option<Arc<OwnAnswer>>,
}

impl Rule {
    /// Returns true if both rules were written alike.
    pub(super) fn is_written_as(&self, other: &Self) -> bool {
        let has_kept_quota = |rule: &Self| rule.timed.iter().any(|timed| timed.callers == TimedCallers::All);
        let written = |rule: &Self| {
            let mut rule = rule.clone();
            rule.timed.retain(|timed| timed.callers != TimedCallers::All);
            rule
        };
        self == other || (has_kept_quota(self) || has_kept_quota(other)) && written(self) == written(other)
    }
}

/// Condition for charging the counter of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// Only if all rules of the call admit it.
    #[default]
    AllOrNone,
    /// For each call, even if another rule denies it.
    Each,
}

/// Regions over which a counter of a rule is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Each region has a counter of its own, and the whole quota.
    #[default]
    Regional,
    /// All regions share one quota, in budgets that move to the demand.
    Global,
}
