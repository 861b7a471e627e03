//! `POST /json`: the request format of envoyproxy/ratelimit's own `/json`, for users who migrate from it.
//!
//! Each descriptor of the request is a separate call, under the rules whose `match` names exactly its entries;
//! `--envoy-config` and `rules import` create such rules. The agent decides all of them as one request
//! ([`Agent::decide_all`]): a rule that replaces others does so for the whole request, and in domains that charge all
//! or none nothing is charged if one descriptor is over its limit. The response is a 200, a 429 or a 403 with a status
//! for each descriptor, or a 400 for an invalid request.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny};
use serde_json::{Value, json};
use serde_untagged::UntaggedEnumVisitor;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, Decision, LimitKind, http_response};
use tollgate_core::call::{COST_MAX, DESCRIPTORS_LEN_MAX};
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
    limit: Option<IgnoredAny>,
    #[serde(rename = "isNegativeHits", alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
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
    if body.is_empty() {
        return Err("it is empty".to_owned());
    }
    let request: EnvoyRequest = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let domain = request.domain.filter(|domain| !domain.is_empty()).ok_or("the `domain` is missing")?;
    let descriptors = request.descriptors.unwrap_or_default();
    if descriptors.is_empty() || descriptors.len() > CALLS_LEN_MAX {
        return Err(format!("it has {} descriptors; it must have 1 to {CALLS_LEN_MAX}", descriptors.len()));
    }
    let hits = request.hits_addend.map_or(1, |Hits(hits)| hits.max(1));
    let calls = descriptors.into_iter().zip(1..).map(|(descriptor, number)| {
        descriptor.call(&domain, hits).map_err(|why| format!("descriptor {number}: {why}"))
    });
    calls.collect()
}

impl EnvoyDescriptor {
    fn call(self, domain: &str, hits: u64) -> Result<Call<'static>, String> {
        if self.limit.is_some() {
            return Err("a `limit` of the request is not supported; write the limit into the rules".to_owned());
        }
        if self.is_negative_hits == Some(true) {
            return Err("`isNegativeHits` is not supported; refund with `POST /settle`".to_owned());
        }
        let entries = self.entries.unwrap_or_default();
        if entries.is_empty() || entries.len() >= DESCRIPTORS_LEN_MAX {
            let most = DESCRIPTORS_LEN_MAX - 1;
            return Err(format!("it has {} entries; it must have 1 to {most}", entries.len()));
        }
        let entries: Vec<(String, String)> =
            entries.into_iter().map(|entry| (entry.key.unwrap_or_default(), entry.value.unwrap_or_default())).collect();
        let names: Vec<String> =
            envoy_names(entries.iter().map(|(key, _)| &**key)).into_iter().map(Cow::into_owned).collect();
        let mut call = Call::new().costing(self.hits_addend.map_or(hits, |Hits(hits)| hits));
        let entries = names.into_iter().zip(entries).map(|(name, (_, value))| (name, value));
        for (name, value) in [(DOMAIN.to_owned(), domain.to_owned())].into_iter().chain(entries) {
            call.add(name.into(), value.into()).map_err(|error| error.to_string())?;
        }
        Ok(call)
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

fn respond(decisions: &[Decision], node: &str) -> Response {
    let allowed = decisions.iter().all(|decision| decision.allowed);
    let statuses: Vec<Value> = decisions.iter().map(status).collect();
    let body = json!({ "overallCode": code(allowed), "statuses": statuses }).to_string();
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    // Status and headers describe the first denial, or else the first decision.
    let decision = decisions.iter().find(|decision| !decision.allowed).or(decisions.first());
    // The protocol has one status for a descriptor over its limit. Its clients let a call pass after an answer that they do not know.
    let never_passes = decision.and_then(|decision| decision.status.as_ref()?.cost_max).is_some();
    let http = match decision.map_or(StatusCode::OK, http_response::status_code) {
        StatusCode::FORBIDDEN if never_passes => StatusCode::TOO_MANY_REQUESTS,
        status => status,
    };
    let headers = decision.map(|decision| http_response::headers(decision, node));
    (http, fixed, headers, body).into_response()
}

/// Returns the status of one descriptor. Durations are written like in Protobuf's JSON encoding.
fn status(decision: &Decision) -> Value {
    let mut status = json!({ "code": code(decision.allowed) });
    if let Some(limit) = &decision.status {
        // Slots are not counted by time.
        let is_unit = |(width_ms, _): &&(u64, _)| *width_ms == limit.window_ms && limit.kind != LimitKind::Slots;
        let unit = UNITS.iter().find(is_unit).map_or("UNKNOWN", |(_, name)| name);
        // Envoy's API has 32 bits for both.
        let number = |units: u64| units.min(u32::MAX.into());
        status["currentLimit"] = json!({ "requestsPerUnit": number(limit.limit), "unit": unit });
        status["durationUntilReset"] = format!("{}s", http_response::seconds(limit.reset_ms)).into();
        if limit.remaining > 0 {
            status["limitRemaining"] = number(limit.remaining.min(limit.limit)).into();
        }
    }
    status
}

const fn code(allowed: bool) -> &'static str {
    if allowed { "OK" } else { "OVER_LIMIT" }
}
