//! `POST /json`: the request format of envoyproxy/ratelimit's own `/json`, for users who migrate from it.
//!
//! Each descriptor of the request is a separate call, under the rules whose `match` names exactly its entries;
//! `--envoy-config` and `rules import` create such rules. The agent decides all of them as one request
//! ([`Agent::decide_all`]): a rule that replaces others does so for the whole request, and in domains that charge all or none
//! nothing is charged if one descriptor is over its limit. The response is a 200 or a 429 with a status for each
//! descriptor, or a 400 for an invalid request.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, Decision, http_response};
use tollgate_core::call::{DESCRIPTORS_LEN_MAX, NAME_LEN_MAX, VALUE_LEN_MAX};
use tollgate_core::rules::MatchScope;
use tollgate_rules::import::envoy_names;

use crate::body;
use crate::problem_details::{HandlerResult, ProblemDetails};

/// Descriptor that holds a request's domain.
const DOMAIN: &str = "domain";
/// Maximum number of descriptors in a request.
const CALLS_LEN_MAX: usize = 64;
const EXAMPLE: &str =
    r#"{"domain": "web", "descriptors": [{"entries": [{"key": "remote_address", "value": "10.0.0.1"}]}]}"#;
/// Windows with a unit name in Envoy's API, in ms.
const UNITS: [(u64, &str); 7] = [
    (1_000, "SECOND"),
    (60_000, "MINUTE"),
    (3_600_000, "HOUR"),
    (86_400_000, "DAY"),
    (7 * 86_400_000, "WEEK"),
    (30 * 86_400_000, "MONTH"),
    (365 * 86_400_000, "YEAR"),
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EnvoyRequest {
    domain: String,
    descriptors: Vec<EnvoyDescriptor>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: u32,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EnvoyDescriptor {
    entries: Vec<EnvoyEntry>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EnvoyEntry {
    key: String,
    value: String,
}

/// `POST /json`: decides a request with several descriptors.
pub(crate) async fn check<S: ChargeStore>(State(agent): State<Agent<S>>, request: Request) -> HandlerResult {
    let body = body::read(request.into_body()).await?;
    let refused =
        |why| ProblemDetails::bad_request(format!("the body is not a valid rate limit request: {why}; send {EXAMPLE}"));
    let calls = read(&body).map_err(refused)?;
    let scope = MatchScope { exact_entries: true, ..MatchScope::default() };
    let decisions = agent.decide_all(&calls, scope).await;
    Ok(respond(&decisions, &agent.engine().settings().node))
}

fn read(body: &[u8]) -> Result<Vec<Call<'static>>, String> {
    let request: EnvoyRequest = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if request.domain.is_empty() {
        return Err("the `domain` is missing".to_owned());
    }
    if request.descriptors.is_empty() || request.descriptors.len() > CALLS_LEN_MAX {
        return Err(format!("it has {} descriptors; it must have 1 to {CALLS_LEN_MAX}", request.descriptors.len()));
    }
    let hits = u64::from(request.hits_addend).max(1);
    request.descriptors.into_iter().map(|descriptor| descriptor.call(&request.domain, hits)).collect()
}

impl EnvoyDescriptor {
    fn call(self, domain: &str, hits: u64) -> Result<Call<'static>, String> {
        if self.entries.is_empty() || self.entries.len() >= DESCRIPTORS_LEN_MAX {
            return Err(format!("a descriptor has {} entries; it must have 1 to 31", self.entries.len()));
        }
        let names: Vec<String> =
            envoy_names(self.entries.iter().map(|entry| &*entry.key)).into_iter().map(Cow::into_owned).collect();
        let mut call = Call::new().with(DOMAIN, domain.to_owned()).costing(self.hits_addend.unwrap_or(hits));
        for (name, EnvoyEntry { key, value }) in names.into_iter().zip(self.entries) {
            if key.is_empty() || key.len() > NAME_LEN_MAX || value.len() > VALUE_LEN_MAX {
                return Err(format!(
                    "entry `{key}`: a key has 1 to {NAME_LEN_MAX} bytes, a value at most {VALUE_LEN_MAX}"
                ));
            }
            call = call.with(name, value);
        }
        Ok(call)
    }
}

fn respond(decisions: &[Decision], node: &str) -> Response {
    let allowed = decisions.iter().all(|decision| decision.allowed);
    let http = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let statuses: Vec<Value> = decisions.iter().map(status).collect();
    let body = json!({ "overallCode": code(allowed), "statuses": statuses }).to_string();
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    // The headers describe the first denial, or else the first decision.
    let decision = decisions.iter().find(|decision| !decision.allowed).or(decisions.first());
    let headers = decision.map(|decision| http_response::headers(decision, node));
    (http, fixed, headers, body).into_response()
}

/// Returns the status of one descriptor. Durations are written like in Protobuf's JSON encoding.
fn status(decision: &Decision) -> Value {
    let mut status = json!({ "code": code(decision.allowed) });
    if let Some(limit) = &decision.status {
        let unit = UNITS.iter().find(|(width_ms, _)| *width_ms == limit.window_ms).map_or("UNKNOWN", |(_, name)| name);
        status["currentLimit"] = json!({ "requestsPerUnit": limit.limit, "unit": unit });
        status["durationUntilReset"] = format!("{}s", http_response::seconds(limit.reset_ms)).into();
        if limit.remaining > 0 {
            status["limitRemaining"] = limit.remaining.into();
        }
    }
    status
}

const fn code(allowed: bool) -> &'static str {
    if allowed { "OK" } else { "OVER_LIMIT" }
}
