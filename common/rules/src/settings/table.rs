//! The table of all settings of a rule, in the order in which they are applied and shown.
//!
//! The order matters in one place: `algorithm` and `consistency` stand before the settings whose defaults depend on them.

use tollgate_core::rules::Charging;

use super::burst::{burst_text, read_burst, read_multiplier};
use super::costs::{cost_text, costs_json, read_cost, read_costs};
use super::policy_values::{
    algorithm_name, algorithm_text, consistency_text, deadline_json, estimate_json, on_failure_text, read_algorithm,
    read_consistency, read_deadline, read_estimate, read_on_failure, read_sub_windows, sub_windows_json,
};
use super::rule_values::{
    charge_text, keys_text, names_json, read_charge, read_group, read_replaces, read_scope, read_shadow, replaces_text,
    tiers_json,
};
use super::show::{ALGORITHM_COLUMN, MORE_COLUMN, QUOTA_COLUMN};
use super::{AlgorithmList, Level, Setting, ValueDisplay, ValueParser};
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

/// Entry of a field that has neither a value of its own nor a display.
const FIELD: Setting = Setting {
    name: "",
    levels: ANY_RULE,
    algorithms: None,
    parser: ValueParser::Structure,
    of_rule: ValueDisplay::HIDDEN,
    of_policy: ValueDisplay::HIDDEN,
};

/// All settings.
pub(crate) static TABLE: [Setting; 24] = [
    Setting {
        name: "name",
        of_rule: ValueDisplay {
            column: Some(("RULE", |rule| Some(rule.name.to_string()))),
            json: &[("name", |rule| (*rule.name).into())],
            ..ValueDisplay::HIDDEN
        },
        ..FIELD
    },
    Setting {
        name: "match",
        of_rule: ValueDisplay {
            label: "match",
            text: |rule| Some(display::matches(&rule.matches)),
            column: Some(("MATCH", |rule| Some(display::matches(&rule.matches)))),
            json: &[("match", |rule| display::matches_json(&rule.matches))],
        },
        ..FIELD
    },
    Setting {
        name: "per",
        levels: LIMITING_RULE,
        of_rule: ValueDisplay {
            label: "per",
            text: |rule| Some(display::per(rule)),
            column: Some(("PER", |rule| Some(display::per(rule)))),
            json: &[("per", |rule| names_json(&rule.per))],
        },
        ..FIELD
    },
    Setting {
        name: "quota",
        levels: COUNTING,
        of_rule: ValueDisplay {
            label: "quota.from",
            text: |rule| rule.quota_from.as_deref().map(str::to_owned),
            column: Some((MORE_COLUMN, |rule| rule.quota_from.as_ref().map(|name| format!("quota from {name}")))),
            json: &[("quota_from", |rule| rule.quota_from.as_deref().into())],
        },
        of_policy: ValueDisplay {
            label: "quota",
            text: |policy| Some(policy.quota.to_string()),
            column: Some((QUOTA_COLUMN, |policy| Some(policy.quota.to_string()))),
            json: &[
                ("quota", |policy| policy.quota.to_string().into()),
                ("units", |policy| policy.quota.units().into()),
                ("window_ms", |policy| policy.quota.width_ms().into()),
            ],
        },
        ..FIELD
    },
    Setting {
        name: "tiers",
        levels: LIMITING_RULE,
        of_rule: ValueDisplay { json: &[("tiers", tiers_json)], ..ValueDisplay::HIDDEN },
        ..FIELD
    },
    Setting {
        name: "keys",
        levels: LIMITING_RULE,
        of_rule: ValueDisplay {
            column: Some((MORE_COLUMN, keys_text)),
            json: &[("keys", |rule| rule.by_key.len().into())],
            ..ValueDisplay::HIDDEN
        },
        ..FIELD
    },
    Setting {
        name: "group",
        parser: ValueParser::Rule(read_group),
        of_rule: ValueDisplay {
            label: "group",
            text: |rule| rule.group.as_deref().map(str::to_owned),
            column: Some((MORE_COLUMN, |rule| rule.group.as_ref().map(|group| format!("group {group}")))),
            json: &[("group", |rule| rule.group.as_deref().into())],
        },
        ..FIELD
    },
    Setting {
        name: "algorithm",
        levels: COUNTING,
        parser: ValueParser::Policy(read_algorithm),
        of_policy: ValueDisplay {
            label: "algorithm",
            text: |policy| Some(algorithm_text(policy)),
            column: Some((ALGORITHM_COLUMN, |policy| Some(algorithm_text(policy)))),
            json: &[("algorithm", |policy| algorithm_name(policy.algorithm).into())],
        },
        ..FIELD
    },
    Setting {
        name: "burst",
        levels: COUNTING,
        algorithms: Some(WITH_BURST),
        parser: ValueParser::Policy(read_burst),
        of_policy: ValueDisplay {
            label: "burst",
            text: burst_text,
            column: Some((ALGORITHM_COLUMN, |policy| burst_text(policy).map(|burst| format!("burst {burst}")))),
            json: &[("burst", |policy| Some(policy.burst).filter(|burst| *burst > 0).into())],
        },
        ..FIELD
    },
    Setting {
        name: "burst_multiplier",
        levels: COUNTING,
        parser: ValueParser::PolicyAlias("burst", read_multiplier),
        ..FIELD
    },
    Setting {
        name: "consistency",
        levels: LIMITING,
        parser: ValueParser::Policy(read_consistency),
        of_policy: ValueDisplay {
            label: "consistency",
            text: |policy| Some(consistency_text(policy)),
            column: Some(("CONSISTENCY", |policy| Some(consistency_text(policy)))),
            json: &[("consistency", |policy| consistency_text(policy).into())],
        },
        ..FIELD
    },
    Setting {
        name: "sub_windows",
        levels: EVERYWHERE,
        algorithms: Some(AlgorithmList {
            names: &["sliding_window"],
            refusal: |name| format!("a `{name}` has no `sub_windows`; remove them"),
        }),
        parser: ValueParser::Policy(read_sub_windows),
        of_policy: ValueDisplay { json: &[("sub_windows", sub_windows_json)], ..ValueDisplay::HIDDEN },
        ..FIELD
    },
    Setting {
        name: "estimate",
        levels: EVERYWHERE,
        algorithms: Some(AlgorithmList {
            names: &["sliding_window"],
            refusal: |name| {
                let reason = if name == "sliding_log" { "is exact" } else { "estimates nothing" };
                format!("a `{name}` {reason} and takes no `estimate`; remove it")
            },
        }),
        parser: ValueParser::Policy(read_estimate),
        of_policy: ValueDisplay { json: &[("estimate", estimate_json)], ..ValueDisplay::HIDDEN },
        ..FIELD
    },
    Setting {
        name: "on_failure",
        levels: EVERYWHERE,
        parser: ValueParser::Policy(read_on_failure),
        of_policy: ValueDisplay {
            label: "on_failure",
            text: |policy| Some(on_failure_text(policy.on_failure)),
            column: Some(("ON FAILURE", |policy| Some(on_failure_text(policy.on_failure)))),
            json: &[("on_failure", |policy| on_failure_text(policy.on_failure).into())],
        },
        ..FIELD
    },
    Setting {
        name: "deadline",
        levels: EVERYWHERE,
        parser: ValueParser::Policy(read_deadline),
        of_policy: ValueDisplay {
            label: "deadline",
            text: |policy| Some(format!("{} ms", policy.deadline.as_millis())),
            json: &[("deadline_ms", deadline_json)],
            ..ValueDisplay::HIDDEN
        },
        ..FIELD
    },
    Setting {
        name: "cost",
        levels: LIMITING_RULE,
        parser: ValueParser::Rule(read_cost),
        of_rule: ValueDisplay {
            label: "cost",
            text: cost_text,
            column: Some((MORE_COLUMN, |rule| cost_text(rule).map(|cost| format!("cost {cost}")))),
            json: &[("cost", |rule| rule.cost.into())],
        },
        ..FIELD
    },
    Setting {
        name: "costs",
        levels: LIMITING_RULE,
        parser: ValueParser::Rule(read_costs),
        of_rule: ValueDisplay { json: &[("costs", costs_json)], ..ValueDisplay::HIDDEN },
        ..FIELD
    },
    Setting {
        name: "charge",
        levels: LIMITING_RULE,
        parser: ValueParser::Rule(read_charge),
        of_rule: ValueDisplay {
            label: "charge",
            text: |rule| Some(charge_text(rule.charge).to_owned()),
            column: Some((MORE_COLUMN, |rule| {
                (rule.charge != Charging::default()).then(|| format!("charge {}", charge_text(rule.charge)))
            })),
            json: &[("charge", |rule| charge_text(rule.charge).into())],
        },
        ..FIELD
    },
    Setting {
        name: "deny",
        of_rule: ValueDisplay { json: &[("deny", |rule| rule.deny.into())], ..ValueDisplay::HIDDEN },
        ..FIELD
    },
    Setting {
        name: "shadow",
        parser: ValueParser::Rule(read_shadow),
        of_rule: ValueDisplay {
            label: "shadow",
            text: |rule| Some(rule.shadow.to_string()),
            column: Some((MORE_COLUMN, |rule| rule.shadow.then(|| "shadow".to_owned()))),
            json: &[("shadow", |rule| rule.shadow.into())],
        },
        ..FIELD
    },
    Setting {
        name: "replaces",
        parser: ValueParser::Rule(read_replaces),
        of_rule: ValueDisplay {
            label: "replaces",
            text: replaces_text,
            column: Some((MORE_COLUMN, |rule| replaces_text(rule).map(|rules| format!("replaces {rules}")))),
            json: &[("replaces", |rule| names_json(&rule.replaces))],
        },
        ..FIELD
    },
    Setting {
        name: "scope",
        levels: &[Level::Defaults, Level::Rule, Level::DenyingRule],
        parser: ValueParser::Check(read_scope),
        ..FIELD
    },
    Setting { name: "max_excess", levels: EVERYWHERE, parser: ValueParser::Planned, ..FIELD },
    Setting { name: "leases", levels: EVERYWHERE, parser: ValueParser::Planned, ..FIELD },
];
