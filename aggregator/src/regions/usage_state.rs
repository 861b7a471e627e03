//! State of the usage of all regions at an aggregator, as queries see it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_aggregator_engine::usage::{CounterOverRegions, RuleOverRegions, UNKNOWN_AFTER_MS, UsageView};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::Region;
use tollgate_core::messages::usage::UsageUnits;
use tollgate_core::rules::Scope;

use super::global_rules::{GlobalRules, ShownRule};

/// View of the usage, and what it cannot tell.
pub(super) struct UsageState {
    pub(super) view: UsageView,
    pub(super) rules: GlobalRules,
    /// Reason for which the topic cannot be used.
    pub(super) error: Option<String>,
}

impl UsageState {
    pub(super) fn new(rules: GlobalRules) -> Self {
        Self { view: UsageView::default(), rules, error: None }
    }

    /// Returns the ages of all regions in ms: of those that the rules name, in their order, and of those that were heard. A region
    /// that was never heard has none.
    pub(super) fn ages_ms(&self, now: Timestamp) -> Vec<(Region, Option<u64>)> {
        let mut heard: BTreeMap<&Region, u64> = self.view.regions(now).collect();
        let named: Vec<_> = self.rules.regions().iter().map(|region| (region.clone(), heard.remove(region))).collect();
        let others = heard.into_iter().map(|(region, age_ms)| (region.clone(), Some(age_ms)));
        named.into_iter().chain(others).collect()
    }

    /// Returns the usage of each rule that is shown, with so many of its counters.
    pub(super) fn rules(&self, now: Timestamp, counters_max: usize) -> Vec<(ShownRule, RuleOverRegions)> {
        let rules = self.rules.shown();
        rules.iter().map(|rule| (rule.clone(), self.view.rule(now, &rule.name, counters_max))).collect()
    }

    /// Returns the usage as JSON. Units of a region that is unknown are null, and no sum contains them.
    pub(super) fn json(&self, now: Timestamp, counters_max: usize) -> Value {
        let ages = self.ages_ms(now);
        let region = |(region, age_ms): &(Region, Option<u64>)| {
            let is_known = age_ms.is_some_and(|age_ms| age_ms < UNKNOWN_AFTER_MS);
            json!({ "region": **region, "known": is_known, "age_ms": age_ms })
        };
        let rule = |(rule, over): &(ShownRule, RuleOverRegions)| {
            let of_region = |region: &Region| of_region(region, over.regions.get(region).copied());
            let UsageUnits { used, demand } = over.units();
            let regions = self.rules.regions().len() as u64;
            let (scope, factor) = if rule.scope == Scope::Global { ("global", 1) } else { ("regional", regions) };
            json!({
                "rule": *rule.name,
                "scope": scope,
                "quota": rule.quota,
                "window_ms": rule.window_ms,
                "over_regions": rule.quota.map(|quota| quota.saturating_mul(factor)),
                "used": used,
                "demand": demand,
                "regions": ages.iter().map(|(region, _)| of_region(region)).collect::<Vec<_>>(),
                "counters": over.counters.iter().map(counter).collect::<Vec<_>>(),
            })
        };
        json!({
            "error": self.error,
            "unknown_after_ms": UNKNOWN_AFTER_MS,
            "regions": ages.iter().map(region).collect::<Vec<_>>(),
            "rules": self.rules(now, counters_max).iter().map(rule).collect::<Vec<_>>(),
        })
    }
}

fn of_region(region: &Region, units: Option<UsageUnits>) -> Value {
    json!({
        "region": **region,
        "used": units.map(|units| units.used),
        "demand": units.map(|units| units.demand),
    })
}

/// Returns a counter as JSON, with the regions in which it is one of the largest.
fn counter(over: &CounterOverRegions) -> Value {
    json!({
        "id": over.counter.to_string(),
        "label": *over.label,
        "used": over.units.used,
        "demand": over.units.demand,
        "regions": over.regions.iter().map(|(region, units)| of_region(region, Some(*units))).collect::<Vec<_>>(),
    })
}
