//! `POST /json`: a question in the words of envoyproxy/ratelimit's own `/json`, for those who come from there.
//!
//! Each of the request's descriptors is a call of its own, under the rules whose `match` names exactly its entries: that is
//! how rules look which `--envoy-config` or `rules import` made. A rule that replaces others does so for the whole request,
//! and where a domain charges all or none, what the others took is given back once one of them is over.
//! The answer is a 200 or a 429 with a status for each descriptor; a question that cannot be read is a 400.

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call, Decision, LimitStatus, answer};
use tollgate_core::call::{DESCRIPTORS_LEN_MAX, NAME_LEN_MAX, VALUE_LEN_MAX};
use tollgate_core::rules::Charging;
use tollgate_engine::Engine;
use tollgate_rules::import::envoy_names;

use crate::body;
use crate::problem::Problem;

/// The descriptor that holds a request's domain.
const DOMAIN: &str = "domain";
/// The most descriptors of one request.
const CALLS_LEN_MAX: usize = 64;
const EXAMPLE: &str =
    r#"{"domain": "web", "descriptors": [{"entries": [{"key": "remote_address", "value": "10.0.0.1"}]}]}"#;
/// Windows that have a name there, in ms.
const UNITS: [(u64, &str); 7] = [
    (1_000, "SECOND"),
    (60_000, "MINUTE"),
    (3_600_000, "HOUR"),
    (86_400_000, "DAY"),
    (7 * 86_400_000, "WEEK"),
    (30 * 86_400_000, "MONTH"),
    (365 * 86_400_000, "YEAR"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    descriptors: Vec<Descriptor>,
    #[serde(default, rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    #[serde(default)]
    entries: Vec<Entry>,
    #[serde(default, rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    overall_code: &'static str,
    statuses: Vec<Status>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<CurrentLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CurrentLimit {
    requests_per_unit: u64,
    unit: &'static str,
}

/// Decides a request of several descriptors.
pub(crate) async fn check<S: ChargeStore>(
    State(agent): State<Agent<S>>,
    request: Request,
) -> Result<Response, Problem> {
    let body = body::read(request.into_body()).await?;
    let refused = |why| Problem::bad_request(format!("the body is no rate limit request: {why}; send {EXAMPLE}"));
    let calls = replaced(agent.engine(), read(&body).map_err(refused)?);
    let mut decisions = join_all(calls.iter().map(|call| agent.check(call))).await;
    if decisions.iter().any(|decision| !decision.allowed) {
        refund(&agent, &calls, &mut decisions).await;
    }
    Ok(respond(&decisions, &agent.engine().settings().node))
}

fn read(body: &[u8]) -> Result<Vec<Call<'static>>, String> {
    let question: Question = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if question.domain.is_empty() {
        return Err("the `domain` is missing".to_owned());
    }
    if question.descriptors.is_empty() || question.descriptors.len() > CALLS_LEN_MAX {
        return Err(format!("it has {} descriptors, it may have 1 to {CALLS_LEN_MAX}", question.descriptors.len()));
    }
    let hits = u64::from(question.hits_addend).max(1);
    let Question { domain, descriptors, .. } = question;
    descriptors.into_iter().map(|descriptor| descriptor.call(&domain, hits)).collect()
}

impl Descriptor {
    fn call(self, domain: &str, hits: u64) -> Result<Call<'static>, String> {
        if self.entries.is_empty() || self.entries.len() >= DESCRIPTORS_LEN_MAX {
            return Err(format!("a descriptor has {} entries, it may have 1 to 31", self.entries.len()));
        }
        let names: Vec<String> =
            envoy_names(self.entries.iter().map(|entry| &*entry.key)).into_iter().map(Cow::into_owned).collect();
        let mut call =
            Call::new().with(DOMAIN, domain.to_owned()).costing(self.hits_addend.unwrap_or(hits)).as_entries();
        for (name, Entry { key, value }) in names.into_iter().zip(self.entries) {
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

/// The same calls; what a rule of one of them replaces does not apply to any.
fn replaced(engine: &Engine, calls: Vec<Call<'static>>) -> Vec<Call<'static>> {
    let mut replaced = Vec::new();
    for call in &calls {
        engine.with_applicable(call, |applicable| {
            let names = applicable.iter().flat_map(|applicable| &applicable.rule.replaces);
            replaced.extend(names.map(ToString::to_string));
        });
    }
    calls.into_iter().map(|call| call.without(replaced.clone())).collect()
}

/// One of the descriptors is over its limit: what the others were charged under rules that are charged all or none is given
/// back.
async fn refund<S: ChargeStore>(agent: &Agent<S>, calls: &[Call<'static>], decisions: &mut [Decision]) {
    for (call, decision) in calls.iter().zip(decisions).filter(|(_, decision)| decision.allowed) {
        let all_or_none = agent.engine().with_applicable(call, |applicable| {
            applicable.iter().any(|applicable| applicable.rule.charge == Charging::AllOrNone)
        });
        let units = i64::try_from(call.cost()).unwrap_or(i64::MAX);
        // A store that does not answer keeps the charge, as it would keep that of a call which broke off.
        if all_or_none
            && let Ok(Some(now)) = agent.settle(call, -units, Some(decision.at)).await
            && let Some(status) = &mut decision.status
        {
            status.remaining = now.remaining;
        }
    }
}

fn respond(decisions: &[Decision], node: &str) -> Response {
    let status = |decision: &Decision| Status {
        code: code(decision.allowed),
        current_limit: decision.status.as_ref().map(|status| CurrentLimit {
            requests_per_unit: status.limit,
            unit: UNITS.iter().find(|(width_ms, _)| *width_ms == status.window_ms).map_or("UNKNOWN", |(_, name)| name),
        }),
        limit_remaining: decision.status.as_ref().map(|status| status.remaining).filter(|remaining| *remaining > 0),
        duration_until_reset: decision.status.as_ref().map(seconds),
    };
    let allowed = decisions.iter().all(|decision| decision.allowed);
    let answer = Answer { overall_code: code(allowed), statuses: decisions.iter().map(status).collect() };
    let http = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let body = serde_json::to_string(&answer).unwrap_or_default();
    let fixed = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    let mut response = (http, fixed, body).into_response();
    // The headers of the decision that matters: a denial, else the first.
    if let Some(decision) = decisions.iter().find(|decision| !decision.allowed).or(decisions.first()) {
        response.headers_mut().extend(answer::headers(decision, node));
    }
    response
}

const fn code(allowed: bool) -> &'static str {
    if allowed { "OK" } else { "OVER_LIMIT" }
}

/// As JSON of protobuf writes a duration.
fn seconds(status: &LimitStatus) -> String {
    let mut text = (status.reset_ms / 1_000).to_string();
    if !status.reset_ms.is_multiple_of(1_000) {
        let _ = write!(text, ".{:03}", status.reset_ms % 1_000);
    }
    text + "s"
}
