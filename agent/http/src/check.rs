//! `/check`: decisions about single calls.
//!
//! `GET /check` decides about the request itself, or about the client's request that a gateway forwards in headers
//! ([`crate::forwarded_request`]). `/check/PATH` decides about the client's request that Envoy's `ext_authz` forwards:
//! with its method, and its path behind a prefix. `POST /check` decides about a call whose descriptors are in the body, with the
//! values that a request would have.
//! Several Envoy descriptors at once are the task of `json`.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, http_response};

use crate::body;
use crate::call_request::{self, CHECK};
use crate::forwarded_request::{ForwardedRequests, prefixed_call};
use crate::problem_details::{HandlerResult, ProblemDetails};

pub(crate) const CHECK_PATH: &str = "/check";

/// `GET /check`: decides the request itself, by the descriptors that the rules declare.
pub(crate) async fn check_request<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    Extension(forwarded): Extension<ForwardedRequests>,
    request: Request,
) -> HandlerResult {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    let deny_status = deny_status(parts.uri.query())?;
    let response = decide(&agent, &forwarded.call(&agent, &parts)?).await;
    Ok(match (response.status(), deny_status) {
        (StatusCode::TOO_MANY_REQUESTS, Some(status)) => (status, response).into_response(),
        _ => response,
    })
}

/// Returns the status of denials in place of 429 that `/check?deny=403` asks for: nginx's `auth_request` takes no other one.
fn deny_status(query: Option<&str>) -> Result<Option<StatusCode>, ProblemDetails> {
    let mut fields = query.unwrap_or_default().split('&');
    match fields.find_map(|field| field.strip_prefix("deny=")) {
        None => Ok(None),
        Some("403") => Ok(Some(StatusCode::FORBIDDEN)),
        Some(other) => {
            let detail = format!("deny={other} is not a status of denials; write deny=403, or leave it out for 429");
            Err(ProblemDetails::bad_request(detail))
        }
    }
}

/// `/check/PATH`: decides a request of the same method to `/PATH`. Headers with another path are from the client.
pub(crate) async fn check_prefixed<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    body::discard(body).await;
    decide(&agent, &prefixed_call(&agent, &parts, CHECK_PATH)).await
}

/// `POST /check`: decides the call in the body.
pub(crate) async fn check_call<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let body = body::read(request.into_body()).await?;
    let parsed = call_request::parse(&body, &CHECK).map_err(ProblemDetails::bad_request)?;
    let call = agent.engine().with_rules(|rules| rules.as_requested(parsed.call));
    Ok(decide(&agent, &call).await)
}

async fn decide<S: ChargeStore>(agent: &Agent<S>, call: &Call<'_>) -> Response {
    let decision = agent.decide(call).await;
    let id = agent.decision_id(call, &decision);
    http_response::response(&decision, agent.node(), &id).map(Body::from)
}
