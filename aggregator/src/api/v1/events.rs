//! `/api/v1/events?rule=R`: one server-sent event a second, with the state and the newest points of the series.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tollgate_core::messages::rollups::{SECOND_MS, Subject};

use super::series::point;
use super::state::V1;
use crate::api::params::Params;
use crate::api::responses::problem;

/// Maximum number of clients.
const LISTENERS_MAX: usize = 50;
/// Time from which an event repeats points, in ms: late calls change them.
const REPEATED_MS: u64 = 10 * SECOND_MS;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    rule: Option<String>,
}

/// Client that receives events, until it has gone.
struct EventClient(Arc<AtomicUsize>);

impl Drop for EventClient {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Listening {
    v1: V1,
    subject: Subject,
    seconds: Interval,
    _place: EventClient,
}

pub(super) async fn events(State(v1): State<V1>, Params(query): Params<EventsQuery>) -> Response {
    let place = EventClient(v1.listeners.clone());
    if place.0.fetch_add(1, Ordering::Relaxed) >= LISTENERS_MAX {
        let detail =
            format!("{LISTENERS_MAX} clients receive events already; close a page, or ask /api/v1/status now and then");
        let mut refusal = problem(StatusCode::SERVICE_UNAVAILABLE, &detail);
        refusal.headers_mut().insert(RETRY_AFTER, 5.into());
        return refusal;
    }
    let subject = query.rule.as_deref().map_or(Subject::Calls, |rule| Subject::Rule(rule.into()));
    let mut seconds = interval(Duration::from_millis(SECOND_MS));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let listening = Listening { v1, subject, seconds, _place: place };
    let events = stream::unfold(listening, |mut listening| async move {
        listening.seconds.tick().await;
        let event = Event::default().event("second").data(listening.second().await.to_string());
        Some((Ok::<_, Infallible>(event), listening))
    });
    Sse::new(events).into_response()
}

impl Listening {
    async fn second(&self) -> Value {
        let (status, subject) = (self.v1.status().await.ok(), self.subject.clone());
        let points = self.v1.analytics.ask(move |view, now| {
            let points = view.series(&subject, SECOND_MS, now.minus_ms(REPEATED_MS), now);
            points.iter().map(point).collect::<Vec<Value>>()
        });
        json!({ "status": status, "points": points.await.unwrap_or_default() })
    }
}
