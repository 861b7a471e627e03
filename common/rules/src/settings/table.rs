//! The table of all settings of a rule, in the order in which they are applied and shown.
//!
//! The order matters in one place: `algorithm` and `consistency` stand before the settings whose defaults depend on them.

use tollgate_core::rules::Charging;

use super::ValueParser::{Planned, Policy, PolicyAlias, Rule};
use super::burst::{burst_text, read_burst, read_multiplier};
use super::costs::{cost_text, costs_json, read_cost, read_costs};
use super::policy_values::{
    algorithm_name, algorithm_text, consistency_text, deadline_json, estimate_json, on_failure_text, read_algorithm,
    read_consistency, read_deadline, read_estimate, read_on_failure, read_sub_windows, sub_windows_json,
};
use super::rule_values::{
    charge_text, keys_text, names_json, read_charge, read_group, read_replaces, read_shadow, replaces_text, tiers_json,
};
use super::show::{ALGORITHM_COLUMN, MORE_COLUMN, QUOTA_COLUMN};
use super::{AlgorithmList, Level, Setting};
use crate::display;

/// Levels of a setting that every rule may have.
const EVERYWHERE: &[Level] = &[Level::Defaults, Level::Exception, Level::Rule, Level::DenyingRule, Level::Unlimited];
/// Levels of a setting that has no effect in a rule which denies.
const LIMITING: &[Level] = &[Level::Defaults, Level::Exception, Level::Rule, Level::Unlimited];
/// Levels of a setting that has no effect without a quota.
const COUNTING: &[Level] = &[Level::Defaults, Level::Exception, Level::Rule];
/// Levels of a part of every rule.
const ANY_RULE: &[Level] = &[Level::Rule, Level::DenyingRule];
/// Levels of a part of a rule that limits.
const LIMITING_RULE: &[Level] = &[Level::Rule];

/// Algorithms with a burst.
const WITH_BURST: AlgorithmList = AlgorithmList {
    names: &["sliding_window", "token_bucket", "leaky_bucket"],
    refusal: |name| {
        format!(
            "a `{name}` lets nothing beyond its quota pass and takes no burst; remove it, or use sliding_window, token_bucket or leaky_bucket"
        )
    },
};

/// Algorithms with sub-windows.
const WITH_SUB_WINDOWS: AlgorithmList = AlgorithmList {
    names: &["sliding_window"],
    refusal: |name| format!("a `{name}` has no `sub_windows`; remove them"),
};

/// Algorithms that estimate.
const WITH_ESTIMATE: AlgorithmList = AlgorithmList {
    names: &["sliding_window"],
    refusal: |name| {
        let reason = if name == "sliding_log" { "is exact" } else { "estimates nothing" };
        format!("a `{name}` {reason} and takes no `estimate`; remove it")
    },
};

/// All settings.
pub(super) static TABLE: [Setting; 24] = [
    Setting::new("name", ANY_RULE)
        .rule_cell("RULE", |rule| Some(rule.name.to_string()))
        .rule_json(&[("name", |rule| (*rule.name).into())]),
    Setting::new("match", ANY_RULE)
        .rule_text("match", |rule| Some(display::matches(&rule.matches)))
        .rule_cell("MATCH", |rule| Some(display::matches(&rule.matches)))
        .rule_json(&[("match", |rule| display::matches_json(&rule.matches))]),
    Setting::new("per", LIMITING_RULE)
        .rule_text("per", |rule| Some(display::per(rule)))
        .rule_cell("PER", |rule| Some(display::per(rule)))
        .rule_json(&[("per", |rule| names_json(&rule.per))]),
    Setting::new("quota", COUNTING)
        .rule_text("quota.from", |rule| rule.quota_from.as_deref().map(str::to_owned))
        .rule_cell(MORE_COLUMN, |rule| rule.quota_from.as_ref().map(|name| format!("quota from {name}")))
        .rule_json(&[("quota_from", |rule| rule.quota_from.as_deref().into())])
        .policy_text("quota", |policy| Some(policy.quota.to_string()))
        .policy_cell(QUOTA_COLUMN, |policy| Some(policy.quota.to_string()))
        .policy_json(&[
            ("quota", |policy| policy.quota.to_string().into()),
            ("units", |policy| policy.quota.units().into()),
            ("window_ms", |policy| policy.quota.width_ms().into()),
        ]),
    Setting::new("tiers", LIMITING_RULE).rule_json(&[("tiers", tiers_json)]),
    Setting::new("keys", LIMITING_RULE)
        .rule_cell(MORE_COLUMN, keys_text)
        .rule_json(&[("keys", |rule| rule.by_key.len().into())]),
    Setting::new("group", ANY_RULE)
        .parser(Rule(read_group))
        .rule_text("group", |rule| rule.group.as_deref().map(str::to_owned))
        .rule_cell(MORE_COLUMN, |rule| rule.group.as_ref().map(|group| format!("group {group}")))
        .rule_json(&[("group", |rule| rule.group.as_deref().into())]),
    Setting::new("algorithm", COUNTING)
        .parser(Policy(read_algorithm))
        .policy_text("algorithm", |policy| Some(algorithm_text(policy)))
        .policy_cell(ALGORITHM_COLUMN, |policy| Some(algorithm_text(policy)))
        .policy_json(&[("algorithm", |policy| algorithm_name(policy.algorithm).into())]),
    Setting::new("burst", COUNTING)
        .algorithms(WITH_BURST)
        .parser(Policy(read_burst))
        .policy_text("burst", burst_text)
        .policy_cell(ALGORITHM_COLUMN, |policy| burst_text(policy).map(|burst| format!("burst {burst}")))
        .policy_json(&[("burst", |policy| Some(policy.burst).filter(|burst| *burst > 0).into())]),
    Setting::new("burst_multiplier", COUNTING).parser(PolicyAlias("burst", read_multiplier)),
    Setting::new("consistency", LIMITING)
        .parser(Policy(read_consistency))
        .policy_text("consistency", |policy| Some(consistency_text(policy)))
        .policy_cell("CONSISTENCY", |policy| Some(consistency_text(policy)))
        .policy_json(&[("consistency", |policy| consistency_text(policy).into())]),
    Setting::new("sub_windows", EVERYWHERE)
        .algorithms(WITH_SUB_WINDOWS)
        .parser(Policy(read_sub_windows))
        .policy_json(&[("sub_windows", sub_windows_json)]),
    Setting::new("estimate", EVERYWHERE)
        .algorithms(WITH_ESTIMATE)
        .parser(Policy(read_estimate))
        .policy_json(&[("estimate", estimate_json)]),
    Setting::new("on_failure", EVERYWHERE)
        .parser(Policy(read_on_failure))
        .policy_text("on_failure", |policy| Some(on_failure_text(policy)))
        .policy_cell("ON FAILURE", |policy| Some(on_failure_text(policy)))
        .policy_json(&[("on_failure", |policy| on_failure_text(policy).into())]),
    Setting::new("deadline", EVERYWHERE)
        .parser(Policy(read_deadline))
        .policy_text("deadline", |policy| Some(format!("{} ms", policy.deadline.as_millis())))
        .policy_json(&[("deadline_ms", deadline_json)]),
    Setting::new("cost", LIMITING_RULE)
        .parser(Rule(read_cost))
        .rule_text("cost", cost_text)
        .rule_cell(MORE_COLUMN, |rule| cost_text(rule).map(|cost| format!("cost {cost}")))
        .rule_json(&[("cost", |rule| rule.cost.into())]),
    Setting::new("costs", LIMITING_RULE).parser(Rule(read_costs)).rule_json(&[("costs", costs_json)]),
    Setting::new("charge", LIMITING_RULE)
        .parser(Rule(read_charge))
        .rule_text("charge", |rule| Some(charge_text(rule).to_owned()))
        .rule_cell(MORE_COLUMN, |rule| {
            (rule.charge != Charging::default()).then(|| format!("charge {}", charge_text(rule)))
        })
        .rule_json(&[("charge", |rule| charge_text(rule).into())]),
    Setting::new("deny", ANY_RULE).rule_json(&[("deny", |rule| rule.deny.into())]),
    Setting::new("shadow", ANY_RULE)
        .parser(Rule(read_shadow))
        .rule_text("shadow", |rule| Some(rule.shadow.to_string()))
        .rule_cell(MORE_COLUMN, |rule| rule.shadow.then(|| "shadow".to_owned()))
        .rule_json(&[("shadow", |rule| rule.shadow.into())]),
    Setting::new("replaces", ANY_RULE)
        .parser(Rule(read_replaces))
        .rule_text("replaces", replaces_text)
        .rule_cell(MORE_COLUMN, |rule| replaces_text(rule).map(|rules| format!("replaces {rules}")))
        .rule_json(&[("replaces", |rule| names_json(&rule.replaces))]),
    Setting::new("scope", &[Level::Defaults, Level::Rule, Level::DenyingRule]),
    Setting::new("max_excess", EVERYWHERE).parser(Planned),
    Setting::new("leases", EVERYWHERE).parser(Planned),
];
