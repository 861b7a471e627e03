//! `/api/v1/status`: the state of the fleet in one object.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tollgate_aggregator_engine::membership::Membership;
use tollgate_aggregator_engine::worker::AssignedPartition;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::{SECOND_MS, Subject, Totals};

use super::state::V1;
use crate::api::responses::respond;
use crate::fault::{Fault, problems};
use crate::queries::{AggregatorState, AskError};

/// Number of closed seconds whose mean is the rate.
const RATE_SECONDS: u64 = 10;
/// Age of a second that is closed, in ms: its calls have arrived.
const CLOSED_AFTER_MS: u64 = 2 * SECOND_MS;

/// Facts that the event loop knows.
struct MemberFacts {
    lag_ms: Option<u64>,
    agents: usize,
    degraded: Vec<Value>,
    refusing: Vec<Value>,
    emergency: Option<String>,
    aggregators: Vec<Arc<str>>,
    bus_fault: Option<Fault>,
    restoring: usize,
}

pub(super) async fn status(State(v1): State<V1>) -> Result<Response, AskError> {
    Ok(respond(StatusCode::OK, &v1.status().await?))
}

impl V1 {
    /// Returns the state of the fleet.
    ///
    /// # Errors
    /// If the event loop or the view of the fleet does not answer.
    pub(super) async fn status(&self) -> Result<Value, AskError> {
        let members = self.queries.ask(members).await?;
        let (own, aggregators) = (self.id.clone(), members.aggregators);
        let seen = self.analytics.ask(move |view, now| {
            let to = now.minus_ms(CLOSED_AFTER_MS);
            let mut rate = Totals::default();
            for (_, totals) in view.series(&Subject::Calls, SECOND_MS, to.minus_ms(RATE_SECONDS * SECOND_MS), to) {
                rate.add(&totals);
            }
            let silent = view.silent(now, aggregators.iter().filter(|name| **name != own));
            (now, rate, view.rules_changed_at(), silent)
        });
        let (now, rate, changed_at, silent) = seen.await?;
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
        let per_s = |calls: u64| calls as f64 / RATE_SECONDS as f64;
        let is_loading = !self.analytics.is_loaded() || members.restoring > 0;
        let problems = problems([("kafka", members.bus_fault), ("analytics", self.analytics.bus_state.fault())]);
        Ok(json!({
            "now_ms": now.as_ms(),
            "scope": if self.is_fleet { "fleet" } else { "agent" },
            "aggregator": *self.id,
            "version": env!("CARGO_PKG_VERSION"),
            "loading": is_loading,
            "calls_per_s": per_s(rate.calls()),
            "denied_per_s": per_s(rate.denied()),
            "shadow_denied_per_s": per_s(rate.shadow_denied),
            "lag_ms": members.lag_ms,
            "agents": members.agents,
            "degraded_agents": members.degraded,
            "refusing_agents": members.refusing,
            "emergency": members.emergency,
            "silent": silent.iter().map(|name| json!(**name)).collect::<Vec<_>>(),
            "problems": problems,
            "rules_changed_ms": changed_at.map(Timestamp::as_ms),
        }))
    }
}

fn members(state: &AggregatorState<'_>) -> MemberFacts {
    let (worker, now) = (state.worker, state.now);
    let read = worker.assigned().filter_map(|(_, assigned)| assigned.counting.read);
    let lag = |(_, appended): (u64, Timestamp)| now.ms_since(appended);
    let agents = || worker.agents().iter();
    let degraded = agents().filter(|(_, agent)| !agent.open_breakers.is_empty());
    let refusing = agents().filter(|(_, agent)| !agent.rules_refusal.is_empty());
    let is_restoring = |assigned: &AssignedPartition| !assigned.counting.restored;
    MemberFacts {
        lag_ms: read.map(lag).max(),
        agents: agents().count(),
        degraded: degraded.map(|(name, _)| json!(**name)).collect(),
        refusing: refusing.map(|(name, _)| json!(**name)).collect(),
        emergency: agents().find_map(|(_, agent)| agent.emergency).map(|quota| quota.to_string()),
        aggregators: worker.membership().into_iter().flat_map(Membership::peer_names).cloned().collect(),
        bus_fault: state.bus_fault.clone(),
        restoring: worker.unassigned() + worker.assigned().filter(|(_, assigned)| is_restoring(assigned)).count(),
    }
}
