//! `/api/v1/series?rule=R&caller=C&from_ms=F&to_ms=T&step=1s`: calls over time.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_aggregator_engine::analytics::{FleetView, MINUTES_KEPT_MS, SECONDS_KEPT_MS};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::{MINUTE_MS, SECOND_MS, Subject, Totals};

use super::query::{Refusal, bad_request, known_rule};
use super::state::V1;
use crate::api::params::Params;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesQuery {
    rule: Option<String>,
    /// Label of a caller of the rule.
    caller: Option<String>,
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    #[serde(default)]
    step: SeriesStep,
}

#[derive(Clone, Copy, Default, Deserialize)]
enum SeriesStep {
    #[default]
    #[serde(rename = "1s")]
    Second,
    #[serde(rename = "1m")]
    Minute,
}

pub(super) async fn series(State(v1): State<V1>, Params(query): Params<SeriesQuery>) -> Result<Response, Refusal> {
    let (step_ms, kept_ms, kept) = match query.step {
        SeriesStep::Second => {
            (SECOND_MS, SECONDS_KEPT_MS, "step=1s reaches 15 minutes back; write step=1m for 24 hours")
        }
        SeriesStep::Minute => {
            (MINUTE_MS, MINUTES_KEPT_MS, "step=1m reaches 24 hours back; older minutes are in the topic `rollups`")
        }
    };
    let subject = match (query.rule.as_deref(), query.caller.as_deref(), query.step) {
        (None, None, _) => Subject::Calls,
        (Some(rule), None, _) => Subject::Rule(rule.into()),
        (Some(rule), Some(caller), SeriesStep::Minute) => Subject::Caller { rule: rule.into(), caller: caller.into() },
        _ => return Err(bad_request("caller= needs rule= and step=1m; /api/v1/callers lists the labels")),
    };
    let is_loading = !v1.analytics.is_loaded();
    let answer = move |view: &FleetView, now: Timestamp| {
        known_rule(view, query.rule.as_deref())?;
        let to = query.to_ms.map_or(now, Timestamp::from_ms);
        let from = query.from_ms.map_or_else(|| now.minus_ms(kept_ms), Timestamp::from_ms);
        if from > to {
            return Err(bad_request(format!("from_ms={} is after to_ms={}; exchange them", from.as_ms(), to.as_ms())));
        }
        // A request takes its time.
        if from.plus_ms(MINUTE_MS) < now.minus_ms(kept_ms) {
            return Err(bad_request(format!("from_ms={}: {kept}", from.as_ms())));
        }
        let points: Vec<Value> = view.series(&subject, step_ms, from, to).iter().map(point).collect();
        Ok(json!({
            "rule": query.rule,
            "caller": query.caller,
            "from_ms": from.as_ms(),
            "to_ms": to.as_ms(),
            "step_ms": step_ms,
            "loading": is_loading,
            "points": points,
        }))
    };
    v1.answer(answer).await
}

/// Returns a point as JSON: start in ms, admitted, denied and shadow-denied calls, and admitted units.
pub(super) fn point((at, totals): &(Timestamp, Totals)) -> Value {
    json!([at.as_ms(), totals.admitted, totals.denied(), totals.shadow_denied, totals.units])
}
