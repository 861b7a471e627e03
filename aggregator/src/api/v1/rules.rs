//! `/api/v1/rules`: the rules that were used in the last 15 minutes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_aggregator_engine::analytics::{FleetView, RuleState};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{Rule, RuleSet};
use tollgate_rules::RuleText;

use super::query::Refusal;
use super::state::V1;
use super::totals::totals;

pub(super) async fn rules(State(v1): State<V1>) -> Result<Response, Refusal> {
    let known = v1.analytics.rules.clone();
    let answer = move |view: &FleetView, now: Timestamp| {
        let used = view.rules(now);
        let texts = known.read(|set| texts(&set.in_force_at(now), &used)).unwrap_or_default();
        let rules: Vec<Value> = used.iter().map(|used| rule(used, texts.get(&used.rule))).collect();
        Ok(json!({ "now_ms": now.as_ms(), "rules": rules }))
    };
    v1.answer(answer).await
}

/// Returns the texts of the rules that are used, by name. The set is that of an instant: tiers may have exceptions with an end.
fn texts(set: &RuleSet, used: &[RuleState]) -> HashMap<Arc<str>, Value> {
    let names: HashSet<&str> = used.iter().map(|state| &*state.rule).collect();
    let text = |rule: &Arc<Rule>| {
        let RuleText { calls, limit, bound } = RuleText::of(set, rule);
        let text = json!({ "calls": calls, "limit": limit, "bound": bound, "generation": set.generation });
        (rule.name.clone(), text)
    };
    set.rules.iter().filter(|rule| names.contains(&*rule.name)).map(text).collect()
}

fn rule(state: &RuleState, text: Option<&Value>) -> Value {
    let limit = &state.limit;
    let limits = (limit.quota > 0)
        .then(|| json!({ "quota": limit.quota, "window_ms": limit.window_ms, "counters": limit.callers }));
    json!({
        "rule": *state.rule,
        "text": text,
        "limits": limits.into_iter().collect::<Vec<_>>(),
        "generation": limit.generation,
        "changed_ms": state.changed_at.map(Timestamp::as_ms),
        "last_minute": totals(&state.last_minute),
        "callers": { "estimate": limit.callers, "exact": limit.callers_error == 0, "error": limit.callers_error },
    })
}
