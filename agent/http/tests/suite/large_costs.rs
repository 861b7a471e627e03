//! Calls that cost more than a rule ever admits.

use http::StatusCode;
use tollgate::Agent;

use crate::support::Sidecar;

const RULES: &str = "
rules:
  - { name: window, match: { of: window }, per: [of], quota: 100/min }
  - { name: burst, match: { of: burst }, per: [of], quota: 10/min, burst: 15 }
  - { name: bucket, match: { of: bucket }, per: [of], quota: 60/h, algorithm: token_bucket, burst: 4 }
  - { name: queue, match: { of: queue }, per: [of], quota: 60/h, algorithm: leaky_bucket, burst: 3 }
  - { name: log, match: { of: log }, per: [of], quota: 5/min, algorithm: sliding_log }
  - { name: fixed, match: { of: fixed }, per: [of], quota: 5/min, algorithm: fixed_window }
  - { name: slots, match: { of: slots }, per: [of], quota: 2/30s, algorithm: concurrency }
  - { name: shadow, match: { of: shadow }, per: [of], quota: 5/min, shadow: true }
  - { name: hour, match: { of: [both, full] }, per: [], quota: 10/h }
  - { name: small, match: { of: both }, per: [of], quota: 5/min }
";

fn call(of: &str, cost: u64) -> String {
    format!(r#"{{"descriptors": {{"of": "{of}"}}, "cost": {cost}}}"#)
}

/// H2 is set aside for a call that can never pass: 403 without a time. It charges nothing.
#[tokio::test]
async fn a_cost_above_the_quota_is_forbidden_and_names_the_largest_cost() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    for (of, most) in
        [("window", 100), ("burst", 15), ("bucket", 4), ("queue", 3), ("log", 5), ("fixed", 5), ("slots", 2)]
    {
        // A first call, an equal one, and one to a counter that is in use.
        for _ in 0..3 {
            let denied = client.post(call(of, most + 1)).await;
            assert_eq!((denied.status.as_u16(), denied.headers.get("retry-after")), (403, None), "{of}");
            let body = denied.json();
            assert_eq!((&body["type"], &body["status"]), (&"cost-exceeds-quota".into(), &403.into()), "{of}");
            assert_eq!((&body["rule"], &body["retry_after_ms"]), (&of.into(), &serde_json::Value::Null));
            let detail = body["detail"].as_str().unwrap();
            let takes = format!("{most} at once");
            let names_most = detail.contains(&format!(" {most} ")) || detail.contains(&takes);
            assert!(detail.starts_with(&format!("rule {of} ")) && names_most, "{detail}");
            assert!(detail.ends_with(&format!(" {}: it can never pass; make it smaller", most + 1)), "{detail}");
        }
        assert_eq!(client.post(call(of, most)).await.status, StatusCode::OK, "{of}: nothing was charged");
        let full = client.post(call(of, most)).await;
        assert_eq!((full.status.as_u16(), full.headers.contains_key("retry-after")), (429, true), "{of}");
        assert_eq!(
            client.post(call(of, most + 1)).await.status.as_u16(),
            403,
            "{of}: beside a denial of a smaller call"
        );
    }
}

/// A rule in shadow denies nothing. Of two rules that deny, the one under which no retry passes is told.
#[tokio::test]
async fn the_rule_that_never_admits_a_call_is_told() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    assert_eq!(client.post(call("shadow", 6)).await.status, StatusCode::OK);
    assert_eq!(client.post(call("full", 10)).await.status, StatusCode::OK);
    for (of, cost, status, rule) in [("full", 6, 429, "hour"), ("both", 6, 403, "small"), ("both", 5, 429, "hour")] {
        let denied = client.post(call(of, cost)).await;
        assert_eq!((denied.status.as_u16(), &denied.json()["rule"]), (status, &rule.into()), "{of} {cost}");
    }
}
