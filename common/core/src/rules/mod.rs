//! Rules: which calls are limited, counted by what, against which quota.
//!
//! A [`RuleSet`] is validated once, when it is built; whoever holds one need not ask again. The crate
//! `tollgate-rules` turns text into rules.

mod quota;
mod pattern;
mod descriptor;
mod limit_policy;
mod match_rules;
mod index;
mod explain;
mod builder;
pub mod display;
pub mod problem;

use std::collections::HashMap;
use std::sync::Arc;

use crate::rules::problem::Problem;

pub use descriptor::{DescriptorSource, DescriptorSpec, ResolvedCall};
pub use explain::{Explained, Explanation, Fact, Fate};
pub use index::Index;
pub use limit_policy::{Consistency, LimitPolicy, OnFailure, PolicyError, burst_default};
pub use match_rules::{ApplicableRule, ListMatch, Origin, TIER};
pub use pattern::{Pattern, Patterns};
pub use quota::{NotUnits, Quota, QuotaError, Unit, parse_duration_ms, parse_units, show_units};

/// How long a call waits for the store unless its rule says otherwise, in ms.
pub const DEADLINE_MS_DEFAULT: u64 = 5;
/// The most rules in a set.
pub const RULES_LEN_MAX: usize = 10_000;

/// The version of a rule set: a newer one is greater.
pub type Generation = u64;

/// Descriptors and what each must look like; all of them.
pub type Matches = Vec<(Arc<str>, Pattern)>;

/// What a call costs by the first pattern that matches.
pub type CostTable = Vec<(Pattern, u64)>;

/// Everything an agent enforces at one time.
#[derive(Clone, Debug)]
pub struct RuleSet {
    /// Which version this is.
    pub generation: Generation,
    /// Where it comes from, for people.
    pub origin: Arc<str>,
    /// How a request becomes descriptors.
    pub descriptors: Vec<DescriptorSpec>,
    /// Counters that are made by the value of this descriptor lie together in the store.
    pub slot_by: Option<Arc<str>>,
    /// Who is never denied, and who always.
    pub lists: Lists,
    /// The rules in the order of the file.
    pub rules: Vec<Arc<Rule>>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Problem>,
}

/// Who is never denied, and who always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Never denied, still counted; only by what was verified.
    pub allow: Vec<Matches>,
    /// Always denied.
    pub deny: Vec<Matches>,
}

/// Which calls are limited, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, unique in the set.
    pub name: Arc<str>,
    /// Of the rules of a group that apply only the most specific counts.
    pub group: Option<Arc<str>>,
    /// All of these must match.
    pub matches: Matches,
    /// The values of these descriptors choose the counter; a call without one of them is not limited by this rule.
    pub per: Vec<Arc<str>>,
    /// What it asks of a caller without policy of his own; none when it does not limit him.
    pub policy: Option<LimitPolicy>,
    /// What it asks of callers of a tier.
    pub by_tier: Vec<(Arc<str>, Option<LimitPolicy>)>,
    /// What it asks of single callers, by the value of the first descriptor of `per`.
    pub by_key: HashMap<Box<str>, Option<LimitPolicy>>,
    /// A descriptor that holds the quota itself, if it was verified.
    pub quota_from: Option<Arc<str>>,
    /// What a call costs; by default what it says itself.
    pub cost: Option<u64>,
    /// What a call costs by the value of a descriptor: that of the first pattern which matches.
    pub costs: Option<(Arc<str>, CostTable)>,
    /// When its counter is charged.
    pub charge: Charging,
    /// Whether it denies every call of which it speaks, and counts nothing.
    pub deny: bool,
    /// Whether it only counts and never denies.
    pub shadow: bool,
    /// The rules that do not apply where this one does.
    pub replaces: Vec<Arc<str>>,
}

/// When the counter of a rule is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// With all others of the call or not at all.
    #[default]
    AllOrNone,
    /// For each call, whoever denies it.
    Each,
}

impl RuleSet {
    /// A set of these rules, by whatever descriptors a call brings.
    #[must_use]
    pub fn new(generation: Generation, rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules = rules.into_iter().map(Arc::new).collect();
        let (descriptors, lists, warnings) = Default::default();
        Self { generation, origin: "code".into(), descriptors, slot_by: None, lists, rules, warnings }
    }

    /// The set of an agent that has not heard of any yet: generation 0, under which every call passes.
    #[must_use]
    pub fn none_yet() -> Self {
        Self { origin: "none".into(), ..Self::new(0, []) }
    }

    /// Whether both enforce the same in the same way.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.rules == other.rules
            && self.descriptors == other.descriptors
            && self.slot_by == other.slot_by
            && self.lists == other.lists
    }

    /// Whether the value of a descriptor must not be shown. What came from nowhere known is taken for a secret.
    #[must_use]
    pub fn is_secret(&self, descriptor: &str) -> bool {
        self.descriptors.iter().find(|spec| &*spec.name == descriptor).is_none_or(DescriptorSpec::is_secret)
    }
}
