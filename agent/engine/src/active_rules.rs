//! The rules in force, with what is computed once per rule set.

use std::sync::Arc;

use tollgate_core::rules::{Index, RuleSet};

use crate::metrics::{EngineMetrics, RuleCounts};

/// The rules in force, with what is computed once per rule set.
#[derive(Debug)]
pub(crate) struct ActiveRules {
    pub(crate) set: RuleSet,
    pub(crate) index: Index,
    pub(crate) counts: Vec<Arc<RuleCounts>>,
    /// True if at most one rule has counters.
    pub(crate) has_one_limit: bool,
}

impl ActiveRules {
    /// Prepares a rule set.
    pub(crate) fn new(set: RuleSet, metrics: &EngineMetrics) -> Self {
        let counts = set.rules.iter().map(|rule| metrics.of_rule(&rule.name)).collect();
        let limits = set.rules.iter().filter(|rule| rule.all_policies().next().is_some()).count();
        Self { index: Index::new(&set.rules), set, counts, has_one_limit: limits <= 1 }
    }
}
