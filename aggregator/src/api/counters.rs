//! `/counters?rule=R&label=TEXT&limit=N`: the rings of counters, the fullest first.
//!
//! Each aggregator counts its own partitions; the others are asked for theirs, so that any of them shows the whole.
//! `local=true` asks nobody.

use std::collections::BTreeSet;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_core::clock::Timestamp;
use tollgate_core::window::{Estimate, Ring};

use super::{Shared, busy, others, problem, respond, within};
use crate::pump::{Filter, Shown, View};

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    rule: Option<String>,
    label: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    local: bool,
}

/// What one or more aggregators count.
struct Found {
    matched: u64,
    /// The partitions of whoever answered, each its owner's.
    partitions: BTreeSet<u64>,
    counters: Vec<Value>,
}

pub(super) async fn counters(
    State(shared): State<Shared>,
    uri: Uri,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Ok(Query(Wanted { rule, label, limit, local })) = wanted else {
        let detail = "write /counters?rule=NAME&label=PART&limit=100; each of the three may be left out";
        return problem(StatusCode::BAD_REQUEST, detail);
    };
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return problem(StatusCode::BAD_REQUEST, &format!("limit is {limit}; write at most {LIMIT_MAX}"));
    }
    let Some(view) = within(shared.window.counters(Filter { rule, label, limit })).await else { return busy() };
    let Some(status) = within(shared.window.status()).await else { return busy() };
    let now = view.now;
    let mut found = Found::own(&view);
    let mut silent = Vec::new();
    if !local {
        let query = uri.query().map_or_else(String::new, |query| format!("{query}&"));
        for other in status.others {
            match others::ask(&other, &format!("/counters?{query}local=true")).await {
                Some(answer) => found.add(&answer),
                None => silent.push(other.to_string()),
            }
        }
    }
    found.counters.sort_by_cached_key(|counter| {
        let fullness =
            counter["admitted"].as_u64().unwrap_or(0) * 1_000 / counter["quota"].as_u64().unwrap_or(1).max(1);
        (std::cmp::Reverse(fullness), counter["id"].as_str().unwrap_or_default().to_owned())
    });
    found.counters.truncate(limit);
    let body = json!({
        "now_ms": now.as_ms(),
        "matched": found.matched,
        "partitions": found.partitions,
        "unanswered": silent,
        "counters": found.counters,
    });
    respond(StatusCode::OK, &body)
}

impl Found {
    /// What is counted here, in the partitions that are this one's own.
    fn own(view: &View) -> Self {
        Self {
            matched: view.matched as u64,
            partitions: view.partitions.iter().map(|part| part.partition.into()).collect(),
            counters: view.counters.iter().map(|shown| counter(shown, view.now)).collect(),
        }
    }

    /// Adds what another one says of partitions that nobody told of yet.
    fn add(&mut self, answer: &Value) {
        let numbers =
            |of: &Value| of.as_array().into_iter().flatten().filter_map(Value::as_u64).collect::<BTreeSet<_>>();
        let new: BTreeSet<u64> = numbers(&answer["partitions"]).difference(&self.partitions).copied().collect();
        let counters = answer["counters"].as_array().into_iter().flatten();
        let is_new = |counter: &&Value| counter["partition"].as_u64().is_some_and(|partition| new.contains(&partition));
        self.counters.extend(counters.filter(is_new).cloned());
        self.matched += answer["matched"].as_u64().unwrap_or(0);
        self.partitions.extend(new);
    }
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
