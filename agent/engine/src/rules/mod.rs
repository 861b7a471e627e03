//! Rules in force, and one rule as it applies to a call.

mod rule_ranks;
mod emergency_limit;
mod active_rules;
mod matched_rule;
mod engine_rules;

pub(crate) use active_rules::{ActiveRules, RulesCache, RulesInForce};
pub(crate) use emergency_limit::EmergencyLimit;
pub(crate) use engine_rules::EngineRules;
pub(crate) use matched_rule::{Charges, EventualVerdict, MatchedRule, MatchedRules, Payment, is_of_slots, status};
pub use rule_ranks::RuleRanks;
