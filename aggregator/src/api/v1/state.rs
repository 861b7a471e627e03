//! State of the routes under `/api/v1`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tollgate_aggregator_engine::analytics::FleetView;
use tollgate_core::clock::Timestamp;

use super::query::Refusal;
use crate::analytics::Analytics;
use crate::api::responses::respond;
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
        match self.analytics.ask(answer).await {
            Ok(answer) => answer.map(|body| respond(StatusCode::OK, &body)),
            Err(error) => Ok(error.into_response()),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::json;
    use tollgate_core::clock::SystemClock;

    use super::*;

    async fn asked(v1: &V1, answer: fn(&FleetView, Timestamp) -> Result<Value, Refusal>) -> (StatusCode, String) {
        let answered = v1.answer(answer).await.into_response();
        let status = answered.status();
        let body = to_bytes(answered.into_body(), 1 << 16).await.expect("a body");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    /// The text names the part that failed, and the next question has an answer.
    #[tokio::test]
    async fn an_answer_that_panics_is_told_as_a_failure_of_the_view() {
        let (queries, _queue) = Queries::open();
        let analytics = Analytics::new(Arc::new(SystemClock::start()));
        let v1 = V1 { id: "a".into(), is_fleet: true, queries, analytics, listeners: Arc::default() };
        let (status, text) = asked(&v1, |_, _| panic!("a fault of the view")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("the view of the whole fleet panicked") && !text.contains("event loop"), "{text}");
        assert_eq!(asked(&v1, |_, _| Ok(json!(7))).await, (StatusCode::OK, "7".to_owned()));
    }
}
