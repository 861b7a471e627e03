//! `/settle` and `/release`: what is said of a call after its answer.
//!
//! `/settle` says what it really cost, as a difference to what was asked for; `/release` that it has ended, so that its
//! slots under rules of `concurrency` are free. Both name the call by its descriptors, as `POST /check` does, and by the
//! `at_ms` of its answer.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::json;
use tollgate::store::{ChargeStore, StoreError};
use tollgate::{Agent, LimitStatus};
use tollgate_core::clock::Timestamp;

use crate::body;
use crate::call::{self, RELEASE, SETTLE};
use crate::problem::Problem;

/// Charges what a call cost beyond what it asked for, or gives back what it did not cost.
pub(crate) async fn settle<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::read(request.into_body()).await?;
    let said = call::read(&body, &SETTLE).map_err(Problem::bad_request)?;
    let missing =
        "`units` is missing: say how many more the call cost than it asked for, or fewer, as in \"units\": -3";
    let units = said.units.ok_or_else(|| Problem::bad_request(missing))?;
    respond(agent.settle(&said.call, units, said.at_ms.map(Timestamp::from_ms)).await)
}

/// Gives the slots of a call back.
pub(crate) async fn release<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::read(request.into_body()).await?;
    let said = call::read(&body, &RELEASE).map_err(Problem::bad_request)?;
    let missing = "`at_ms` is missing: a slot is known by it; send the `at_ms` that the answer of /check had";
    let at_ms = said.at_ms.ok_or_else(|| Problem::bad_request(missing))?;
    respond(agent.release(&said.call, Timestamp::from_ms(at_ms)).await)
}

fn respond(amended: Result<Option<LimitStatus>, StoreError>) -> Result<Response, Problem> {
    let status = amended.map_err(|error| {
        let detail = format!("nothing was given back: {error}; send it again once the store answers");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    let body = json!({
        "rule": status.as_ref().map(|status| &*status.rule),
        "limit": status.as_ref().map(|status| status.limit),
        "remaining": status.as_ref().map(|status| status.remaining),
        "reset_ms": status.as_ref().map(|status| status.reset_ms),
    });
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, fixed, body.to_string()).into_response())
}
