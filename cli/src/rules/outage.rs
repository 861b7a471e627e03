//! The bounds of an outage in the output of `tollgate rules validate`.

use std::num::NonZeroU32;

use comfy_table::Table;
use serde_json::{Value, json};
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::{LimitPolicy, OnFailure, OutageBound, RuleSet, show_units};

use crate::output::table;

/// Returns the bounds of all rules as a table with its explanation; nothing if no rule limits.
pub(super) fn text(set: &RuleSet, agents: NonZeroU32) -> String {
    let mut rows = Vec::new();
    for rule in &set.rules {
        rows.extend(rule.policy.as_ref().map(|policy| row(rule.name.to_string(), policy, agents)));
        let tiers = rule.by_tier.iter();
        rows.extend(tiers.filter_map(|(tier, policy)| Some(row(format!("  tier {tier}"), policy.as_ref()?, agents))));
    }
    if rows.is_empty() {
        return String::new();
    }
    let table: Table = table(&["RULE", "REDIS DOWN", "REDIS AND KAFKA DOWN"], rows);
    let seconds = FRESH_MS / 1_000;
    format!(
        "\n\nMost units in a window while Redis is down, in a fleet of {agents} (--agents).\n\
         Units that Redis admitted before are among them. The signals of two agents can\n\
         differ by {seconds} s, in which further calls pass.\n\n{table}"
    )
}

/// Returns the bound of a policy as JSON.
pub(super) fn json(policy: &LimitPolicy, agents: NonZeroU32) -> Value {
    let OutageBound { by_signals, alone } = OutageBound::of(policy, agents);
    let beyond_ms = if policy.on_failure == OnFailure::Closed { 0 } else { FRESH_MS };
    json!({ "agents": agents, "by_signals": by_signals, "and_calls_of_ms": beyond_ms, "alone": alone })
}

fn row(name: String, policy: &LimitPolicy, agents: NonZeroU32) -> [String; 3] {
    let OutageBound { by_signals, alone } = OutageBound::of(policy, agents);
    let shown = |units| show_units(units, policy.quota.unit());
    let beyond = match policy.on_failure {
        OnFailure::Closed => String::new(),
        _ => format!(", and calls of {} s", FRESH_MS / 1_000),
    };
    let alone = alone.map_or_else(|| "no bound: all calls pass".to_owned(), shown);
    [name, format!("{}{beyond}", shown(by_signals)), alone]
}
