//! Headers of limits whose units at once are not the quota of a window.

use tollgate::Agent;

use crate::support::{Answer, Sidecar};

const RULES: &str = "
rules:
  - { name: window, match: { of: window }, per: [of], quota: 3/min }
  - { name: burst, match: { of: burst }, per: [of], quota: 10/min, burst: 15 }
  - { name: bucket, match: { of: bucket }, per: [of], quota: 60/h, algorithm: token_bucket, burst: 4 }
  - { name: default bucket, match: { of: default }, per: [of], quota: 100/min, algorithm: token_bucket }
  - { name: queue, match: { of: queue }, per: [of], quota: 60/h, algorithm: leaky_bucket, burst: 3 }
  - { name: slots, match: { of: slots }, per: [of], quota: 2/30s, algorithm: concurrency }
  - { name: tight, match: { of: both }, per: [of], quota: 10/min }
  - { name: wide bucket, match: { of: both }, per: [of], quota: 1000/min, algorithm: token_bucket, burst: 20 }
";

fn number(answer: &Answer, name: &str) -> u64 {
    answer.header(name).parse().unwrap()
}

/// A parameter of `RateLimit` or `RateLimit-Policy`.
fn parameter(answer: &Answer, header: &str, name: &str) -> Option<u64> {
    answer.header(header).split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// `Remaining` never exceeds `Limit`: a client sees all units that pass at once, and their window keeps the rate.
#[tokio::test]
async fn remaining_never_exceeds_limit_whatever_the_algorithm() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    for (of, policy, limit) in [
        ("window", r#""window";q=3;w=60"#, 3),
        ("burst", r#""burst";q=15;w=90"#, 15),
        ("bucket", r#""bucket";q=4;w=240"#, 4),
        ("default", r#""default bucket";q=2;w=2"#, 2),
        ("queue", r#""queue";q=3;w=180"#, 3),
        ("slots", r#""slots";q=2;qu="concurrent-requests""#, 2),
    ] {
        let mut allowed = 0;
        loop {
            let answer = client.post(format!(r#"{{"descriptors": {{"of": "{of}"}}}}"#)).await;
            let remaining = number(&answer, "x-ratelimit-remaining");
            assert_eq!((number(&answer, "x-ratelimit-limit"), answer.header("ratelimit-policy")), (limit, policy));
            assert_eq!(parameter(&answer, "ratelimit", "r"), Some(remaining));
            assert_eq!((&answer.json()["limit"], &answer.json()["remaining"]), (&limit.into(), &remaining.into()));
            if answer.status.as_u16() == 429 {
                let wait_s = parameter(&answer, "ratelimit", "t").unwrap();
                assert!(number(&answer, "retry-after") >= wait_s, "the draft wants no retry before the end of `t`");
                break;
            }
            allowed += 1;
            assert!(remaining + allowed <= limit || of == "default", "{of}: {remaining} left after {allowed}");
            assert!(remaining <= limit);
        }
        assert!(allowed >= limit, "{of}");
    }
}

/// Of two rules, the headers show the one with the smaller part left of what passes at once.
#[tokio::test]
async fn a_bucket_is_compared_by_its_burst() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let answer = client.post(r#"{"descriptors": {"of": "both"}}"#).await;
    assert_eq!((answer.json()["rule"].as_str(), answer.header("x-ratelimit-remaining")), (Some("tight"), "9"));
}

/// A denial under `concurrency` is about slots.
#[tokio::test]
async fn a_denial_of_slots_names_calls_in_progress() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let call = |cost: u64| format!(r#"{{"descriptors": {{"of": "slots"}}, "cost": {cost}}}"#);
    let never = client.post(call(3)).await.json();
    let detail = "rule slots has 2 slots, 0 in use, and this call takes 3: it can never pass; make it smaller";
    assert_eq!((&never["detail"], &never["violated-policies"]), (&detail.into(), &serde_json::json!(["slots"])));
    assert_eq!(client.post(call(2)).await.status.as_u16(), 200);
    let full = client.post(call(1)).await.json();
    let detail = full["detail"].as_str().unwrap();
    assert!(detail.starts_with("rule slots has 2 slots, 2 in use; this call passes in "), "{detail}");
}
