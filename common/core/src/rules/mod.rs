//! Rules: the calls that are limited, the descriptors that select a counter, and the quota.
//!
//! A [`RuleSet`] is validated once, when it is built, and is not checked again. `tollgate-rules` turns text into rules and
//! holds the table of all settings with their parsers and displays; this module has neither, so that a program which writes
//! rules in code compiles no parser.

mod quota;
mod narrowness;
mod pattern;
mod descriptor;
mod limit_policy;
mod max_excess;
mod outage_bound;
mod match_rules;
mod index;
mod explain;
mod builder;
mod in_region;
pub mod problem;

use std::collections::HashMap;
use std::sync::Arc;

use crate::decision::{DegradedRemaining, DenyStatus};
use crate::regions::RegionFloorPart;
use crate::rules::problem::Problem;

pub use descriptor::{DescriptorSource, DescriptorSpec, MatchScope, ResolvedCall};
pub use explain::{ExplainedDescriptor, ExplainedRule, Explanation, MatchResult};
pub use index::{Index, Positions};
pub use limit_policy::{Consistency, LimitPolicy, OnFailure, PolicyError};
pub use match_rules::{ApplicableRule, ListMatch, Origin, TIER};
pub use narrowness::Narrowness;
pub use outage_bound::OutageBound;
pub use pattern::{Expression, Pattern, Patterns};
pub use quota::{Quota, QuotaError, Unit, UnitsError, parse_duration_ms, parse_units, show_duration_ms, show_units};

/// Default of the time that a call waits for the store, in ms.
pub const DEADLINE_MS_DEFAULT: u64 = 15;
/// Maximum of the time that a call waits for the store, in ms.
pub const DEADLINE_MS_MAX: u64 = 10_000;
/// Maximum number of rules in a set.
pub const RULES_LEN_MAX: usize = 10_000;

/// Version number of a rule set; newer sets have greater numbers.
pub type Generation = u64;

/// Conditions on descriptors; all of them must hold.
pub type Matches = Vec<(Arc<str>, Pattern)>;

/// Costs by the first pattern that matches.
pub type CostTable = Vec<(Pattern, u64)>;

/// All rules that an agent enforces at one time. A set replaces another one only if its generation is newer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RuleSet {
    /// Version number.
    pub generation: Generation,
    /// Origin of the rules, for display.
    pub origin: Arc<str>,
    /// Declared descriptors.
    #[doc(hidden)]
    pub descriptors: Vec<DescriptorSpec>,
    /// Descriptor whose value selects the slot of the store: counters of one value lie together.
    #[doc(hidden)]
    pub slot_by: Option<Arc<str>>,
    /// Callers that are never denied, and callers that always are.
    #[doc(hidden)]
    pub lists: Lists,
    /// HTTP status of denials by the deny list and by rules that deny every call.
    pub deny_status: DenyStatus,
    /// Remaining units that clients see while the store does not decide.
    pub degraded_remaining: DegradedRemaining,
    /// Regions that share the quotas of rules with a global scope.
    pub regions: Vec<RegionFloorPart>,
    /// The rules in the order of the file.
    pub rules: Vec<Arc<Rule>>,
    /// Warnings: valid parts that are probably not meant.
    #[doc(hidden)]
    pub warnings: Vec<Problem>,
}

/// Callers that are never denied, and callers that always are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Entries that are never denied, but still counted. They match verified values only.
    pub allow: Vec<Matches>,
    /// Entries that are always denied.
    pub deny: Vec<Matches>,
}

/// One rule as written: the calls that it matches, and its policies. The default limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Name, unique in the set.
    pub name: Arc<str>,
    /// Group of rules of which only the narrowest applies.
    pub group: Option<Arc<str>>,
    /// Conditions that must all hold.
    pub matches: Matches,
    /// Descriptors whose values select the counter. The rule does not apply to a call that lacks one of them.
    pub per: Vec<Arc<str>>,
    /// Policy of callers without a policy of their own; none when the rule does not limit them.
    pub policy: Option<LimitPolicy>,
    /// Policies by tier.
    pub by_tier: Vec<(Arc<str>, Option<LimitPolicy>)>,
    /// Policies of single callers, by the value of the first descriptor of `per`.
    pub by_key: HashMap<Box<str>, Option<LimitPolicy>>,
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
    /// Regions over which a counter is one.
    pub scope: Scope,
    /// Names of the rules that do not apply where this one does.
    pub replaces: Vec<Arc<str>>,
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

impl RuleSet {
    /// Creates a set of these rules, without declared descriptors.
    #[must_use]
    pub fn new(generation: Generation, rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules = rules.into_iter().map(Arc::new).collect();
        Self { generation, origin: "code".into(), rules, ..Self::default() }
    }

    /// Creates the empty set of an agent before the first publication: generation 0, under which every call passes.
    #[doc(hidden)]
    #[must_use]
    pub fn none_yet() -> Self {
        Self { origin: "none".into(), ..Self::new(0, []) }
    }

    /// Returns true if both sets enforce the same.
    #[doc(hidden)]
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.rules == other.rules
            && self.descriptors == other.descriptors
            && self.slot_by == other.slot_by
            && self.lists == other.lists
            && self.deny_status == other.deny_status
            && self.degraded_remaining == other.degraded_remaining
            && self.regions == other.regions
    }

    /// Returns true if the value of a descriptor must not be shown. An undeclared descriptor is treated as secret.
    #[doc(hidden)]
    #[must_use]
    pub fn is_secret(&self, descriptor: &str) -> bool {
        self.descriptors.iter().find(|spec| &*spec.name == descriptor).is_none_or(DescriptorSpec::is_secret)
    }
}
