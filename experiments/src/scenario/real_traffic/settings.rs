//! Parameters of the experiment, the cells that they make, and the numbers of these.

use indexmap::IndexMap;
use serde::Deserialize;
use tollgate::RuleSet;
use tollgate_core::rules::Quota;
use tollgate_sim::figures::{self, ratio};

use super::cell::TrafficCell;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RealTrafficSettings {
    /// Quota of each client address.
    pub(super) quota: String,
    /// Algorithms with their consistencies, such as `sliding_window strict`. `sliding_window strict and 1000/d` has a second rule.
    pub(super) rules: Vec<String>,
    /// Burst of the buckets, in units.
    pub(super) burst: u64,
    pub(super) agents: Vec<usize>,
    /// Delay of the store's answers, in ms.
    pub(super) store_delay_ms: u64,
    /// Delay of each record of the bus, in ms.
    pub(super) signal_delay_ms: u64,
}

impl RealTrafficSettings {
    pub(super) fn rule_set(&self, rule: &str) -> Result<RuleSet, String> {
        let (rule, second) = rule.split_once(" and ").map_or((rule, None), |(rule, second)| (rule, Some(second)));
        let (algorithm, consistency) = rule.split_once(' ').ok_or("write an algorithm and a consistency")?;
        let burst = if algorithm.ends_with("_bucket") { format!(", burst: {}", self.burst) } else { String::new() };
        let settings = format!("quota: {}, algorithm: {algorithm}, consistency: {consistency}{burst}", self.quota);
        let second = second.map(|quota| format!(", {{ name: second, per: [ip], quota: {quota} }}")).unwrap_or_default();
        let text = format!("version: 1\nrules: [{{ name: per-ip, per: [ip], {settings} }}{second}]");
        tollgate_rules::from_yaml("rule", &text, 1).map_err(|problems| problems.to_string())
    }

    /// Returns the rule and the number of agents of each cell, in the order of the cells.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, usize)> {
        self.rules.iter().flat_map(|rule| self.agents.iter().map(|agents| (rule.as_str(), *agents)))
    }

    pub(super) fn numbers(&self, cells: &[TrafficCell]) -> IndexMap<String, f64> {
        let mut numbers = IndexMap::new();
        for ((rule, agents), cell) in self.places().zip(cells) {
            let mut number =
                |name: &str, value| numbers.insert(format!("{rule}, {}: {name}", figures::agents(agents)), value);
            number("denied, % of calls", 100.0 * ratio(cell.denied, cell.calls));
            number("over-admitted, % of admissions", 100.0 * ratio(cell.over_admitted, cell.admitted));
            number("under-admitted, % of calls", 100.0 * ratio(cell.under_admitted, cell.calls));
            number("worst window, % of quota", self.worst_percent(cell));
        }
        numbers
    }

    pub(super) fn worst_percent(&self, cell: &TrafficCell) -> f64 {
        let quota = self.quota.parse::<Quota>().map_or(1, Quota::units);
        100.0 * ratio(cell.worst_window, quota)
    }
}
