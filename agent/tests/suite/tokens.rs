//! Decisions about requests with tokens, by a complete agent.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderMap;
use tollgate::request::Request;
use tollgate::{Agent, Decision};
use tollgate_core::clock::Stopwatch;

/// The shared secret `0123456789abcdef` twice, which signed the tokens below, and `fedcba9876543210` twice.
const OURS: &str = r#"{"keys": [{"kty": "oct", "kid": "k1", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
const OTHER: &str = r#"{"keys": [{"kty": "oct", "k": "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA"}]}"#;
/// `{"sub":"u1","tier":"pro"}`
const PRO: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJ1MSIsInRpZXIiOiJwcm8ifQ.Bp9yOHzI2ivnWNXqpZa0msNRxoqxc5Gu7LhrmFifDsE";
/// `{"sub":"u3","limit":"7/min"}`
const SEVEN: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJ1MyIsImxpbWl0IjoiNy9taW4ifQ.UemZvb8SKsI07fTSKYEg8cgUt3SG1Sd3M_YBktbvDsE";
const TIMEOUT: Duration = Duration::from_secs(30);

fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn agent(name: &str, rules: &str) -> Agent {
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
    Agent::builder().rules(rules).jwks_file(file(name, OURS)).start().unwrap()
}

async fn ask(agent: &Agent, peer: [u8; 4], path: &str, lines: &[(&'static str, &str)]) -> Decision {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    let request = Request { method: "GET", path, peer: Some(peer.into()), headers: &headers };
    agent.decide(&agent.describe(&request)).await
}

fn rule_and_remaining(decision: &Decision) -> (&str, u64) {
    let status = decision.status.as_ref().expect("a rule applies");
    (&status.rule, status.remaining)
}

/// K7: before authentication the address counts, after it the user; without a token everybody is "anon".
#[tokio::test]
async fn public_paths_are_limited_by_address_and_others_by_user() {
    let agent = agent(
        "k7.jwks",
        "
descriptors:
  user: { jwt: sub, default: anon }
rules:
  - { name: login, match: { endpoint: /login }, per: [ip], quota: 5/15min, consistency: strict }
  - { name: api, match: { endpoint: /v1* }, per: [user], quota: 10/min, consistency: strict }
",
    );
    let bearer = format!("Bearer {PRO}");
    let (here, there) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    assert_eq!(rule_and_remaining(&ask(&agent, here, "/login", &[]).await), ("login", 4));
    assert_eq!(rule_and_remaining(&ask(&agent, here, "/login", &[("authorization", &bearer)]).await), ("login", 3));
    assert_eq!(rule_and_remaining(&ask(&agent, there, "/login", &[]).await), ("login", 4));
    assert_eq!(rule_and_remaining(&ask(&agent, here, "/v1/x", &[("authorization", &bearer)]).await), ("api", 9));
    assert_eq!(rule_and_remaining(&ask(&agent, there, "/v1/y", &[("authorization", &bearer)]).await), ("api", 8));
    assert_eq!(rule_and_remaining(&ask(&agent, here, "/v1/x", &[]).await), ("api", 9), "anon");
    let no_token = [("authorization", "Bearer x.y.z")];
    assert_eq!(rule_and_remaining(&ask(&agent, there, "/v1/x", &no_token).await), ("api", 8), "the same anon");
}

/// F16: a limit in a claim applies only if the claim was verified, and so does a tier.
#[tokio::test]
async fn a_limit_in_a_verified_claim_applies() {
    let agent = agent(
        "f16.jwks",
        "
descriptors:
  user: { jwt: sub, default: anon }
  limit: { jwt: limit }
  tier: { jwt: tier, default: free }
  unverified: { header: x-limit }
tiers: { free: { quota: 3/min }, pro: { quota: 30/min } }
rules:
  - { name: by-claim, match: { endpoint: /claim }, per: [user], quota: { from: limit, default: 2/min } }
  - { name: by-header, match: { endpoint: /header }, per: [user], quota: { from: unverified, default: 2/min } }
  - { name: by-tier, match: { endpoint: /tier }, per: [user], quota: tier }
",
    );
    let limit = async |path: &str, lines: &[(&'static str, &str)]| {
        ask(&agent, [10, 0, 0, 1], path, lines).await.status.expect("a rule applies").limit
    };
    let (seven, pro) = (format!("Bearer {SEVEN}"), format!("Bearer {PRO}"));
    let tampered = seven.replace("iNy9t", "iOS9t");
    assert_ne!(tampered, seven);
    assert_eq!(limit("/claim", &[("authorization", &seven)]).await, 7);
    assert_eq!(limit("/claim", &[("authorization", &tampered)]).await, 2, "the claim of 9/min has no valid signature");
    assert_eq!(limit("/claim", &[]).await, 2);
    assert_eq!(limit("/header", &[("x-limit", "1000/s")]).await, 2, "an unverified header is not a limit");
    assert_eq!(limit("/tier", &[("authorization", &pro)]).await, 30);
    assert_eq!(limit("/tier", &[("authorization", &seven)]).await, 3, "the default");
}

/// `last-good`: keys are rotated while the agent runs; an invalid file changes only the reported error.
#[tokio::test]
async fn a_changed_keys_file_is_reloaded_and_a_broken_one_is_ignored() {
    let agent = agent(
        "rotated.jwks",
        "{ descriptors: { user: { jwt: sub } }, rules: [{ name: u, per: [user], quota: 1k/min }] }",
    );
    let bearer = format!("Bearer {PRO}");
    let holds = async || ask(&agent, [10, 0, 0, 1], "/", &[("authorization", &bearer)]).await.status.is_some();
    let until = async |what: &str, refused: bool| {
        let waited = Stopwatch::start();
        while agent.keys_refusal().is_some() != refused {
            assert!(waited.elapsed() < TIMEOUT, "timed out waiting for {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(holds().await);
    let path = file("rotated.jwks", "{\n  \"keys\": [{\"kty\": \"oct\"]\n}");
    until("the error of the broken file", true).await;
    let error = agent.keys_refusal().unwrap();
    assert!(
        error.starts_with(&*path.display().to_string()) && error.contains("line 2") && error.contains("; write {"),
        "{error}"
    );
    assert!(holds().await, "the old keys stay in use");
    file("rotated.jwks", OTHER);
    until("the new keys", false).await;
    assert!(!holds().await, "the old keys are removed");
}
