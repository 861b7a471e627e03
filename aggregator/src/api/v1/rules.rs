//! `/api/v1/rules`: the rules that were used in the last 15 minutes.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_aggregator_engine::analytics::{FleetView, RuleState};
use tollgate_core::clock::Timestamp;

use super::query::Refusal;
use super::state::V1;
use super::totals::totals;

pub(super) async fn rules(State(v1): State<V1>) -> Result<Response, Refusal> {
    let answer = |view: &FleetView, now: Timestamp| {
        let rules: Vec<Value> = view.rules(now).iter().map(rule).collect();
        Ok(json!({ "now_ms": now.as_ms(), "rules": rules }))
    };
    v1.answer(answer).await
}

fn rule(state: &RuleState) -> Value {
    let limit = &state.limit;
    let limits = (limit.quota > 0)
        .then(|| json!({ "quota": limit.quota, "window_ms": limit.window_ms, "counters": limit.callers }));
    json!({
        "rule": *state.rule,
        "limits": limits.into_iter().collect::<Vec<_>>(),
        "generation": limit.generation,
        "changed_ms": state.changed_at.map(Timestamp::as_ms),
        "last_minute": totals(&state.last_minute),
        "callers": { "estimate": limit.callers, "exact": limit.callers_error == 0, "error": limit.callers_error },
    })
}
