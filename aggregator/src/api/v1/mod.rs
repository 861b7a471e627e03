//! `/api/v1`: who is limited, by which rule, and how much is left. docs/analytics.md describes the answers.
//!
//! Sums come from the view of the whole fleet, which every aggregator has; facts about members come from the event loop.

mod query;
mod state;
mod totals;
mod status;
mod series;
mod rules;
mod exceptions;
mod callers;
mod usage;
mod members;
mod events;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::get;

use crate::analytics::Analytics;
use crate::queries::Queries;
use crate::regions::RegionQueries;

use super::openapi::openapi;
use super::page::page_router;
use super::params::without_parameters;
use super::regions::regions_view;
use super::responses::wrong_method;
use state::V1;

/// Returns the page, and the routes under `/api/v1`. Without a shared bus, the answers are about this process alone.
pub fn analytics_router(
    id: Arc<str>,
    is_fleet: bool,
    queries: Queries,
    analytics: Analytics,
    regions: Option<RegionQueries>,
) -> Router {
    let of_regions = regions.map_or_else(Router::new, |regions| {
        let routes = Router::new().route("/api/v1/regions", get(regions_view));
        routes.method_not_allowed_fallback(wrong_method).with_state((regions, queries.clone()))
    });
    let without = Router::new()
        .route("/api/v1/openapi.yaml", get(openapi))
        .route("/api/v1/status", get(status::status))
        .route("/api/v1/rules", get(rules::rules))
        .route("/api/v1/agents", get(members::agents))
        .route("/api/v1/partitions", get(members::partitions))
        .route_layer(from_fn(without_parameters));
    Router::new()
        .merge(page_router())
        .merge(without)
        .route("/api/v1/series", get(series::series))
        .route("/api/v1/exceptions", get(exceptions::exceptions))
        .route("/api/v1/callers", get(callers::callers))
        .route("/api/v1/usage", get(usage::usage))
        .route("/api/v1/endpoints", get(members::endpoints))
        .route("/api/v1/tiers", get(members::tiers))
        .route("/api/v1/events", get(events::events))
        .method_not_allowed_fallback(wrong_method)
        .with_state(V1 { id, is_fleet, queries, analytics, listeners: Arc::default() })
        .merge(of_regions)
}
