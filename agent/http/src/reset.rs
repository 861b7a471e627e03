//! `/reset`: gives one caller all of its quotas back at once.
//!
//! It admits a caller beyond its quota, so only [operators](crate::operator) may send it, and each reset writes a line to the log.

use axum::extract::{ConnectInfo, Request, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::{Value, json};
use tollgate::store::ChargeStore;
use tollgate::{Agent, CallerReset, ResetEffect, ResetRule};
use tollgate_listen::Peer;

use crate::body::BodyLimit;
use crate::call_request::{self, RESET};
use crate::problem_details::{HandlerResult, ProblemDetails};

/// `POST /reset`: empties the counters of all rules that apply to a call with these descriptors.
pub(crate) async fn reset<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let by = operator(&request);
    let body = limit.read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &RESET).map_err(ProblemDetails::bad_request)?;
    let call = agent.engine().with_rules(|rules| rules.as_requested(parsed.call));
    let CallerReset { rules, error, .. } = agent.reset(&call).await;
    if rules.iter().all(|rule| rule.effect == ResetEffect::Shared) {
        let none =
            "no rule counts a caller with these descriptors, so nothing was reset; POST /explain with them tells why";
        return Err(ProblemDetails::bad_request(none));
    }
    let node = agent.node();
    for ResetRule { rule, label, effect, .. } in &rules {
        match effect {
            ResetEffect::Emptied => {
                tracing::info!(node, rule = &**rule, caller = %label, %by, "an operator has reset the caller under this rule");
            }
            ResetEffect::Unconfirmed => tracing::warn!(
                node,
                rule = &**rule,
                caller = %label,
                %by,
                "an operator asked to reset the caller under this rule, and Redis has not confirmed it; ask again"
            ),
            _ => {}
        }
    }
    if let Some(error) = error {
        let unconfirmed = rules.iter().filter(|rule| rule.effect == ResetEffect::Unconfirmed);
        let names: Vec<&str> = unconfirmed.map(|rule| &*rule.rule).collect();
        let detail = format!(
            "Redis has not confirmed the reset under {}: {error}; it may still take effect; send the request again",
            names.join(", ")
        );
        return Err(ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    let body = json!({ "rules": rules.iter().map(to_json).collect::<Vec<_>>(), "agents": told(&agent) });
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, fixed, body.to_string()).into_response())
}

/// Returns the other end of the connection, as the log names it. From another machine, an operator has sent the token.
fn operator(request: &Request) -> String {
    match request.extensions().get::<ConnectInfo<Peer>>() {
        Some(ConnectInfo(peer @ Peer::Tcp(address))) => {
            let address = address.ip().to_canonical();
            if peer.is_local() { address.to_string() } else { format!("{address}, with the token") }
        }
        Some(ConnectInfo(Peer::Unix)) => "the Unix socket".to_owned(),
        None => "an unknown address".to_owned(),
    }
}

fn to_json(rule: &ResetRule) -> Value {
    let why = match rule.effect {
        ResetEffect::HoldsSlots => {
            Some("its units are slots of running calls; POST /release frees the slots of one call")
        }
        ResetEffect::Sketched => Some(
            "the table of this agent is full, and it limits the caller by a sketch until the window has passed; raise --counters-max",
        ),
        ResetEffect::Shared => Some("all callers share its counter"),
        ResetEffect::Emptied | ResetEffect::Unconfirmed => None,
    };
    json!({ "rule": *rule.rule, "caller": rule.label, "reset": rule.effect == ResetEffect::Emptied, "why": why })
}

/// Returns which agents follow, and when.
fn told<S: ChargeStore>(agent: &Agent<S>) -> &'static str {
    let engine = agent.engine();
    match (engine.settings().publishes, engine.is_bus_connected(), engine.settings().owns_table) {
        (true, true, _) => "all agents of this region, within a second",
        (true, false, _) => "this agent; others once the bus is back, or when they ask Redis again, within 10 s",
        (false, _, true) => "this agent only, because it has neither Redis nor a bus; send the request to each agent",
        (false, _, false) => "this agent; others when they ask Redis again, within 10 s, because there is no bus",
    }
}
