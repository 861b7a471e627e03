//! Quotas over all regions in the output of `tollgate rules validate`: budgets with their floors, or the exposure of limits that
//! each region has for itself.

use std::num::NonZeroU32;

use comfy_table::Table;
use serde_json::{Value, json};
use tollgate_command::output::table;
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::{LimitPolicy, OutageBound, RuleSet, Scope, show_units};
use tollgate_rules::percent_text;
use tollgate_rules::settings::{QUOTA_COLUMN, Shown};

/// Returns the quotas over all regions as a table with its explanation; nothing if the file has no regions.
pub(super) fn text(set: &RuleSet, agents: NonZeroU32) -> String {
    if set.regions.is_empty() {
        return String::new();
    }
    let mut rows = Vec::new();
    for rule in &set.rules {
        let quota = |policy: &LimitPolicy| Shown::of_policy(rule, Some(policy)).cell(QUOTA_COLUMN);
        let regional = |name: String, policy: &LimitPolicy| {
            let exposure = format!("{} x {} = {}", quota(policy), set.regions.len(), quota(&over_regions(set, policy)));
            [name, "regional".to_owned(), exposure, quota(policy)]
        };
        match (&rule.policy, rule.scope) {
            (Some(policy), Scope::Global) => {
                rows.push([rule.name.to_string(), "global".to_owned(), quota(policy), floors(set, policy, agents)]);
            }
            (Some(policy), Scope::Regional) => rows.push(regional(rule.name.to_string(), policy)),
            (None, _) => {}
        }
        let tiers = rule.by_tier.iter().filter(|_| rule.scope == Scope::Regional);
        rows.extend(tiers.filter_map(|(tier, policy)| Some(regional(format!("  tier {tier}"), policy.as_ref()?))));
    }
    if rows.iter().any(|[_, scope, ..]| scope == "regional") {
        let [scope, sum] = ["regional, and a global view for analytics only", "the same; the sum is seen, not limited"];
        rows.push(["(regional rules)".to_owned(), scope.to_owned(), sum.to_owned(), "the same".to_owned()]);
    }
    let table: Table = table(&["RULE", "SCOPE", "ALL REGIONS", "ONE REGION"], rows);
    format!(
        "\n\nALL REGIONS is the quota of a caller that uses all regions. A rule with\n\
         `scope: global` has one quota, in budgets that follow the calls; a region\n\
         without its ledger has its floor. In parentheses: the most units of all\n\
         regions in a window while the Redis of that region is down, for a fleet of\n\
         {agents} there (--agents). With `scope: regional`, each region has the whole quota.\n\
         The global view needs aggregators with --ledger; `tollgate regions` shows it.\n\n{table}"
    )
}

pub(super) fn json(set: &RuleSet) -> Vec<Value> {
    let region = |part: &RegionFloorRatio| json!({ "name": *part.region, "floor": percent_text(part.floor_ppm) });
    set.regions.iter().map(region).collect()
}

/// Returns the units of a rule over all regions as JSON.
pub(super) fn rule_json(set: &RuleSet, scope: Scope, policy: &LimitPolicy, agents: NonZeroU32) -> Value {
    if scope == Scope::Regional {
        return json!({ "units": over_regions(set, policy).quota.units() });
    }
    let floor = |part: &RegionFloorRatio| {
        let floor = part.units_of(policy.quota.units());
        let OutageBound { by_signals, alone } = OutageBound::over_regions(policy, floor, agents);
        let outage = json!({ "agents": agents, "by_signals": by_signals, "alone": alone });
        json!({ "region": *part.region, "units": floor, "outage": outage })
    };
    json!({ "units": policy.quota.units(), "floors": set.regions.iter().map(floor).collect::<Vec<_>>() })
}

/// Returns the policy with the units that a caller gets in all regions together, if each has the whole quota.
fn over_regions(set: &RuleSet, policy: &LimitPolicy) -> LimitPolicy {
    let units = policy.quota.units().saturating_mul(set.regions.len() as u64);
    let mut policy = *policy;
    policy.quota = policy.quota.with_units(units).unwrap_or(policy.quota);
    policy
}

/// Returns a line for each region: its floor, and the most units of all regions while its store is down.
fn floors(set: &RuleSet, policy: &LimitPolicy, agents: NonZeroU32) -> String {
    let line = |part: &RegionFloorRatio| {
        let (floor, unit) = (part.units_of(policy.quota.units()), policy.quota.unit());
        let bound = OutageBound::over_regions(policy, floor, agents).alone;
        let bound = bound.map_or_else(|| "no bound".to_owned(), |units| show_units(units, unit));
        let (region, percent) = (&part.region, percent_text(part.floor_ppm));
        format!("{region}: {percent} = {} ({bound})", show_units(floor, unit))
    };
    set.regions.iter().map(line).collect::<Vec<_>>().join("\n")
}
