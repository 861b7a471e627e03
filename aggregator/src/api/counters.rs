//! `/counters?rule=R&label=TEXT&limit=N`: the rings of counters, the fullest first.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_common::clock::Timestamp;
use tollgate_common::window::{Estimate, Ring};

use super::{Shared, busy, problem, respond, within};
use crate::pump::{Filter, Shown};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    rule: Option<String>,
    label: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn counters(
    State(shared): State<Shared>,
    wanted: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let Ok(Query(Wanted { rule, label, limit })) = wanted else {
        let detail = "write /counters?rule=NAME&label=PART&limit=100; each of the three may be left out";
        return problem(StatusCode::BAD_REQUEST, detail);
    };
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return problem(StatusCode::BAD_REQUEST, &format!("limit is {limit}; write at most {LIMIT_MAX}"));
    }
    let Some(view) = within(shared.window.counters(Filter { rule, label, limit })).await else { return busy() };
    let counters: Vec<Value> = view.counters.iter().map(|shown| counter(shown, view.now)).collect();
    let partitions: Vec<_> = view.partitions.iter().map(|part| part.partition).collect();
    let body = json!({
        "now_ms": view.now.as_ms(),
        "matched": view.matched,
        "partitions": partitions,
        "counters": counters,
    });
    respond(StatusCode::OK, &body)
}

/// `admitted` and `denied` are units in the window; the rings are per sub-window, newest first.
fn counter(shown: &Shown, now: Timestamp) -> Value {
    let entry = &shown.entry;
    let window = entry.admitted.window();
    json!({
        "rule": *entry.rule,
        "label": *entry.label,
        "id": entry.id.to_string(),
        "partition": shown.partition,
        "generation": entry.generation,
        "quota": entry.quota,
        "window_ms": window.width_ms(),
        "sub_windows": window.parts(),
        "admitted": entry.used(now),
        "denied": entry.denied.used(now, Estimate::Conservative),
        "newest_at_ms": entry.newest_at.as_ms(),
        "admitted_ring": ring(&entry.admitted),
        "denied_ring": ring(&entry.denied),
    })
}

fn ring(ring: &Ring) -> Value {
    let newest = ring.newest();
    let slots =
        (0..=u64::from(ring.window().parts())).map(|back| newest.checked_sub(back).map_or(0, |at| ring.get(at)));
    json!({ "newest_sub_window": newest, "units": slots.collect::<Vec<_>>() })
}
