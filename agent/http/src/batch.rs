//! `POST /batch`: several calls in one request, for a client that has them at once. Each is decided as by `POST /check`, and none knows
//! of the others. Calls that belong together are the descriptors of one request of `/json`.

use axum::extract::{Request, State};
use axum::response::IntoResponse;
use futures_util::future::join_all;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tollgate::request::set_trace;
use tollgate::store::ChargeStore;
use tollgate::{Agent, http_response};

use crate::body::BodyLimit;
use crate::call_request;
use crate::problem_details::{HandlerResult, ProblemDetails};

/// Maximum number of calls in a request.
const CALLS_LEN_MAX: usize = 256;

/// `POST /batch`: decides the calls in the body; the answers are in their order.
pub(crate) async fn check<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let (parts, body) = request.into_parts();
    let body = limit.read(body).await?;
    let calls = call_request::parse_all(&body).map_err(ProblemDetails::bad_request)?;
    if calls.is_empty() || calls.len() > CALLS_LEN_MAX {
        let detail = format!("there are {} `calls`; send 1 to {CALLS_LEN_MAX} of them in one request", calls.len());
        return Err(ProblemDetails::bad_request(detail));
    }
    let mut calls: Vec<_> =
        agent.engine().with_rules(|rules| calls.into_iter().map(|call| rules.as_requested(call)).collect());
    set_trace(&parts.headers, &mut calls);
    let answers = join_all(calls.iter().map(async |call| {
        let decision = agent.decide(call).await;
        agent.log_answer(call, &decision, http_response::status_code(&decision), &parts.headers);
        http_response::body(&decision, &agent.decision_id(call, &decision))
    }));
    let body = format!(r#"{{"answers":[{}]}}"#, answers.await.join(","));
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((fixed, body).into_response())
}
