//! `/api/v1/callers?rule=R&caller=PART&sort=denied&minutes=5&limit=50&offset=0`: callers, by denials, by calls, by the part of their
//! quota that is used, or by their first denial.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_aggregator_engine::analytics::{CallerSums, CallersOrder, FleetView};
use tollgate_core::clock::Timestamp;

use super::query::{Refusal, known_rule, limit, minutes};
use super::state::V1;
use super::totals::{totals, with};
use crate::api::params::Params;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallersQuery {
    rule: Option<String>,
    caller: Option<String>,
    #[serde(default)]
    sort: CallersSort,
    minutes: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CallersSort {
    #[default]
    Denied,
    Calls,
    Near,
    New,
}

pub(super) async fn callers(State(v1): State<V1>, Params(query): Params<CallersQuery>) -> Result<Response, Refusal> {
    let (minutes, limit) = (minutes(query.minutes)?, limit(query.limit)?);
    v1.answer(move |view, now| find(view, now, &query, minutes, limit)).await
}

fn find(view: &FleetView, now: Timestamp, query: &CallersQuery, minutes: u64, limit: usize) -> Result<Value, Refusal> {
    known_rule(view, query.rule.as_deref())?;
    let order = match query.sort {
        CallersSort::Denied => CallersOrder::Denied,
        CallersSort::Calls => CallersOrder::Calls,
        CallersSort::Near => CallersOrder::Near,
        CallersSort::New => CallersOrder::New,
    };
    let is_wanted = |rule: &str, caller: &str| {
        query.rule.as_deref().is_none_or(|wanted| wanted == rule)
            && query.caller.as_deref().is_none_or(|part| caller.contains(part))
    };
    let callers = view.callers(now, minutes, order, is_wanted);
    let shown: Vec<Value> = callers.iter().skip(query.offset).take(limit).map(|sums| caller(sums, now)).collect();
    Ok(json!({
        "now_ms": now.as_ms(),
        "matched": callers.len(),
        "minutes": minutes,
        "exact": !view.lacks_callers(now, minutes, query.rule.as_deref()),
        "callers": shown,
    }))
}

fn caller(sums: &CallerSums, now: Timestamp) -> Value {
    let limit = &sums.limit;
    let has_limit = limit.quota > 0;
    let permille = limit.used.filter(|_| has_limit).map(|_| sums.permille());
    let minute = |at: Option<Timestamp>| at.map(Timestamp::as_ms);
    let of_caller = json!({
        "rule": *sums.rule,
        "caller": *sums.caller,
        "quota": has_limit.then_some(limit.quota),
        "window_ms": has_limit.then_some(limit.window_ms),
        "used": limit.used,
        "used_permille": permille,
        "missing_max": limit.missing_max,
        "first_denied_ms": minute(sums.denied_from.map(|(first, _)| first)),
        "last_denied_ms": minute(sums.denied_from.map(|(_, last)| last.min(now))),
    });
    with(of_caller, totals(&sums.totals))
}
