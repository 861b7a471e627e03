//! `POST /json`: the request format of envoyproxy/ratelimit's own `/json`, for users who migrate from it.
//!
//! Each descriptor of the request is a separate call ([`envoy_rate_limit`]). A rule that replaces others does so for the whole
//! request, and in domains that charge all or none nothing is charged if one descriptor is over its limit. The response is a 200, a
//! 429 or a 403 with a status for each descriptor, or a 400 for an invalid request.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Value, json};
use serde_untagged::UntaggedEnumVisitor;
use tollgate::envoy_rate_limit::{
    DescriptorStatus, LimitUnit, RateLimitAnswer, RateLimitCalls, RateLimitDescriptor, RateLimitError,
};
use tollgate::store::ChargeStore;
use tollgate::{Agent, DenyStatus, LimitKind, LimitStatus, http_response};
use tollgate_core::call::COST_MAX;

use crate::body::BodyLimit;
use crate::problem_details::{HandlerResult, ProblemDetails};

const EXAMPLE: &str =
    r#"{"domain": "web", "descriptors": [{"entries": [{"key": "remote_address", "value": "10.0.0.1"}]}]}"#;
/// `RateLimitRequest` of Envoy's API in the JSON form of Protobuf: `null` is the same as a missing field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `domain` and `descriptors`")]
struct EnvoyRequest {
    domain: Option<String>,
    descriptors: Option<Vec<EnvoyDescriptor>>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Hits>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `entries`")]
struct EnvoyDescriptor {
    entries: Option<Vec<EnvoyEntry>>,
    #[serde(rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Hits>,
    limit: Option<EnvoyLimit>,
    #[serde(rename = "isNegativeHits", alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `requestsPerUnit` and `unit`")]
struct EnvoyLimit {
    #[serde(rename = "requestsPerUnit", alias = "requests_per_unit", default)]
    requests_per_unit: u32,
    #[serde(default)]
    unit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `key` and `value`")]
struct EnvoyEntry {
    key: Option<String>,
    value: Option<String>,
}

/// Number of hits. Protobuf writes 64-bit numbers as text, and reads all numbers in both forms.
struct Hits(u64);

/// `POST /json`: decides a request with several descriptors.
pub(crate) async fn check<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    State(limit): State<BodyLimit>,
    request: Request,
) -> HandlerResult {
    let (parts, body) = request.into_parts();
    let body = limit.read(body).await?;
    let refused =
        |why| ProblemDetails::bad_request(format!("the body is not a valid rate limit request: {why}; send {EXAMPLE}"));
    let request = read(&body).map_err(refused)?;
    let answer = async { request.calls()?.traced(&parts.headers).decide(&agent, &parts.headers).await }.await;
    let answer = answer.map_err(|error| match error {
        RateLimitError::Invalid(why) => refused(why),
        RateLimitError::NotRefunded(_) => ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    })?;
    Ok(respond(&answer, agent.node()))
}

fn read(body: &[u8]) -> Result<EnvoyRequest, String> {
    if body.is_empty() {
        return Err("it is empty".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

impl EnvoyRequest {
    fn calls(&self) -> Result<RateLimitCalls<'_>, RateLimitError> {
        let descriptors = self.descriptors.iter().flatten().collect::<Vec<_>>();
        let descriptors = descriptors.into_iter().map(|descriptor| RateLimitDescriptor {
            entries: descriptor.entries.as_deref().unwrap_or_default().iter().map(EnvoyEntry::texts),
            hits: descriptor.hits_addend.as_ref().map(|Hits(hits)| *hits),
            is_negative_hits: descriptor.is_negative_hits == Some(true),
            limit: descriptor.limit.as_ref().map(|limit| (limit.requests_per_unit, LimitUnit::named(&limit.unit))),
        });
        let hits = self.hits_addend.as_ref().map_or(1, |Hits(hits)| *hits);
        RateLimitCalls::new(self.domain.as_deref().unwrap_or_default(), hits, descriptors)
    }
}

impl EnvoyEntry {
    fn texts(&self) -> (&str, &str) {
        (self.key.as_deref().unwrap_or_default(), self.value.as_deref().unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Hits {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let expected = format_args!("hits, a whole number from 0 to {COST_MAX}");
        let within = |text: &str| {
            let hits = text.parse().ok().filter(|hits| *hits <= COST_MAX).map(Hits);
            hits.ok_or_else(|| Error::custom(format_args!("invalid value: `{text}`, expected {expected}")))
        };
        UntaggedEnumVisitor::new()
            .expecting(expected)
            .u64(|hits| within(&hits.to_string()))
            .string(within)
            .deserialize(json)
    }
}

fn respond(answer: &RateLimitAnswer, node: &str) -> Response {
    let statuses: Vec<Value> = answer.statuses().iter().map(status).collect();
    let body = json!({ "overallCode": code(answer.is_allowed()), "statuses": statuses }).to_string();
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    let decision = answer.deciding();
    // The protocol has one status for a descriptor over its limit. Its clients let a call pass after an answer that they do not know.
    let http = match decision.filter(|decision| !decision.allowed).map(|denied| &denied.status) {
        None => StatusCode::OK,
        Some(Some(LimitStatus { kind: LimitKind::Denial(DenyStatus::Forbidden), .. })) => StatusCode::FORBIDDEN,
        Some(_) => StatusCode::TOO_MANY_REQUESTS,
    };
    let headers = decision.map(|decision| http_response::headers(decision, node));
    (http, fixed, headers, body).into_response()
}

/// Returns the status of one descriptor. Durations are written like in Protobuf's JSON encoding, which leaves out zeros.
fn status(status: &DescriptorStatus<'_>) -> Value {
    let mut json = json!({ "code": code(!status.is_over_limit) });
    if let Some(limit) = &status.limit {
        let current =
            json!({ "name": limit.name, "requestsPerUnit": limit.requests_per_unit, "unit": limit.unit.as_str() });
        json["currentLimit"] = current;
        json["durationUntilReset"] = format!("{}s", http_response::seconds(limit.reset_ms)).into();
        if limit.remaining > 0 {
            json["limitRemaining"] = limit.remaining.into();
        }
    }
    json
}

const fn code(allowed: bool) -> &'static str {
    if allowed { "OK" } else { "OVER_LIMIT" }
}
