//! `/settle` and `/release`: corrections of a call after its decision.
//!
//! `/settle` reports the real cost of a call as the difference from the charged cost; `/release` reports its end, which
//! frees its slots under `concurrency` rules. Both name the call by its descriptors, as `POST /check` does, and by the
//! `id` of the decision; a settlement without it may only add.

use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tollgate::http_response::status_body;
use tollgate::store::{ChargeStore, StoreError};
use tollgate::{Agent, Call, DecidedCall, LimitStatus, ReleaseToken};

use crate::body::BodyLimit;
use crate::call_request::{self, RELEASE, SETTLE};
use crate::problem_details::{HandlerResult, ProblemDetails};

/// `POST /settle`: charges the units that a call cost beyond its charge, or refunds those that it did not use.
pub(crate) async fn settle<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let body = limit.read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &SETTLE).map_err(ProblemDetails::bad_request)?;
    let missing = "`units` is missing; send the real cost minus the charged cost, as in \"units\": -3";
    let units = parsed.units.ok_or_else(|| ProblemDetails::bad_request(missing))?;
    let id = parsed.call.id();
    if id.is_none() && units < 0 {
        let missing = "`id` is missing; a refund needs the `id` of the response of /check, which tells the charge";
        return Err(ProblemDetails::bad_request(missing));
    }
    let (call, decided) = match id.map(ToOwned::to_owned) {
        Some(id) => read_id(&agent, parsed.call, &id).map(|(call, decided)| (call, Some(decided)))?,
        None => (requested(&agent, parsed.call), None),
    };
    respond(agent.settle_decided(&call, units, decided.as_ref()).await)
}

/// `POST /release`: releases the slots of a call.
pub(crate) async fn release<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let body = limit.read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &RELEASE).map_err(ProblemDetails::bad_request)?;
    let missing = "`id` is missing; it names the call: send the `id` of the response of /check";
    let id = parsed.call.id().ok_or_else(|| ProblemDetails::bad_request(missing))?.to_owned();
    let (call, _) = read_id(&agent, parsed.call, &id)?;
    respond(agent.release(ReleaseToken::new(call, id)).await)
}

/// Finds the admission that an id names, and its call. `/check` decides the values that a request would have; a call that a library
/// decided has those of its program.
fn read_id<'c, S: ChargeStore>(
    agent: &Agent<S>,
    call: Call<'c>,
    id: &str,
) -> Result<(Call<'c>, DecidedCall), ProblemDetails> {
    if let Some(decided) = agent.decided(&call, id) {
        return Ok((call, decided));
    }
    let call = requested(agent, call);
    let decided = agent.decided(&call, id).ok_or_else(|| {
        let detail =
            "the `id` is not that of an admission of these descriptors; send both as in the call and its response";
        ProblemDetails::bad_request(detail)
    })?;
    Ok((call, decided))
}

fn requested<'c, S: ChargeStore>(agent: &Agent<S>, call: Call<'c>) -> Call<'c> {
    agent.engine().with_rules(|rules| rules.as_requested(call))
}

fn respond(result: Result<Option<LimitStatus>, StoreError>) -> HandlerResult {
    let status = result.map_err(|error| {
        let detail = format!("nothing was refunded: {error}; retry when the store is available");
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    let body = status_body(status.as_ref());
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, fixed, body.to_string()).into_response())
}
