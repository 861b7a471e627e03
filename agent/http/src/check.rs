//! `/check`: decisions about single calls.
//!
//! `GET /check` decides about the request itself, or about the client's request that a gateway forwards in headers
//! ([`crate::forwarded_request`]). `/check/PATH` decides about the client's request that Envoy's `ext_authz` forwards:
//! with its method, and its path behind a prefix. `POST /check` decides about a call whose descriptors are in the body, with the
//! values that a request would have.
//! Several Envoy descriptors at once are the task of `json`.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use tollgate::request::set_trace;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, http_response};

use crate::body::{self, BodyLimit};
use crate::call_request::{self, CHECK};
use crate::forwarded_request::{ForwardedRequests, prefixed_call};
use crate::problem_details::{HandlerResult, ProblemDetails};

pub(crate) const CHECK_PATH: &str = "/check";

/// Maximum time for which an answer is held back. A longer delay leaves its rest in `delay_ms`. It is shorter than the time for
/// requests in progress at the end of an agent, and than the default time in which a request is answered.
const WAIT_MAX: Duration = Duration::from_secs(4);

/// Options of the query of `/check`.
#[derive(Default)]
struct CheckOptions {
    /// Status of denials in place of any other.
    deny_status: Option<StatusCode>,
    /// True if the answer to an admitted call is held back until its turn.
    waits: bool,
    /// True if `RateLimit` and `RateLimit-Policy` have every rule that applies.
    tells_all: bool,
}

impl CheckOptions {
    /// Reads a query. Only the first field of a name counts: those behind it may be of the client's request.
    fn read(query: Option<&str>) -> Result<Self, ProblemDetails> {
        let field = |name| query.unwrap_or_default().split('&').find_map(|field| field.strip_prefix(name));
        let refused = |detail| Err(ProblemDetails::bad_request(detail));
        let deny_status = match field("deny=") {
            None => None,
            Some("403") => Some(StatusCode::FORBIDDEN),
            Some(other) => {
                return refused(format!(
                    "deny={other} is not a status of denials; write deny=403, or leave it out for 429"
                ));
            }
        };
        let waits = match field("wait=") {
            None => false,
            Some("true") => true,
            Some(other) => {
                return refused(format!("wait={other} is not known; write wait=true, or leave it out for no wait"));
            }
        };
        let tells_all = match field("policies=") {
            None => false,
            Some("all") => true,
            Some(other) => {
                return refused(format!(
                    "policies={other} is not known; write policies=all, or leave it out for the deciding rule alone"
                ));
            }
        };
        Ok(Self { deny_status, waits, tells_all })
    }
}

/// `GET /check`: decides the request itself, by the descriptors that the rules declare.
pub(crate) async fn check_request<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(forwarded): State<ForwardedRequests>,
    request: Request,
) -> HandlerResult {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    let options = CheckOptions::read(parts.uri.query())?;
    Ok(decide(&agent, &forwarded.call(&agent, &parts)?, &options, &parts.headers).await)
}

/// `/check/PATH`: decides a request of the same method to `/PATH`. Headers with another path are from the client.
pub(crate) async fn check_prefixed<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    decide(&agent, &prefixed_call(&agent, &parts, CHECK_PATH), &CheckOptions::default(), &parts.headers).await
}

/// `POST /check`: decides the call in the body.
pub(crate) async fn check_call<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let (parts, body) = request.into_parts();
    let body = limit.read(body).await?;
    let options = CheckOptions::read(parts.uri.query())?;
    let parsed = call_request::parse(&body, &CHECK).map_err(ProblemDetails::bad_request)?;
    let mut call = agent.engine().with_rules(|rules| rules.as_requested(parsed.call));
    set_trace(&parts.headers, [&mut call]);
    Ok(decide(&agent, &call, &options, &parts.headers).await)
}

async fn decide<S: ChargeStore>(
    agent: &Agent<S>,
    call: &Call<'_>,
    options: &CheckOptions,
    headers: &HeaderMap,
) -> Response {
    let mut decision = if options.tells_all { agent.decide_telling_all(call).await } else { agent.decide(call).await };
    if options.waits && decision.delay_ms > 0 {
        let wait = WAIT_MAX.min(Duration::from_millis(decision.delay_ms));
        tokio::time::sleep(wait).await;
        decision.delay_ms -= u64::try_from(wait.as_millis()).unwrap_or(decision.delay_ms);
    }
    let id = agent.decision_id(call, &decision);
    let status = options.deny_status.filter(|_| !decision.allowed);
    let status = status.unwrap_or_else(|| http_response::status_code(&decision));
    let response = http_response::response_as(&decision, status, agent.node(), &id).map(Body::from);
    agent.log_answer(call, &decision, response.status(), headers);
    response
}
