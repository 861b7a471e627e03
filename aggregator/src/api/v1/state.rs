//! State of the routes under `/api/v1`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use tollgate_aggregator_engine::analytics::FleetView;
use tollgate_core::clock::Timestamp;

use super::query::Refusal;
use crate::analytics::Analytics;
use crate::api::responses::{busy, respond};
use crate::queries::Queries;

/// State of the routes.
#[derive(Clone)]
pub(super) struct V1 {
    pub(super) id: Arc<str>,
    /// True if agents and aggregators of other processes are part of the answers.
    pub(super) is_fleet: bool,
    pub(super) queries: Queries,
    pub(super) analytics: Analytics,
    /// Number of clients that receive events.
    pub(super) listeners: Arc<AtomicUsize>,
}

impl V1 {
    /// Answers by the view of the fleet.
    ///
    /// # Errors
    /// If the question is refused.
    pub(super) async fn answer(
        &self,
        answer: impl FnOnce(&FleetView, Timestamp) -> Result<Value, Refusal> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let Some(answer) = self.analytics.ask(answer).await else { return Ok(busy()) };
        answer.map(|body| respond(StatusCode::OK, &body))
    }
}
