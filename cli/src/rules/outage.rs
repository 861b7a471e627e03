//! The bounds of an outage in the output of `tollgate rules validate`, and the effect of servers that a fleet does not have.

use std::num::NonZeroU32;

use comfy_table::Table;
use serde_json::{Value, json};
use tollgate_command::output::table;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::{Consistency, LimitPolicy, OnFailure, OutageBound, Rule, RuleSet, Scope, show_units};

use super::exceptions;

/// Returns the bounds of all rules as a table with its explanation; nothing if no rule limits. Rules with a global scope are
/// in the table of regions.
pub(super) fn text(set: &RuleSet, agents: NonZeroU32) -> String {
    let mut rows = Vec::new();
    for rule in set.rules.iter().filter(|rule| rule.scope == Scope::Regional) {
        let own = rule.policy.as_ref().map(|policy| cells(policy, agents));
        rows.extend(own.as_ref().map(|own| row(rule.name.to_string(), own.clone())));
        rows.extend(exceptions::tiers(rule).map(|(tier, policy)| row(format!("  {tier}"), cells(policy, agents))));
        let keys = exceptions::keys(rule).map(|(key, policy)| (key, cells(policy, agents)));
        let differing = keys.filter(|(_, cells)| own.as_ref() != Some(cells));
        let mut keys = differing.map(|(key, cells)| row(format!("  {key}"), cells)).collect();
        let hidden = exceptions::shorten(&mut keys);
        rows.extend(keys.into_iter().chain(hidden));
    }
    if rows.is_empty() {
        return String::new();
    }
    let table: Table = table(&["RULE", "REDIS UP", "REDIS LATE", "REDIS DOWN", "REDIS AND KAFKA DOWN"], rows);
    let seconds = FRESH_MS / 1_000;
    format!(
        "\n\nThe table shows the most units in a window, and in parentheses those of many\n\
         calls around the edge of a sub-window or of a fixed window. The other bounds\n\
         are for a fleet of {agents} (--agents). REDIS LATE: Redis answers one agent after the\n\
         deadline, or all of them. An agent that restarts meanwhile adds its part again.\n\
         REDIS DOWN: the units that Redis admitted or leased before are contained. The\n\
         signals of two agents can differ by {seconds} s, in which further calls pass: once\n\
         in a window, and twice around an edge. Each time that Redis loses its data, a\n\
         window may hold the units of REDIS UP once more: twice after one loss, six times\n\
         after five. With Kafka, agents enter most of the lost units again.\n\
         REDIS FAILS OVER (Sentinel, Cluster): what the replica lacked is such a loss. A\n\
         primary that is cut off and still takes writes is the same one: set\n\
         min-replicas-to-write 1.\n\n{table}\n\n{}",
        deployments(set)
    )
}

/// Returns the effect of a fleet without Kafka, and of one without Redis.
fn deployments(set: &RuleSet) -> String {
    let uses = |rule: &Rule, is_eventual: bool| {
        rule.all_policies().any(|policy| (policy.consistency == Consistency::Eventual) == is_eventual)
    };
    let count = |is_eventual: bool| set.rules.iter().filter(|rule| uses(rule, is_eventual)).count();
    let without_redis = match (count(false), count(true)) {
        (0, _) => "works, because all rules are `consistency: eventual`".to_owned(),
        (_, 0) => "refused, because no rule is `consistency: eventual`".to_owned(),
        (others, _) => format!("refused; rules that are not `eventual`: {others}"),
    };
    let eventual = if count(true) > 0 {
        "\n\nRules under `consistency: eventual` never ask Redis: their bounds hold at all\n\
         times: REDIS DOWN while there are signals, the last column without. A retry\n\
         with the `id` of a call is counted again."
    } else {
        ""
    };
    format!(
        "Redis without Kafka: no signals, so the last column holds while Redis is down.\n\
         Kafka without Redis: {without_redis}.\n\
         One process without servers: all rules are counted exactly, in its memory.{eventual}"
    )
}

/// Returns the bounds of the tiers and keys of a rule as JSON, as far as they differ from that of the rule.
pub(super) fn exceptions_json(rule: &Rule, agents: NonZeroU32) -> Vec<Value> {
    let own = rule.policy.as_ref().map(|policy| json(policy, agents));
    let all = exceptions::tiers(rule).chain(exceptions::keys(rule));
    let bounds = all.map(|(name, policy)| (name, json(policy, agents)));
    let differing = bounds.filter(|(_, bound)| own.as_ref() != Some(bound));
    differing.map(|(name, bound)| json!({ "of": name, "outage": bound })).collect()
}

pub(super) fn json(policy: &LimitPolicy, agents: NonZeroU32) -> Value {
    let OutageBound { by_signals, alone } = OutageBound::of(policy, agents);
    let [beyond_ms, beyond_at_edge_ms] = calls_ms(policy);
    let (units, at_worst, all_pass) = (policy.most_in_window(), policy.most_at_worst(), policy.admits_late_calls());
    let late = |agents_late: u32| policy.most_while_late(agents_late, agents);
    let late = json!({ "one_agent": late(1), "all_agents": late(agents.get()), "all_calls_pass": all_pass });
    let with_store = (policy.consistency != Consistency::Eventual)
        .then(|| json!({ "units": units, "at_worst": at_worst, "late": late, "more_per_loss": units, "more_per_fail_over": units }));
    json!({
        "with_store": with_store, "agents": agents, "by_signals": by_signals, "and_calls_of_ms": beyond_ms, "alone": alone,
        "edge_units": policy.edge_units(), "and_calls_at_edge_of_ms": beyond_at_edge_ms,
    })
}

fn row(name: String, [up, late, by_signals, alone]: [String; 4]) -> [String; 5] {
    [name, up, late, by_signals, alone]
}

fn cells(policy: &LimitPolicy, agents: NonZeroU32) -> [String; 4] {
    let OutageBound { by_signals, alone } = OutageBound::of(policy, agents);
    let shown = |units| show_units(units, policy.quota.unit());
    let beyond = match calls_ms(policy).map(|ms| ms / 1_000) {
        [0, _] => String::new(),
        [usual, at_edge] if usual == at_edge => format!(", and calls of {usual} s"),
        [usual, at_edge] => format!(", and calls of {usual} ({at_edge}) s"),
    };
    let with_edge = |usual: u64| match policy.edge_units() {
        0 => shown(usual),
        edge => format!("{} ({})", shown(usual), shown(usual.saturating_add(edge))),
    };
    let alone = alone.map_or_else(|| "no bound: all calls pass".to_owned(), with_edge);
    let up = match policy.consistency {
        Consistency::Eventual => "not asked".to_owned(),
        _ => with_edge(policy.most_in_window()),
    };
    let late = match [1, agents.get()].map(|late| policy.most_while_late(late, agents)) {
        _ if policy.consistency == Consistency::Eventual => "not asked".to_owned(),
        [Some(one), Some(all)] if one == all => with_edge(all),
        [Some(one), Some(all)] => format!("{} to {}", shown(one), with_edge(all)),
        _ => "no bound: all late calls pass".to_owned(),
    };
    [up, late, format!("{}{beyond}", with_edge(by_signals)), alone]
}

/// Returns the time in ms of calls that pass beside the bound by signals, because the signals of agents may differ. The
/// second time is that of a window with an edge, where the bound holds twice.
fn calls_ms(policy: &LimitPolicy) -> [u64; 2] {
    let admits_by_signals = policy.on_failure != OnFailure::Closed || policy.consistency == Consistency::Eventual;
    let usual = if admits_by_signals { FRESH_MS } else { 0 };
    [usual, if policy.edge_units() > 0 { 2 * usual } else { usual }]
}
