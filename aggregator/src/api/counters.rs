//! `/counters?rule=R&label=TEXT&limit=N`: the rings of counters, the fullest first.
//!
//! Each aggregator counts its own partitions and requests the rest from the others, so that any of them shows all counters.
//! An operator need not know the owner of a partition, and a redirect to the owner would show its partitions only. With
//! `local=true` it requests nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_aggregator_engine::counting::CountedCounter;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::window::{Estimate, Ring};

use super::params::Params;
use super::peers;
use super::responses::{problem, respond, wrong_method};
use crate::queries::{AggregatorState, AskError, Queries};
use crate::regions::{OwnBudget, RegionQueries};

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

#[derive(Serialize, Deserialize)]
struct FoundCounters {
    now_ms: u64,
    /// The number of counters that match, including those past the limit.
    matched: usize,
    /// The restored partitions whose counters are contained, each from one aggregator.
    partitions: BTreeSet<u64>,
    unanswered: Vec<String>,
    /// The fullest counters, up to the limit.
    counters: Vec<Value>,
}

/// Returns the route of an aggregator. With `regions`, counters of global rules have the budgets of its region.
pub fn counters_router(queries: Queries, regions: Option<RegionQueries>) -> Router {
    let routes = Router::new().route("/counters", get(counters)).method_not_allowed_fallback(wrong_method);
    routes.with_state((queries, regions))
}

async fn counters(
    State((queries, regions)): State<(Queries, Option<RegionQueries>)>,
    uri: Uri,
    Params(CountersQuery { rule, label, limit, local }): Params<CountersQuery>,
) -> Result<Response, AskError> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return Ok(problem(StatusCode::BAD_REQUEST, &format!("limit is {limit}; write at most {LIMIT_MAX}")));
    }
    let find = move |state: &AggregatorState<'_>| find(state, rule.as_deref(), label.as_deref(), limit);
    let (mut found, counters, peers) = queries.ask(find).await?;
    let now = Timestamp::from_ms(found.now_ms);
    let budget = |counter: &CountedCounter| regions.as_ref()?.budget(&counter.rule, counter.id);
    let shown = |(partition, counter): &(Partition, CountedCounter)| {
        to_json(*partition, counter, budget(counter).as_ref(), now)
    };
    found.counters = counters.iter().map(shown).collect();
    if !local {
        let query = uri.query().map_or_else(String::new, |query| format!("{query}&"));
        for peer in peers {
            match peers::ask(&peer, &format!("/counters?{query}local=true")).await {
                Some(answer) => found.add(answer),
                None => found.unanswered.push(peer.to_string()),
            }
        }
    }
    found.counters.sort_by_cached_key(|counter| {
        let fullness =
            counter["admitted"].as_u64().unwrap_or(0) * 1_000 / counter["quota"].as_u64().unwrap_or(1).max(1);
        (std::cmp::Reverse(fullness), counter["id"].as_str().unwrap_or_default().to_owned())
    });
    found.counters.truncate(limit);
    Ok(respond(StatusCode::OK, &json!(found)))
}

/// Finds the counters of this aggregator that match, and the addresses of the other aggregators. The counters are
/// without their JSON, which is written on another thread.
fn find(
    state: &AggregatorState<'_>,
    rule: Option<&str>,
    label: Option<&str>,
    limit: usize,
) -> (FoundCounters, Vec<(Partition, CountedCounter)>, Vec<Arc<str>>) {
    let (now, mut matching, mut partitions) = (state.now, Vec::new(), BTreeSet::new());
    for (partition, assigned) in state.worker.assigned().filter(|(_, assigned)| assigned.counting.restored) {
        partitions.insert(partition.into());
        let is_wanted = |counter: &&CountedCounter| {
            rule.is_none_or(|rule| *counter.rule == *rule) && label.is_none_or(|label| counter.label.contains(label))
        };
        let wanted = assigned.counting.counters().filter(is_wanted);
        matching.extend(wanted.map(|counter| (counter.permille(now), partition, counter)));
    }
    let matched = matching.len();
    matching.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2.rule, a.2.id).cmp(&(&b.2.rule, b.2.id))));
    matching.truncate(limit);
    let counters = matching.into_iter().map(|(_, partition, counter)| (partition, counter.clone())).collect();
    let peers = state.worker.membership().into_iter().flat_map(Membership::peer_addresses).cloned().collect();
    let (unanswered, now_ms) = (Vec::new(), now.as_ms());
    (FoundCounters { now_ms, matched, partitions, unanswered, counters: Vec::new() }, counters, peers)
}

impl FoundCounters {
    /// Adds the counters of another aggregator's partitions, except for partitions that are contained already.
    fn add(&mut self, other: Self) {
        let is_new = |counter: &Value| counter["partition"].as_u64().is_some_and(|of| !self.partitions.contains(&of));
        self.counters.extend(other.counters.into_iter().filter(is_new));
        self.matched += other.matched;
        self.partitions.extend(other.partitions);
    }
}

/// Returns a counter as JSON: `admitted`, `denied` and their sum `demand` are units in the window; the rings are per sub-window, newest
/// first. `budget` is what the region holds of a quota over all regions, of which `quota` is its floor.
fn to_json(partition: Partition, counter: &CountedCounter, budget: Option<&OwnBudget>, now: Timestamp) -> Value {
    let window = counter.admitted.window();
    let (admitted, denied) = (counter.used(now), counter.denied.used(now, Estimate::Conservative));
    json!({
        "rule": *counter.rule,
        "label": *counter.label,
        "id": counter.id.to_string(),
        "partition": partition,
        "generation": counter.generation,
        "quota": counter.quota,
        "budget": budget.map(|budget| budget.units),
        "budget_moves": budget.map(|budget| budget.moves),
        "budget_age_ms": budget.and_then(|budget| budget.age_ms),
        "window_ms": window.width_ms(),
        "sub_windows": window.sub_windows(),
        "admitted": admitted,
        "denied": denied,
        "demand": admitted.saturating_add(denied),
        "newest_at_ms": counter.newest_at.as_ms(),
        "emptied_at_ms": Some(counter.emptied_at.as_ms()).filter(|at| *at > 0),
        "admitted_ring": ring(&counter.admitted),
        "denied_ring": ring(&counter.denied),
    })
}

fn ring(ring: &Ring) -> Value {
    let newest = ring.newest();
    let slots =
        (0..=u64::from(ring.window().sub_windows())).map(|back| newest.checked_sub(back).map_or(0, |at| ring.get(at)));
    json!({ "newest_sub_window": newest, "units": slots.collect::<Vec<_>>() })
}
