//! `/explain`: the rules that apply to a call, and the reasons why the others do not.
//!
//! Each form of [`check`](crate::check) has its counterpart, which takes the call from the same parts of the request. Nothing is
//! counted.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use tollgate::explain::explain;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call};

use crate::body::{self, BodyLimit};
use crate::call_request::{self, EXPLAIN};
use crate::forwarded_request::{ForwardedRequests, prefixed_call};
use crate::problem_details::{HandlerResult, ProblemDetails};

pub(crate) const EXPLAIN_PATH: &str = "/explain";

/// `GET /explain`: explains the decision for the request itself, as `GET /check` takes it.
pub(crate) async fn explain_request<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(forwarded): State<ForwardedRequests>,
    request: Request,
) -> HandlerResult {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    Ok(respond(&agent, &forwarded.call(&agent, &parts)?).await)
}

/// `/explain/PATH`: explains the decision for a request of the same method and headers to `/PATH`.
pub(crate) async fn explain_prefixed<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    respond(&agent, &prefixed_call(&agent, &parts, EXPLAIN_PATH)).await
}

/// `POST /explain`: explains the decision for the call in the body.
pub(crate) async fn explain_call<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let body = limit.read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &EXPLAIN).map_err(ProblemDetails::bad_request)?;
    let call = agent.engine().with_rules(|rules| rules.as_requested(parsed.call));
    Ok(respond(&agent, &call).await)
}

/// Explains how the rules apply to a call, and for which of them this agent holds an answer.
async fn respond<S: ChargeStore>(agent: &Agent<S>, call: &Call<'_>) -> Response {
    let engine = agent.engine();
    let mut explanation = engine.with_rules(|rules| explain(rules, Some(&engine.settings().digest_key), call));
    let (answers, budgets) = (agent.local_answers(call), agent.budgets(call).await);
    for rule in explanation["rules"].as_array_mut().into_iter().flatten() {
        let held = answers.iter().find(|(name, _)| rule["rule"].as_str() == Some(&**name));
        if rule["applies"] == true {
            rule["by"] = held.map(|(_, answer)| answer.as_str()).into();
        }
        if let Some(budget) = budgets.iter().find(|budget| rule["rule"].as_str() == Some(&*budget.rule)) {
            rule["budget"] = budget.units.into();
            // Without granted units the record is not renewed, and its demand is an old one.
            let renewed = budget.view.filter(|view| view.age_ms.is_some());
            rule["demand"] = renewed.map(|view| view.shown.wants).into();
            rule["budget_moves"] = budget.view.map(|view| view.shown.moves).into();
            rule["budget_age_ms"] = renewed.and_then(|view| view.age_ms).into();
        }
    }
    // While it is on, its quota decides in place of the rules that follow.
    let quota = engine.emergency().and_then(|switch| switch.quota);
    explanation["emergency"] = quota.map(|quota| quota.to_string()).into();
    ([(CONTENT_TYPE, "application/json")], explanation.to_string()).into_response()
}
