//! `/regions?limit=N`: the budgets of regions, as this aggregator has read them from the ledger.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use tollgate_core::counter::CounterId;

use super::params::Params;
use super::responses::{problem, respond, wrong_method};
use crate::queries::{AggregatorState, Queries};
use crate::regions::RegionQueries;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegionsQuery {
    limit: Option<usize>,
}

/// Returns the route of an aggregator that reads the ledger. `queries` are for the labels of the counters that it counts.
pub fn regions_router(regions: RegionQueries, queries: Queries) -> Router {
    let routes = Router::new().route("/regions", get(regions_view)).method_not_allowed_fallback(wrong_method);
    routes.with_state((regions, queries))
}

pub(super) async fn regions_view(
    State((regions, queries)): State<(RegionQueries, Queries)>,
    Params(query): Params<RegionsQuery>,
) -> Response {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return problem(StatusCode::BAD_REQUEST, &format!("limit is {limit}; write at most {LIMIT_MAX}"));
    }
    let mut view = regions.view(limit);
    let counters = view.counters;
    let label_of = |state: &AggregatorState<'_>, counter: &CounterId| {
        let mut assigned = state.worker.assigned();
        assigned.find_map(|(_, assigned)| Some(assigned.counting.counter(*counter)?.label.clone()))
    };
    let labels = queries.ask(move |state| counters.iter().map(|id| label_of(state, id)).collect::<Vec<_>>()).await;
    for (number, label) in labels.unwrap_or_default().into_iter().enumerate() {
        view.json["counters"][number]["label"] = json!(label.as_deref());
    }
    respond(StatusCode::OK, &view.json)
}
