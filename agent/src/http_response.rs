//! HTTP form of a decision: headers and bodies.
//!
//! `RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers-10. The body of a denial is
//! `application/problem+json` (RFC 9457) with the members of an admission in addition to its own.

use http::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tollgate_core::decision::{DENY_LIST, Decision, LimitStatus, Source};

/// Content type of a denial.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// Minimum jitter of `Retry-After` in s; longer waits have a jitter of a tenth of the wait.
const JITTER_S_MIN: u64 = 2;

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
    let Some(status) = &decision.status else {
        return headers;
    };
    let reset_at_s = decision.at.plus_ms(status.reset_ms).as_ms().div_ceil(1_000);
    set("x-ratelimit-limit", status.limit.to_string());
    set("x-ratelimit-remaining", status.remaining.to_string());
    set("x-ratelimit-reset", reset_at_s.to_string());
    set("ratelimit-policy", format!("\"{}\";q={};w={}", status.rule, status.limit, status.window_ms.div_ceil(1_000)));
    set("ratelimit", format!("\"{}\";r={};t={}", status.rule, status.remaining, status.reset_ms.div_ceil(1_000)));
    if decision.source == Source::Fallback {
        set("x-ratelimit-policy", "degraded".to_owned());
    }
    if decision.delay_ms > 0 {
        set("x-ratelimit-delay-ms", decision.delay_ms.to_string());
    }
    if !decision.allowed {
        set("retry-after", retry_after_s(status.retry_after_ms, decision.id.call).to_string());
    }
    headers
}

/// Returns the body of a decision: a JSON object.
#[must_use]
pub fn body(decision: &Decision) -> String {
    members(decision).to_string()
}

fn members(decision: &Decision) -> Value {
    let mut body = status_body(decision.status.as_ref());
    body["allowed"] = decision.allowed.into();
    body["retry_after_ms"] = decision.status.as_ref().map(|status| status.retry_after_ms).into();
    body["source"] = decision.source.as_str().into();
    body["id"] = decision.id.to_string().into();
    // Store time of the decision; `/release` identifies a slot by it.
    body["at_ms"] = decision.at.as_ms().into();
    if decision.delay_ms > 0 {
        body["delay_ms"] = decision.delay_ms.into();
    }
    if let (false, Some(status)) = (decision.allowed, &decision.status) {
        let (kind, title, detail) = denial(decision, status);
        body["type"] = kind.into();
        body["title"] = title.into();
        body["status"] = 429.into();
        body["detail"] = detail.into();
    }
    body
}

/// Returns the body of a settlement: the members of a decision's body that describe its rule.
#[doc(hidden)]
#[must_use]
pub fn status_body(status: Option<&LimitStatus>) -> Value {
    json!({
        "rule": status.map(|status| &*status.rule),
        "limit": status.map(|status| status.limit),
        "remaining": status.map(|status| status.remaining),
        "reset_ms": status.map(|status| status.reset_ms),
    })
}

/// Returns type, title and detail of a denial (RFC 9457).
pub(crate) fn denial(decision: &Decision, status: &LimitStatus) -> (&'static str, &'static str, String) {
    if status.limit == 0 {
        let by = if &*status.rule == DENY_LIST { "the deny list" } else { &*status.rule };
        return ("about:blank", "Denied", format!("{by} denies this call regardless of its count"));
    }
    let policy = format!("rule {} allows {} in {} s", status.rule, status.limit, seconds(status.window_ms));
    let detail = if status.cost > status.at_once {
        let most = if status.at_once == status.limit { String::new() } else { format!(", {} at once", status.at_once) };
        format!("{policy}{most}, and this call costs {}: it can never pass; make it smaller", status.cost)
    } else {
        format!("{policy}; this call passes in {} s", seconds(status.retry_after_ms))
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
        let id = DecisionId { agent: "a".into(), epoch: 16, call: 255 };
        let mut status = LimitStatus::new("per-key".into(), 1);
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
        assert_eq!(text("ratelimit").unwrap(), "\"per-key\";r=0;t=61");
        assert_eq!(text("ratelimit-policy").unwrap(), "\"per-key\";q=100;w=60");
        assert!(text("retry-after").unwrap().parse::<u64>().unwrap() >= 2);
        assert_eq!(text("x-ratelimit-policy"), None);
        let body = members(&decision(false, Source::Store));
        assert_eq!(body["detail"], "rule per-key allows 100 in 60 s; this call passes in 1.001 s");
        assert_eq!((body["status"].as_u64(), body["id"].as_str()), (Some(429), Some("a-10-ff")));
    }

    /// H2: denials have a Retry-After header, admissions do not.
    #[test]
    fn an_admission_has_no_retry_after() {
        assert!(headers(&decision(true, Source::Store), "n").get("retry-after").is_none());
        assert!(members(&decision(true, Source::Store)).get("status").is_none());
        assert_eq!(headers(&decision(true, Source::Fallback), "n")["x-ratelimit-policy"], "degraded");
    }

    /// I13: a thousand callers denied at once return at different times, none too early.
    #[test]
    fn callers_denied_together_return_at_different_times() {
        let waits: std::collections::BTreeSet<u64> = (0..1_000).map(|call| retry_after_s(59_001, call)).collect();
        assert_eq!((waits.first(), waits.last(), waits.len()), (Some(&60), Some(&65), 6));
    }
}
