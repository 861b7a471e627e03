//! HTTP form of a decision: headers and bodies.
//!
//! `RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers-11. The body of a denial is
//! `application/problem+json` (RFC 9457) with the members of an admission in addition to its own.
//!
//! The limit of a response is the number of units that can be left: the quota, or the burst of the rule. Clients thus never
//! see more left than the limit, and see the whole limit left when they are idle. The window of `RateLimit-Policy` is the
//! time in which that number of units passes at the rate of the quota. The quota as limit was rejected, because an idle
//! bucket of `100/min` would show 2 of 100. Clients would regard a parameter for the burst as a comment.
//!
//! A rule may have an [`OwnAnswer`], which replaces parts of this form.

mod limit_fields;
mod decision_body;
mod nested_body;
mod status_body;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tollgate_core::decision::{DENY_LIST, Decision, DenyStatus, LimitKind, LimitStatus, LocalAnswer, Source};
use tollgate_core::own_answer::{DenialBody, FieldValue, LIMIT_HEADERS, OwnAnswer};

#[doc(hidden)]
pub use status_body::status_body;

use decision_body::{DecisionBody, OwnField, OwnFields};

/// Content type of a denial.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Problem type of a denial that no retry changes, relative to the agent.
const COST_EXCEEDS_QUOTA: &str = "cost-exceeds-quota";
/// Minimum jitter of `Retry-After` in s; longer waits have a jitter of a tenth of the wait.
const JITTER_S_MIN: u64 = 2;

/// Header with the name of the node that responded.
pub const NODE: &str = "x-gateway-node";

/// Capacity for all headers of a response, with content type and caching.
const HEADERS_CAPACITY: usize = 12;
const NODE_NAME: HeaderName = HeaderName::from_static(NODE);
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("x-ratelimit-policy");
const DELAY_MS: HeaderName = HeaderName::from_static("x-ratelimit-delay-ms");

/// Returns the names of all headers that [`headers`] may set. A backend must not see those that a client sends.
pub fn header_names() -> impl Iterator<Item = &'static str> {
    LIMIT_HEADERS.into_iter().chain([NODE])
}

/// Returns the headers of a decision made by `node`.
#[must_use]
pub fn headers(decision: &Decision, node: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(HEADERS_CAPACITY);
    for (name, value) in header_texts(decision, node) {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Returns the headers of a decision made by `node`, with their values as text. A name of a node may have characters that no header
/// has.
#[must_use]
pub fn header_texts(decision: &Decision, node: &str) -> Vec<(HeaderName, String)> {
    let mut headers = Vec::with_capacity(HEADERS_CAPACITY);
    let hidden = shown(decision).and_then(own_answer).map_or(&[][..], |answer| &answer.hide);
    let mut set = |name: HeaderName, value: String| {
        debug_assert!(header_names().any(|known| known == name), "{name} is not in the list");
        if !hidden.contains(&name.as_str()) {
            headers.push((name, value));
        }
    };
    set(NODE_NAME, node.to_owned());
    let Some(status) = shown(decision) else { return headers };
    let reset_at_s = decision.at.plus_ms(status.reset_ms).as_ms().div_ceil(1_000);
    set(LIMIT, status.at_once.to_string());
    let is_known = !status.hides_remaining;
    set(REMAINING, if is_known { status.remaining.to_string() } else { "-1".to_owned() });
    set(RESET, reset_at_s.to_string());
    set(RATELIMIT_POLICY, limit_fields::policies(decision, status));
    if let Some(limits) = limit_fields::limits(decision, status) {
        set(RATELIMIT, limits);
    }
    if decision.is_degraded() {
        set(POLICY, "degraded".to_owned());
    }
    if decision.delay_ms > 0 {
        set(DELAY_MS, decision.delay_ms.to_string());
    }
    if may_pass_later(decision) {
        set(RETRY_AFTER, retry_after_s(status.retry_after_ms, decision.id.call).to_string());
    }
    headers
}

/// Returns the status of a decision: 200; 403 for a call that costs more than a quota; the rule's own status of denials; 403 for a
/// call that is always denied, if the rules choose it; or 429.
#[must_use]
pub fn status_code(decision: &Decision) -> StatusCode {
    if decision.allowed {
        return StatusCode::OK;
    }
    let status = decision.status.as_ref();
    let own = status.filter(|status| status.cost_max.is_none()).and_then(own_answer).and_then(|answer| answer.status);
    let own = own.and_then(|own| StatusCode::from_u16(own.code()).ok());
    own.unwrap_or(if status.is_none_or(may_pass) { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::FORBIDDEN })
}

/// Returns true if the call is denied, and a later retry of it may pass.
#[must_use]
pub fn may_pass_later(decision: &Decision) -> bool {
    !decision.allowed && decision.status.as_ref().is_none_or(may_pass)
}

/// Returns the response to a call with this decision of `node`, as `/check` gives it. `id` is the text of the decision's id
/// ([`Agent::decision_id`](crate::Agent::decision_id)).
#[must_use]
pub fn response(decision: &Decision, node: &str, id: &str) -> Response<String> {
    response_as(decision, status_code(decision), node, id)
}

/// Returns the response to a call with this status in place of [`status_code`]. The body of a denial tells the same one
/// (RFC 9457, 3.1.2).
#[must_use]
pub fn response_as(decision: &Decision, status: StatusCode, node: &str, id: &str) -> Response<String> {
    let content_type = if is_problem(decision) { PROBLEM_JSON } else { "application/json" };
    let mut response = Response::new(body_as(decision, status, id));
    *response.status_mut() = status;
    *response.headers_mut() = headers(decision, node);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // A cached response would be repeated without being counted.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the body of a decision: a JSON object. `id` is the text of its id
/// ([`Agent::decision_id`](crate::Agent::decision_id)).
#[must_use]
pub fn body(decision: &Decision, id: &str) -> String {
    body_as(decision, status_code(decision), id)
}

fn body_as(decision: &Decision, status: StatusCode, id: &str) -> String {
    match decision.status.as_ref().filter(|_| !decision.allowed) {
        Some(limit) if !is_problem(decision) => nested(decision, limit).to_string(),
        _ => members(decision, status, id).to_json(),
    }
}

fn members<'d>(decision: &'d Decision, status: StatusCode, id: &'d str) -> DecisionBody<'d> {
    let limit = shown(decision);
    let denied = decision.status.as_ref().filter(|_| !decision.allowed);
    let (kind, title, detail) = match denied.map(|status| denial(decision, status)) {
        Some((kind, title, detail)) => (Some(kind), Some(title), Some(detail)),
        None => (None, None, None),
    };
    let may_pass = |_: &&_| decision.allowed || may_pass_later(decision);
    DecisionBody {
        allowed: decision.allowed,
        at_ms: decision.at.as_ms(),
        by: decision.by.map(LocalAnswer::as_str),
        delay_ms: Some(decision.delay_ms).filter(|ms| *ms > 0),
        detail,
        id,
        limit: limit.map(|limit| limit.at_once),
        over_quota: decision.is_over_quota,
        remaining: limit.filter(|limit| !limit.hides_remaining).map(|limit| limit.remaining),
        reset_ms: limit.map(|limit| limit.reset_ms),
        retry_after_ms: limit.filter(may_pass).map(|limit| limit.retry_after_ms),
        rule: limit.map(|limit| &*limit.rule),
        slots: limit.is_some_and(|limit| limit.kind == LimitKind::Slots),
        source: decision.source.as_str(),
        status: denied.map(|_| status.as_u16()),
        title,
        kind,
        violated_policies: denied.map(|status| [&*status.rule]),
        own: OwnFields(denied.map_or(&[], own_fields)),
    }
}

fn nested(decision: &Decision, status: &LimitStatus) -> Value {
    let is_over_quota = status.kind == LimitKind::Window && may_pass(status) && status.cost <= status.at_once;
    let has_message = own_answer(status).is_some_and(|answer| answer.message.is_some());
    let message = if is_over_quota && !has_message && decision.by != Some(LocalAnswer::Late) {
        nested_body::over_quota(status).into()
    } else {
        denial(decision, status).2
    };
    let retry_after_s = may_pass_later(decision).then(|| retry_after_s(status.retry_after_ms, decision.id.call));
    let mut body = nested_body::of(status, &message, retry_after_s, decision.at);
    for (name, value) in own_fields(status) {
        body[&**name] = json!(OwnField(value));
    }
    body
}

/// Returns the status that a client sees. It does not see rules in shadow.
fn shown(decision: &Decision) -> Option<&LimitStatus> {
    decision.status.as_ref().filter(|status| !status.shadow)
}

fn own_answer(status: &LimitStatus) -> Option<&OwnAnswer> {
    status.own_answer.as_deref()
}

fn own_fields(status: &LimitStatus) -> &[(Box<str>, FieldValue)] {
    own_answer(status).map_or(&[], |answer| &answer.fields)
}

/// Returns true if the body is that of a problem: of a denial whose rule has no other form.
fn is_problem(decision: &Decision) -> bool {
    let own = decision.status.as_ref().and_then(own_answer);
    !decision.allowed && own.is_none_or(|answer| answer.body == DenialBody::Problem)
}

/// Returns true if a call that a rule denies may pass later.
fn may_pass(status: &LimitStatus) -> bool {
    status.cost_max.is_none() && status.kind != LimitKind::Denial(DenyStatus::Forbidden)
}

/// Returns type, title and detail of a denial (RFC 9457). Title and detail may be the rule's own.
pub(crate) fn denial<'d>(decision: &Decision, status: &'d LimitStatus) -> (&'static str, &'d str, Cow<'d, str>) {
    let (kind, title, detail) = reason(decision, status);
    let own = own_answer(status);
    let title = own.and_then(|answer| answer.title.as_deref()).unwrap_or(title);
    (kind, title, own.and_then(|answer| answer.message.as_deref()).map_or(detail.into(), Cow::Borrowed))
}

/// Returns type, title and detail of a denial by the state of its limit.
fn reason(decision: &Decision, status: &LimitStatus) -> (&'static str, &'static str, String) {
    if matches!(status.kind, LimitKind::Denial(_)) {
        let by = if &*status.rule == DENY_LIST { "the deny list" } else { &*status.rule };
        return ("about:blank", "Denied", format!("{by} denies this call regardless of its count"));
    }
    let LimitStatus { rule, limit, at_once, cost, cost_max, remaining, .. } = status;
    let wait_s = seconds(status.retry_after_ms);
    let (policy, takes, earlier) = if status.kind == LimitKind::Slots {
        let taken = limit.saturating_sub(*remaining);
        (format!("rule {rule} has {limit} slots, {taken} in use"), "takes", ", or when other calls end")
    } else {
        (format!("rule {rule} allows {limit} in {} s", seconds(status.window_ms)), "costs", "")
    };
    if let Some(cost_max) = cost_max {
        let most = if cost_max.get() == *limit { String::new() } else { format!(", {cost_max} at once") };
        let detail = format!("{policy}{most}, and this call {takes} {cost}: it can never pass; make it smaller");
        return (COST_EXCEEDS_QUOTA, "Cost exceeds the quota", detail);
    }
    let detail = if decision.by == Some(LocalAnswer::Late) {
        format!("Redis has not answered in time, so the count of rule {rule} is not known; try again in {wait_s} s")
    } else if cost > at_once {
        // The budget of a region, or the limit of the emergency switch.
        format!("{policy}, and this call {takes} {cost}: it passes only under a higher limit; make it smaller")
    } else {
        format!("{policy}; this call passes in {wait_s} s{earlier}")
    };
    match decision.source {
        Source::Fallback => (
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Too many requests for now",
            detail,
        ),
        _ => ("https://iana.org/assignments/http-problem-types#quota-exceeded", "Too many requests", detail),
    }
}

/// Returns the value of `Retry-After`: whole seconds, rounded up, plus a jitter, so that callers who were denied
/// together do not return together.
fn retry_after_s(retry_after_ms: u64, salt: u64) -> u64 {
    let wait_s = retry_after_ms.div_ceil(1_000).max(1);
    wait_s + salt.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % JITTER_S_MIN.max(wait_s / 10)
}

/// Formats a duration in s, such as `60` or `1.001`.
#[doc(hidden)]
#[must_use]
pub fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { (ms / 1_000).to_string() } else { format!("{}.{:03}", ms / 1_000, ms % 1_000) }
}
