//! `/settle` and `/release`: corrections of a call after its decision.
//!
//! `/settle` reports the real cost of a call as the difference from the charged cost; `/release` reports its end, which
//! frees its slots under `concurrency` rules. Both identify the call by its descriptors, as `POST /check` does, and by
//! the `at_ms` of the decision.

use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tollgate::http_response::status_body;
use tollgate::store::{ChargeStore, StoreError};
use tollgate::{Agent, LimitStatus, ReleaseToken};
use tollgate_core::clock::Timestamp;

use crate::body;
use crate::call_request::{self, RELEASE, SETTLE};
use crate::problem_details::{HandlerResult, ProblemDetails};

/// `POST /settle`: charges the units that a call cost beyond its charge, or refunds those that it did not use.
pub(crate) async fn settle<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let body = body::read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &SETTLE).map_err(ProblemDetails::bad_request)?;
    let missing = "`units` is missing; send the real cost minus the charged cost, as in \"units\": -3";
    let units = parsed.units.ok_or_else(|| ProblemDetails::bad_request(missing))?;
    respond(agent.settle(&parsed.call, units, parsed.at_ms.map(Timestamp::from_ms)).await)
}

/// `POST /release`: releases the slots of a call.
pub(crate) async fn release<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let body = body::read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &RELEASE).map_err(ProblemDetails::bad_request)?;
    let missing = "`at_ms` is missing; it identifies the slot: send the `at_ms` of the response of /check";
    let at_ms = parsed.at_ms.ok_or_else(|| ProblemDetails::bad_request(missing))?;
    respond(agent.release(ReleaseToken::new(parsed.call, Timestamp::from_ms(at_ms))).await)
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
