//! `/emergency`: the emergency switch, which puts one small limit per caller in place of all rules that count.
//!
//! It changes the limits of all callers of the fleet, so only [operators](crate::operator) may set it.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Quota};
use tollgate_core::messages::emergency::EMERGENCY_PER;

use crate::body::BodyLimit;
use crate::problem_details::{HandlerResult, ProblemDetails};

const EXAMPLE: &str = r#"{"on": true, "quota": "10/s"}"#;
const QUOTA_DEFAULT: &str = "10/s";
/// Maximum window of the quota: counts of an emergency are kept for short windows only.
const WIDTH_MAX: Duration = Duration::from_hours(1);

/// Body of `POST /emergency`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `on` and `quota`")]
struct SwitchRequest {
    on: bool,
    quota: Option<String>,
}

/// `GET /emergency`: the state of the switch at this agent.
pub(crate) async fn show<S: ChargeStore>(State(agent): State<Agent<S>>) -> Response {
    state(&agent)
}

/// `POST /emergency`: switches the emergency on or off, at all agents of the fleet.
pub(crate) async fn switch<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let body = limit.read(request.into_body()).await?;
    let refuse = |error: String| ProblemDetails::bad_request(format!("{error}; send {EXAMPLE} or {{\"on\": false}}"));
    let request: SwitchRequest = serde_json::from_slice(&body).map_err(|error| refuse(error.to_string()))?;
    let quota = request.on.then(|| quota(request.quota.as_deref().unwrap_or(QUOTA_DEFAULT)));
    agent.switch_emergency(quota.transpose().map_err(refuse)?);
    Ok(state(&agent))
}

fn quota(text: &str) -> Result<Quota, String> {
    let quota: Quota = text.parse().map_err(|error| format!("`quota`: {error}"))?;
    if u128::from(quota.width_ms()) > WIDTH_MAX.as_millis() {
        return Err(format!("`quota`: the window of {quota} is longer than an hour"));
    }
    Ok(quota)
}

fn state<S: ChargeStore>(agent: &Agent<S>) -> Response {
    let engine = agent.engine();
    let switch = engine.emergency();
    let quota = switch.and_then(|switch| switch.quota);
    let told = match (engine.settings().publishes, engine.is_bus_connected()) {
        (true, true) => "all agents, within a few seconds",
        (true, false) => "this agent; all others once the bus is back",
        (false, _) => "this agent only, because it has no bus; send the request to each agent",
    };
    let body = json!({
        "on": quota.is_some(),
        "quota": quota.map(|quota| quota.to_string()),
        "per": EMERGENCY_PER,
        "changed_at_ms": switch.map(|switch| switch.changed_at.as_ms()),
        "agents": told,
    });
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (StatusCode::OK, fixed, body.to_string()).into_response()
}
