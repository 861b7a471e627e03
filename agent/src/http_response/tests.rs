//! Headers, status and bodies of decisions.

use std::num::NonZeroU64;

use tollgate_core::clock::Timestamp;
use tollgate_core::decision_id::DecisionId;
use tollgate_core::own_answer::{BODY_MEMBERS, ErrorStatus};

use super::*;

fn decision(allowed: bool, source: Source) -> Decision {
    let id = DecisionId { life: "a-10".into(), call: 255, partition: None };
    let mut status = LimitStatus::new("per-key".into(), LimitKind::Window, 1);
    (status.limit, status.at_once, status.window_ms, status.reset_ms) = (100, 100, 60_000, 60_500);
    status.retry_after_ms = if allowed { 0 } else { 1_001 };
    let mut decision = Decision::new(allowed, source, Timestamp::from_ms(1_000_000), id);
    decision.status = Some(status);
    decision
}

fn read_body(decision: &Decision, id: &str) -> Value {
    serde_json::from_str(&body(decision, id)).unwrap()
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
    let body = read_body(&decision(false, Source::Store), "a-10-ff");
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
        assert_eq!(read_body(&decision, "a-10-ff")["limit"], at_once);
    }
}

#[test]
fn calls_in_progress_have_no_window() {
    let mut decision = decision(false, Source::Store);
    decision.status.as_mut().unwrap().kind = LimitKind::Slots;
    assert_eq!(headers(&decision, "n")["ratelimit-policy"], "\"per-key\";q=100;qu=\"concurrent-requests\"");
    assert_eq!(
        read_body(&decision, "a-10-ff")["detail"],
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
    assert!(read_body(&decision, "a-10-ff")["rule"].is_null() && read_body(&decision, "a-10-ff")["limit"].is_null());
}

/// H2: denials have a Retry-After header, admissions do not.
#[test]
fn an_admission_has_no_retry_after() {
    assert!(headers(&decision(true, Source::Store), "n").get("retry-after").is_none());
    assert!(read_body(&decision(true, Source::Store), "a-10-ff").get("status").is_none());
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

/// H2 is set aside for a call that can never pass: 403 and no time, whoever decided.
#[test]
fn a_cost_above_the_quota_is_refused_without_a_time() {
    for source in Source::ALL {
        let mut decision = decision(false, source);
        let status = decision.status.as_mut().unwrap();
        (status.cost, status.cost_max) = (101, NonZeroU64::new(100));
        let headers = headers(&decision, "n");
        assert_eq!((status_code(&decision).as_u16(), headers.get("retry-after")), (403, None), "{source}");
        assert_eq!(headers["ratelimit"], "\"per-key\";r=0;t=61");
        let body = read_body(&decision, "a-10-ff");
        assert_eq!((&body["type"], &body["status"]), (&"cost-exceeds-quota".into(), &403.into()));
        assert!(body["retry_after_ms"].is_null());
        let detail = "rule per-key allows 100 in 60 s, and this call costs 101: it can never pass; make it smaller";
        assert_eq!(body["detail"], detail);
        decision.status.as_mut().unwrap().cost_max = NonZeroU64::new(150);
        let detail =
            "rule per-key allows 100 in 60 s, 150 at once, and this call costs 101: it can never pass; make it smaller";
        assert_eq!(read_body(&decision, "a-10-ff")["detail"], detail);
    }
}

/// The budget of a region and the emergency switch leave less than the quota for a time.
#[test]
fn a_cost_above_a_lowered_limit_may_pass_later() {
    let mut decision = decision(false, Source::Store);
    decision.status.as_mut().unwrap().cost = 101;
    assert_eq!(status_code(&decision), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(headers(&decision, "n")["retry-after"].len(), 1);
    let detail = "rule per-key allows 100 in 60 s, and this call costs 101: it passes only under a higher limit; make it smaller";
    assert_eq!(read_body(&decision, "a-10-ff")["detail"], detail);
}

/// I13: a thousand callers denied at once return at different times, none too early.
#[test]
fn callers_denied_together_return_at_different_times() {
    let waits: std::collections::BTreeSet<u64> = (0..1_000).map(|call| retry_after_s(59_001, call)).collect();
    assert_eq!((waits.first(), waits.last(), waits.len()), (Some(&60), Some(&65), 6));
}

/// H3: a body has no member that a field of an own answer could have, and no header is set that a rule cannot hide.
#[test]
fn every_member_of_a_body_is_reserved() {
    for source in Source::ALL {
        for allowed in [true, false] {
            let mut decision = decision(allowed, source);
            (decision.is_over_quota, decision.delay_ms, decision.by) = (true, 1, Some(LocalAnswer::Part));
            decision.status.as_mut().unwrap().kind = LimitKind::Slots;
            let problem = read_body(&decision, "a-10-ff");
            let nested = nested(&decision, decision.status.as_ref().unwrap());
            let names = problem.as_object().unwrap().keys().chain(nested.as_object().unwrap().keys());
            let free: Vec<_> = names.filter(|name| !BODY_MEMBERS.contains(&name.as_str())).collect();
            assert!(free.is_empty(), "add to BODY_MEMBERS: {free:?}");
        }
    }
}

/// H3: an own status replaces 429 and that of calls that are always denied, but not that of a cost above the quota; the time of a
/// retry depends on none of them.
#[test]
fn an_own_status_keeps_the_time_of_a_retry() {
    let mut own_answer = OwnAnswer::default();
    own_answer.status = ErrorStatus::new(403);
    let status_of = |change: &dyn Fn(&mut LimitStatus)| {
        let mut decision = decision(false, Source::Store);
        let status = decision.status.as_mut().unwrap();
        status.own_answer = Some(own_answer.clone().into());
        change(status);
        (status_code(&decision).as_u16(), headers(&decision, "n").contains_key("retry-after"))
    };
    assert_eq!(status_of(&|_| ()), (403, true));
    assert_eq!(status_of(&|status| status.kind = LimitKind::Denial(DenyStatus::Forbidden)), (403, false));
    assert_eq!(status_of(&|status| status.kind = LimitKind::Denial(DenyStatus::TooManyRequests)), (403, true));
    assert_eq!(status_of(&|status| status.cost_max = NonZeroU64::new(1)), (403, false));
}

/// H3: windows and units of a nested body.
#[test]
fn a_nested_body_counts_in_seconds() {
    for (window_ms, cost, window, message) in [
        (60_000, 1, json!(60), "Rate limit of 100 requests per 60 seconds exceeded"),
        (500, 7, json!(0.5), "Rate limit of 100 units per 0.5 seconds exceeded"),
    ] {
        let mut decision = decision(false, Source::Store);
        let status = decision.status.as_mut().unwrap();
        (status.window_ms, status.cost) = (window_ms, cost);
        let error = nested(&decision, decision.status.as_ref().unwrap())["error"].take();
        assert_eq!((&error["message"], &error["details"]["window_seconds"]), (&message.into(), &window));
        assert_eq!(error["details"]["reset_at"], "1970-01-01T00:17:41Z");
    }
}
