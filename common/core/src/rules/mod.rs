//! Rules: the calls that are limited, the descriptors that select a counter, and the quota.
//!
//! A [`RuleSet`] is validated once, when it is built, and is not checked again. `tollgate-rules` turns text into rules and
//! holds the table of all settings with their parsers and displays; this module has neither, so that a program which writes
//! rules in code compiles no parser.

pub mod problem;
mod units;
mod quota;
mod narrowness;
mod pattern;
mod policy_error;
mod limit_policy;
mod timed;
mod rule;
mod descriptor;
mod rule_set;
mod store_bound;
mod outage_bound;
mod match_rules;
mod index;
mod explain;
mod builder;
mod in_region;
mod in_force_at;
mod lowered;

pub use descriptor::{DescriptorSource, DescriptorSpec, ENDPOINT, MatchScope, ResolvedCall, TIER};
pub use explain::{ExplainedDescriptor, ExplainedRule, Explanation, MatchResult};
pub use index::{Index, Positions};
pub use limit_policy::{Consistency, DEADLINE_MS_DEFAULT, LimitPolicy, OnFailure};
pub use match_rules::{ApplicableRule, ListMatch, Origin};
pub use narrowness::Narrowness;
pub use outage_bound::OutageBound;
pub use pattern::{Expression, Pattern, Patterns};
pub use policy_error::{DEADLINE_MS_MAX, PolicyError};
pub use quota::{Quota, QuotaError, parse_duration_ms, show_duration_ms};
pub use rule::{Charging, CostTable, Matches, Rule, Scope};
pub use rule_set::{Generation, Lists, Numbering, RULES_LEN_MAX, RuleSet, TimedEntry};
pub use timed::{TimedCallers, TimedEnd, TimedException};
pub use units::{Unit, UnitsError, parse_units, show_units};
