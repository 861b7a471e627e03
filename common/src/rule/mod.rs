//! Rules: which calls are limited, counted by what, against which quota.
//!
//! A [`RuleSet`] is validated once, when it is built; whoever holds one need not ask again. Text becomes rules by
//! [`RuleSet::from_yaml`] and [`RuleSet::from_shorthand`] (`100/min per ip`), both with errors that name place, reason and
//! remedy.

mod quota;
mod pattern;
mod descriptor;
mod file;
mod shorthand;
mod published;
pub mod import;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Limit};
use crate::call::Call;
use crate::problem::Problem;
use crate::window::Window;

pub use descriptor::{DescriptorSource, DescriptorSpec};
pub use pattern::Pattern;
pub use published::Published;
pub use quota::{Quota, QuotaError, parse_duration_ms};
pub use shorthand::ShorthandError;

/// How long a call waits for the store unless its rule says otherwise, in ms.
pub const DEADLINE_MS_DEFAULT: u64 = 5;
/// The most rules in a set.
pub const RULES_LEN_MAX: usize = 1_000;
/// The largest rules file, in bytes.
pub const FILE_LEN_MAX: usize = 4 << 20;

/// The version of a rule set: a newer one is greater.
pub type Generation = u64;

/// Everything an agent enforces at one time.
#[derive(Clone, Debug)]
pub struct RuleSet {
    /// Which version this is.
    pub generation: Generation,
    /// Where it comes from, for people.
    pub origin: Arc<str>,
    /// How a request becomes descriptors.
    pub descriptors: Vec<DescriptorSpec>,
    /// The rules in the order of the file.
    pub rules: Vec<Arc<Rule>>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<Problem>,
}

/// Which calls are limited, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, unique in the set.
    pub name: Arc<str>,
    /// All of these must match.
    pub matches: Vec<(Arc<str>, Pattern)>,
    /// The values of these descriptors choose the counter; a call without one of them is not limited by this rule.
    pub per: Vec<Arc<str>>,
    /// How much in which window.
    pub quota: Quota,
    /// The quota's window and its sub-windows.
    pub window: Window,
    /// How it is counted.
    pub algorithm: Algorithm,
    /// How certain an admission must be.
    pub consistency: Consistency,
    /// What to do when neither the store nor a fresh signal can tell.
    pub on_failure: OnFailure,
    /// How long a call waits for the store.
    pub deadline: Duration,
}

/// How certain an admission must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The store is asked for each admission.
    Strict,
    /// A small excess may pass; until allowances exist it is decided as strict.
    Bounded,
}

/// What an agent does when it is on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Admit an equal share of the quota: quota / active agents.
    Share,
    /// Admit all.
    Open,
    /// Deny all.
    Closed,
    /// Admit so much on each agent.
    Limit(Quota),
}

impl RuleSet {
    /// A set of these rules, by whatever descriptors a call brings.
    #[must_use]
    pub fn new(generation: Generation, rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules = rules.into_iter().map(Arc::new).collect();
        Self { generation, origin: "code".into(), descriptors: Vec::new(), rules, warnings: Vec::new() }
    }

    /// The set of an agent that has not heard of any yet: generation 0, under which every call passes.
    #[must_use]
    pub fn none_yet() -> Self {
        Self { origin: "none".into(), ..Self::new(0, []) }
    }

    /// Whether both enforce the same in the same way.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.rules == other.rules && self.descriptors == other.descriptors
    }

    /// Whether the value of a descriptor must not be shown. What came from nowhere known is taken for a secret.
    #[must_use]
    pub fn is_secret(&self, descriptor: &str) -> bool {
        self.descriptors.iter().find(|spec| &*spec.name == descriptor).is_none_or(DescriptorSpec::is_secret)
    }
}

impl Rule {
    /// Whether the rule limits a call: it has every descriptor of `per`, and everything in `match` matches.
    #[must_use]
    pub fn applies_to(&self, call: &Call<'_>) -> bool {
        self.per.iter().all(|name| call.get(name).is_some())
            && self.matches.iter().all(|(name, pattern)| call.get(name).is_some_and(|value| pattern.matches(value)))
    }

    /// The values of `per` in a call to which the rule applies.
    #[must_use]
    pub fn values<'c>(&self, call: &'c Call<'_>) -> SmallVec<[&'c str; 4]> {
        self.per.iter().filter_map(|name| call.get(name)).collect()
    }

    /// What a store step is judged by.
    #[must_use]
    pub fn limit(&self) -> Limit {
        Limit { algorithm: self.algorithm, units: self.quota.units(), window: self.window }
    }
}
