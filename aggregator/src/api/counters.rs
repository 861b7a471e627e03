//! `/counters?rule=R&label=TEXT&limit=N`: the rings of counters, the fullest first.
//!
//! Each aggregator counts its own partitions and requests the rest from the others, so that any of them shows all counters.
//! With `local=true` it requests nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_aggregator_engine::counting::CountedCounter;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::window::{Estimate, Ring};

use super::{ApiState, busy, peers, problem, respond};
use crate::queries::AggregatorState;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountersQuery {
    rule: Option<String>,
    label: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    local: bool,
}

/// The counters of this aggregator that match a query.
struct OwnCounters {
    now: Timestamp,
    /// The number of counters that match, including those past the limit.
    matched: u64,
    /// The restored partitions, including those that are being handed over.
    partitions: BTreeSet<u64>,
    /// The fullest counters and their partitions, up to the limit.
    counters: Vec<(Partition, CountedCounter)>,
    /// The addresses of the other aggregators.
    peers: Vec<Arc<str>>,
}

/// The counters of one or more aggregators.
struct MergedCounters {
    matched: u64,
    /// The partitions whose counters are contained, each from one aggregator.
    partitions: BTreeSet<u64>,
    counters: Vec<Value>,
}

pub(super) async fn counters(
    State(api): State<ApiState>,
    uri: Uri,
    query: Result<Query<CountersQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(CountersQuery { rule, label, limit, local })) = query else {
        let detail = "write /counters?rule=NAME&label=PART&limit=100; each of the three may be left out";
        return problem(StatusCode::BAD_REQUEST, detail);
    };
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return problem(StatusCode::BAD_REQUEST, &format!("limit is {limit}; write at most {LIMIT_MAX}"));
    }
    let find = move |state: &AggregatorState<'_>| OwnCounters::find(state, rule.as_deref(), label.as_deref(), limit);
    let Some(OwnCounters { now, matched, partitions, counters, peers }) = api.queries.ask(find).await else {
        return busy();
    };
    let counters = counters.iter().map(|(partition, counter)| to_json(*partition, counter, now)).collect();
    let mut merged = MergedCounters { matched, partitions, counters };
    let mut unanswered = Vec::new();
    if !local {
        let query = uri.query().map_or_else(String::new, |query| format!("{query}&"));
        for peer in peers {
            match peers::ask(&peer, &format!("/counters?{query}local=true")).await {
                Some(answer) => merged.add(&answer),
                None => unanswered.push(peer.to_string()),
            }
        }
    }
    merged.counters.sort_by_cached_key(|counter| {
        let fullness =
            counter["admitted"].as_u64().unwrap_or(0) * 1_000 / counter["quota"].as_u64().unwrap_or(1).max(1);
        (std::cmp::Reverse(fullness), counter["id"].as_str().unwrap_or_default().to_owned())
    });
    merged.counters.truncate(limit);
    let body = json!({
        "now_ms": now.as_ms(),
        "matched": merged.matched,
        "partitions": merged.partitions,
        "unanswered": unanswered,
        "counters": merged.counters,
    });
    respond(StatusCode::OK, &body)
}

impl OwnCounters {
    fn find(state: &AggregatorState<'_>, rule: Option<&str>, label: Option<&str>, limit: usize) -> Self {
        let (now, mut matching, mut partitions) = (state.now, Vec::new(), BTreeSet::new());
        for (partition, assigned) in state.worker.assigned().filter(|(_, assigned)| assigned.counting.restored) {
            partitions.insert(partition.into());
            let is_wanted = |counter: &&CountedCounter| {
                rule.is_none_or(|rule| *counter.rule == *rule)
                    && label.is_none_or(|label| counter.label.contains(label))
            };
            let wanted = assigned.counting.counters().filter(is_wanted);
            matching.extend(wanted.map(|counter| (counter.permille(now), partition, counter)));
        }
        let matched = matching.len() as u64;
        matching.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2.rule, a.2.id).cmp(&(&b.2.rule, b.2.id))));
        matching.truncate(limit);
        let counters = matching.into_iter().map(|(_, partition, counter)| (partition, counter.clone())).collect();
        let peers = state.worker.membership().into_iter().flat_map(Membership::peer_addresses).cloned().collect();
        Self { now, matched, partitions, counters, peers }
    }
}

impl MergedCounters {
    /// Adds the counters of another aggregator's partitions, except for partitions that are contained already.
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

/// Returns a counter as JSON: `admitted` and `denied` are units in the window; the rings are per sub-window, newest first.
fn to_json(partition: Partition, counter: &CountedCounter, now: Timestamp) -> Value {
    let window = counter.admitted.window();
    json!({
        "rule": *counter.rule,
        "label": *counter.label,
        "id": counter.id.to_string(),
        "partition": partition,
        "generation": counter.generation,
        "quota": counter.quota,
        "window_ms": window.width_ms(),
        "sub_windows": window.parts(),
        "admitted": counter.used(now),
        "denied": counter.denied.used(now, Estimate::Conservative),
        "newest_at_ms": counter.newest_at.as_ms(),
        "admitted_ring": ring(&counter.admitted),
        "denied_ring": ring(&counter.denied),
    })
}

fn ring(ring: &Ring) -> Value {
    let newest = ring.newest();
    let slots =
        (0..=u64::from(ring.window().parts())).map(|back| newest.checked_sub(back).map_or(0, |at| ring.get(at)));
    json!({ "newest_sub_window": newest, "units": slots.collect::<Vec<_>>() })
}
