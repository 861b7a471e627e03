//! HTTP form of a decision: headers and bodies.
//!
//! `RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers-10. The body of a denial is
//! `application/problem+json` (RFC 9457) with the members of an admission in addition to its own.
//!
//! The limit of a response is the number of units that can be left: the quota, or the burst of the rule. Clients thus never
//! see more left than the limit, and see the whole limit left when they are idle. The window of `RateLimit-Policy` is the
//! time in which that number of units passes at the rate of the quota. The quota as limit was rejected, because an idle
//! bucket of `100/min` would show 2 of 100. Clients would regard a parameter for the burst as a comment.

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tollgate_core::decision::{DENY_LIST, Decision, DenyStatus, LimitKind, LimitStatus, Source};

/// Content type of a denial.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Minimum jitter of `Retry-After` in s; longer waits have a jitter of a tenth of the wait.
const JITTER_S_MIN: u64 = 2;
/// Maximum integer of a structured field (RFC 9651).
const FIELD_NUMBER_MAX: u64 = 999_999_999_999_999;

/// Header with the name of the node that responded.
pub const NODE: &str = "x-gateway-node";

/// Returns the headers of a decision made by `node`.
#[must_use]
pub fn headers(decision: &Decision, node: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    set(NODE, node.to_owned());
    let Some(status) = shown(decision) else { return headers };
    let reset_at_s = decision.at.plus_ms(status.reset_ms).as_ms().div_ceil(1_000);
    // The draft wants no `Retry-After` before the end of `t`.
    let more_in_ms = if decision.allowed { status.reset_ms } else { status.retry_after_ms };
    set("x-ratelimit-limit", status.at_once.to_string());
    let is_known = !status.hides_remaining;
    set("x-ratelimit-remaining", if is_known { status.remaining.to_string() } else { "-1".to_owned() });
    set("x-ratelimit-reset", reset_at_s.to_string());
    let (limit, remaining) = (status.at_once.min(FIELD_NUMBER_MAX), status.remaining.min(FIELD_NUMBER_MAX));
    set("ratelimit-policy", format!("\"{}\";q={limit}{}", status.rule, window(status)));
    // The draft has no value for an unknown number.
    if is_known {
        set("ratelimit", format!("\"{}\";r={remaining};t={}", status.rule, more_in_ms.div_ceil(1_000)));
    }
    if decision.is_degraded() {
        set("x-ratelimit-policy", "degraded".to_owned());
    }
    if decision.delay_ms > 0 {
        set("x-ratelimit-delay-ms", decision.delay_ms.to_string());
    }
    if status_code(decision) == StatusCode::TOO_MANY_REQUESTS {
        set("retry-after", retry_after_s(status.retry_after_ms, decision.id.call).to_string());
    }
    headers
}

/// Returns the status of a decision: 200, 429, or 403 if the rules choose it for calls that are always denied.
#[must_use]
pub fn status_code(decision: &Decision) -> StatusCode {
    match decision.status.as_ref().map(|status| status.kind) {
        _ if decision.allowed => StatusCode::OK,
        Some(LimitKind::Denial(DenyStatus::Forbidden)) => StatusCode::FORBIDDEN,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// Returns the body of a decision: a JSON object. `id` is the text of its id
/// ([`Agent::decision_id`](crate::Agent::decision_id)).
#[must_use]
pub fn body(decision: &Decision, id: &str) -> String {
    members(decision, id).to_string()
}

fn members(decision: &Decision, id: &str) -> Value {
    let status = shown(decision);
    let mut body = status_body(status);
    body["allowed"] = decision.allowed.into();
    let is_forbidden = status_code(decision) == StatusCode::FORBIDDEN;
    let status = status.filter(|_| !is_forbidden);
    body["retry_after_ms"] = status.map(|status| status.retry_after_ms).into();
    body["source"] = decision.source.as_str().into();
    if let Some(by) = decision.by {
        body["by"] = by.as_str().into();
    }
    // `/settle` and `/release` name the call by it.
    body["id"] = id.into();
    body["at_ms"] = decision.at.as_ms().into();
    if decision.delay_ms > 0 {
        body["delay_ms"] = decision.delay_ms.into();
    }
    if let (false, Some(status)) = (decision.allowed, &decision.status) {
        let (kind, title, detail) = denial(decision, status);
        body["type"] = kind.into();
        body["title"] = title.into();
        body["status"] = status_code(decision).as_u16().into();
        body["detail"] = detail.into();
        body["violated-policies"] = json!([*status.rule]);
    }
    body
}

/// Returns the body of a settlement: the members of a decision's body that describe its rule.
#[doc(hidden)]
#[must_use]
pub fn status_body(status: Option<&LimitStatus>) -> Value {
    let mut body = json!({
        "rule": status.map(|status| &*status.rule),
        "limit": status.map(|status| status.at_once),
        "remaining": status.map(|status| status.remaining),
        "reset_ms": status.map(|status| status.reset_ms),
    });
    if status.is_some_and(|status| status.kind == LimitKind::Slots) {
        body["slots"] = true.into();
    }
    body
}

/// Returns the status that a client sees. It does not see rules in shadow.
fn shown(decision: &Decision) -> Option<&LimitStatus> {
    decision.status.as_ref().filter(|status| !status.shadow)
}

/// Returns the window, or the unit of calls in progress, as parameters of `RateLimit-Policy`.
fn window(status: &LimitStatus) -> String {
    if status.kind == LimitKind::Slots {
        return r#";qu="concurrent-requests""#.to_owned();
    }
    let width_ms = u128::from(status.window_ms) * u128::from(status.at_once);
    match width_ms.checked_div(u128::from(status.limit)) {
        Some(width_ms) => format!(";w={}", width_ms.div_ceil(1_000).clamp(1, FIELD_NUMBER_MAX.into())),
        // A deny list has no window.
        None => String::new(),
    }
}

/// Returns type, title and detail of a denial (RFC 9457).
pub(crate) fn denial(decision: &Decision, status: &LimitStatus) -> (&'static str, &'static str, String) {
    if matches!(status.kind, LimitKind::Denial(_)) {
        let by = if &*status.rule == DENY_LIST { "the deny list" } else { &*status.rule };
        return ("about:blank", "Denied", format!("{by} denies this call regardless of its count"));
    }
    let LimitStatus { rule, limit, at_once, cost, remaining, .. } = status;
    let wait_s = seconds(status.retry_after_ms);
    let (policy, takes, earlier) = if status.kind == LimitKind::Slots {
        let taken = limit.saturating_sub(*remaining);
        (format!("rule {rule} has {limit} slots, {taken} in use"), "takes", ", or when other calls end")
    } else {
        (format!("rule {rule} allows {limit} in {} s", seconds(status.window_ms)), "costs", "")
    };
    let detail = if cost > at_once {
        let most = if at_once == limit { String::new() } else { format!(", {at_once} at once") };
        format!("{policy}{most}, and this call {takes} {cost}: it can never pass; make it smaller")
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

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decision::DecisionId;

    use super::*;

    fn decision(allowed: bool, source: Source) -> Decision {
        let id = DecisionId { life: "a-10".into(), call: 255 };
        let mut status = LimitStatus::new("per-key".into(), LimitKind::Window, 1);
        (status.limit, status.at_once, status.window_ms, status.reset_ms) = (100, 100, 60_000, 60_500);
        status.retry_after_ms = if allowed { 0 } else { 1_001 };
        let mut decision = Decision::new(allowed, source, Timestamp::from_ms(1_000_000), id);
        decision.status = Some(status);
        decision
    }

    /// H1, H2, H5: headers and body of a denial.
    #[test]
    fn a_denial_contains_everything_that_a_client_needs() {
        let headers = headers(&decision(false, Source::Store), "gw-1");
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(text("x-gateway-node").unwrap(), "gw-1");
        assert_eq!(text("x-ratelimit-limit").unwrap(), "100");
        assert_eq!(text("x-ratelimit-reset").unwrap(), "1061");
        assert_eq!(text("ratelimit").unwrap(), "\"per-key\";r=0;t=2");
        assert_eq!(text("ratelimit-policy").unwrap(), "\"per-key\";q=100;w=60");
        assert!(text("retry-after").unwrap().parse::<u64>().unwrap() >= 2);
        assert_eq!(text("x-ratelimit-policy"), None);
        let body = members(&decision(false, Source::Store), "a-10-ff");
        assert_eq!(body["detail"], "rule per-key allows 100 in 60 s; this call passes in 1.001 s");
        assert_eq!((body["status"].as_u64(), body["id"].as_str()), (Some(429), Some("a-10-ff")));
        assert_eq!(body["violated-policies"], json!(["per-key"]));
    }

    /// Limit and window of a quota of 100/min, with the units that pass at once, as a client sees them.
    #[test]
    fn the_limit_of_a_header_is_the_most_that_can_be_left_and_its_window_keeps_the_rate() {
        for (at_once, policy) in [
            (100, "q=100;w=60"),
            (150, "q=150;w=90"),
            (1, "q=1;w=1"),
            (5, "q=5;w=3"),
            (u64::MAX, "q=999999999999999;w=999999999999999"),
        ] {
            let mut decision = decision(true, Source::Store);
            let status = decision.status.as_mut().unwrap();
            (status.at_once, status.remaining) = (at_once, at_once - 1);
            let headers = headers(&decision, "n");
            assert_eq!(headers["ratelimit-policy"], format!("\"per-key\";{policy}"));
            assert_eq!(headers["x-ratelimit-limit"], at_once.to_string());
            assert_eq!(headers["x-ratelimit-remaining"], (at_once - 1).to_string());
            assert_eq!(members(&decision, "a-10-ff")["limit"], at_once);
        }
    }

    #[test]
    fn calls_in_progress_have_no_window() {
        let mut decision = decision(false, Source::Store);
        decision.status.as_mut().unwrap().kind = LimitKind::Slots;
        assert_eq!(headers(&decision, "n")["ratelimit-policy"], "\"per-key\";q=100;qu=\"concurrent-requests\"");
        assert_eq!(
            members(&decision, "a-10-ff")["detail"],
            "rule per-key has 100 slots, 100 in use; this call passes in 1.001 s, or when other calls end"
        );
    }

    /// A window of 0 is no valid value in `RateLimit-Policy`.
    #[test]
    fn a_deny_list_has_no_window() {
        let mut decision = decision(false, Source::Local);
        let status = decision.status.as_mut().unwrap();
        (status.limit, status.at_once, status.window_ms) = (0, 0, 0);
        assert_eq!(headers(&decision, "n")["ratelimit-policy"], "\"per-key\";q=0");
    }

    #[test]
    fn a_client_does_not_see_a_rule_in_shadow() {
        let mut decision = decision(true, Source::Store);
        decision.status.as_mut().unwrap().shadow = true;
        assert_eq!(headers(&decision, "n").len(), 1, "the node only");
        assert!(members(&decision, "a-10-ff")["rule"].is_null() && members(&decision, "a-10-ff")["limit"].is_null());
    }

    /// H2: denials have a Retry-After header, admissions do not.
    #[test]
    fn an_admission_has_no_retry_after() {
        assert!(headers(&decision(true, Source::Store), "n").get("retry-after").is_none());
        assert!(members(&decision(true, Source::Store), "a-10-ff").get("status").is_none());
    }

    /// H4: every answer without the store says so, and may hide a number that is not known.
    #[test]
    fn a_degraded_answer_says_so() {
        let text = |value: Option<&HeaderValue>| value.map(|value| value.to_str().unwrap().to_owned());
        for source in Source::ALL {
            let mut decision = decision(true, source);
            let degraded = matches!(source, Source::Signal | Source::Fallback).then(|| "degraded".to_owned());
            assert_eq!(text(headers(&decision, "n").get("x-ratelimit-policy")), degraded, "{source}");
            decision.status.as_mut().unwrap().hides_remaining = true;
            let headers = headers(&decision, "n");
            assert_eq!(text(headers.get("x-ratelimit-remaining")).as_deref(), Some("-1"));
            assert_eq!(headers.get("ratelimit"), None);
        }
    }

    /// I13: a thousand callers denied at once return at different times, none too early.
    #[test]
    fn callers_denied_together_return_at_different_times() {
        let waits: std::collections::BTreeSet<u64> = (0..1_000).map(|call| retry_after_s(59_001, call)).collect();
        assert_eq!((waits.first(), waits.last(), waits.len()), (Some(&60), Some(&65), 6));
    }
}
