//! The rules that an agent enforces at one time, with the descriptors and lists that they use.

use std::sync::Arc;

use super::descriptor::{DescriptorSpec, MatchScope, ResolvedCall, TIER};
use super::problem::Problem;
use super::rule::{Matches, Rule};
use super::timed::TimedEnd;
use crate::call::Call;
use crate::counter::DigestKey;
use crate::decision::{DegradedRemaining, DenyStatus};
use crate::own_answer::OwnAnswer;
use crate::regions::RegionFloorRatio;

/// Maximum number of rules in a set.
pub const RULES_LEN_MAX: usize = 10_000;

/// Version number of a rule set; newer sets have greater numbers.
pub type Generation = u64;

/// Origin of generations. The generations of two origins cannot be compared: the set of another origin replaces the one in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Numbering {
    /// `version:` of a rules file, or a number that a program gave.
    #[default]
    Version,
    /// Time at which an agent read the rules, by its own clock in ms.
    LoadTime,
    /// Place of a publication.
    Publication,
}

/// All rules that an agent enforces at one time. A set replaces another one of the same numbering only if its generation is newer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RuleSet {
    /// Version number.
    pub generation: Generation,
    /// Origin of the version number.
    pub numbering: Numbering,
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
    /// Own answer of decisions without a rule of the set: by the deny list, and by the emergency switch.
    pub own_answer: Option<Arc<OwnAnswer>>,
    /// Remaining units that clients see while the store does not decide.
    pub degraded_remaining: DegradedRemaining,
    /// Regions that share the quotas of rules with a global scope.
    pub regions: Vec<RegionFloorRatio>,
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
    /// Entries that end by themselves.
    pub timed: Vec<TimedEntry>,
}

/// Entry of `lists` that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedEntry {
    /// True for `lists.deny`, false for `lists.allow`.
    pub denies: bool,
    /// Conditions of the entry.
    pub matches: Matches,
    /// End of the entry.
    pub end: TimedEnd,
}

impl Numbering {
    /// Returns the name under which agents announce rules of this numbering.
    #[doc(hidden)]
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::LoadTime => "load-time",
            Self::Publication => "publication",
        }
    }
}

impl RuleSet {
    /// Returns the rules with all of them in shadow and an empty deny list.
    #[doc(hidden)]
    #[must_use]
    pub fn in_shadow(mut self) -> Self {
        self.rules.iter_mut().for_each(|rule| Arc::make_mut(rule).shadow = true);
        self.lists.deny.clear();
        self.lists.timed.retain(|entry| !entry.denies);
        self
    }

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

    /// Returns true if this set may replace the other one.
    #[doc(hidden)]
    #[must_use]
    pub fn may_replace(&self, other: &Self) -> bool {
        self.numbering != other.numbering
            || self.generation > other.generation
            || self.generation == other.generation && self.is_equivalent(other)
    }

    /// Returns true if both sets enforce the same.
    #[doc(hidden)]
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.rules.len() == other.rules.len()
            && self.rules.iter().zip(&other.rules).all(|(rule, other)| rule.is_written_as(other))
            && self.descriptors == other.descriptors
            && self.slot_by == other.slot_by
            && self.lists == other.lists
            && self.deny_status == other.deny_status
            && self.own_answer == other.own_answer
            && self.degraded_remaining == other.degraded_remaining
            && self.regions == other.regions
    }

    /// Returns the values by which a rule counts a call, as people see them: secrets are digested.
    #[must_use]
    pub fn label(&self, rule: &Rule, call: &Call<'_>, key: &DigestKey) -> String {
        if rule.per.is_empty() {
            return "(all calls)".to_owned();
        }
        let call = self.resolved(call);
        let value = |name: &str| key.shown(call.get(name).unwrap_or_default(), self.is_secret(name));
        rule.per.iter().map(|name| format!("{name}={}", value(name))).collect::<Vec<_>>().join(" ")
    }

    /// Returns true if the value of a descriptor must not be shown. An undeclared descriptor is treated as secret.
    #[doc(hidden)]
    #[must_use]
    pub fn is_secret(&self, descriptor: &str) -> bool {
        // The tier that a gateway names is one of the rules'.
        let known = self.descriptors.iter().find(|spec| &*spec.name == descriptor);
        known.map_or(descriptor != TIER, DescriptorSpec::is_secret)
    }

    /// Returns a call whose gateway names its descriptors, with the values that the same request has over HTTP.
    #[doc(hidden)]
    #[must_use]
    pub fn as_requested<'c>(&self, mut call: Call<'c>) -> Call<'c> {
        for spec in &self.descriptors {
            call.change(&spec.name, |text| spec.source.value_of(text));
        }
        call
    }

    /// Resolves a call: adds the derived descriptors.
    #[doc(hidden)]
    #[must_use]
    pub fn resolved<'a>(&'a self, call: &'a Call<'_>) -> ResolvedCall<'a> {
        self.resolved_within(call, MatchScope::default())
    }

    /// Resolves a call to which only the rules and list entries of a scope may apply.
    #[doc(hidden)]
    #[must_use]
    pub fn resolved_within<'a>(&'a self, call: &'a Call<'_>, scope: MatchScope<'a>) -> ResolvedCall<'a> {
        let (descriptors, unverified) = call.parts();
        ResolvedCall::new(descriptors, unverified, scope, &self.descriptors)
    }
}
