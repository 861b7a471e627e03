//! Selection of the counter by bearer tokens, query parameters and cookies.

use std::path::PathBuf;

use http::StatusCode;
use tollgate::Agent;

use crate::support::{Client, Sidecar};

/// Shared secret that signed the tokens below.
const JWKS: &str = r#"{"keys": [{"kty": "oct", "kid": "k1", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
/// `{"sub":"u1","tier":"free"}`
const U1: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJ1MSIsInRpZXIiOiJmcmVlIn0.-lDmr6BjRE39mpBwPOt_K3XL2OkJc9ttZDsxKzuoZxg";
/// `{"sub":"u2"}`
const U2: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJ1MiJ9.J8kU_zgjcR77mc_e6c4q1X2HXtKJlcJQtW9-sN3Tw7c";
const RULES: &str = "
descriptors:
  user: { jwt: sub, default: anon }
  key: { query: key }
  session: { cookie: sid }
rules:
  - { name: by-key, match: { endpoint: /keys }, per: [key], quota: 2/min, consistency: strict }
  - { name: by-session, match: { endpoint: /sessions }, per: [session], quota: 2/min, consistency: strict }
  - { name: by-user, match: { endpoint: /users }, per: [user], quota: 2/min, consistency: strict }
";

async fn client(name: &str) -> Client {
    let keys = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&keys, JWKS).unwrap();
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    Sidecar::of(Agent::builder().rules(rules).jwks_file(keys).start().unwrap()).await.client().await
}

/// P2: the token's subject selects the counter; callers without a valid token share one.
#[tokio::test]
async fn a_bearer_token_selects_the_counter() {
    let mut client = client("select.jwks").await;
    let users = ("x-original-uri", "/users");
    let mut remaining = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let answer = client.get("/check", &[users, ("authorization", &bearer)]).await;
        answer.header("x-ratelimit-remaining").parse::<u32>().unwrap()
    };
    assert_eq!([remaining(U1).await, remaining(U2).await, remaining(U1).await], [1, 1, 0]);
    let (forged, _) = U1.rsplit_once('.').unwrap();
    assert_eq!(
        remaining(&format!("{forged}.{}", U2.rsplit_once('.').unwrap().1)).await,
        1,
        "callers without a valid token"
    );
    assert_eq!(remaining("").await, 0, "the same shared counter");
    let metrics = client.get("/metrics", &[]).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains(r#"tollgate_jwt_rejected_total{reason="signature"} 1"#), "{text}");
    assert_eq!(client.get("/healthz", &[]).await.json()["keys_error"], serde_json::Value::Null);
}

/// P2: query parameters come from the request that a gateway forwards, or from the request itself.
#[tokio::test]
async fn a_parameter_of_the_query_selects_the_counter() {
    let mut client = client("query.jwks").await;
    for (header, uri, remaining) in [
        ("x-original-uri", "/keys?key=k1", "1"),
        ("x-forwarded-uri", "http://shop.example/keys?a=1&key=k%31", "0"),
        ("x-forwarded-uri", "/keys?key=k2", "1"),
    ] {
        let answer = client.get("/check", &[(header, uri)]).await;
        assert_eq!(answer.header("x-ratelimit-remaining"), remaining, "{uri}");
    }
    for made_up in ["x1", "x2"] {
        let uri = format!("/keys?key={made_up}&key=k1");
        assert_eq!(client.get("/check", &[("x-original-uri", &uri)]).await.status, StatusCode::OK);
    }
    let third = client.get("/check", &[("x-original-uri", "/keys?key=k1&key=x3")]).await;
    assert_eq!(third.status.as_u16(), 429, "made-up values share one counter");
}

#[tokio::test]
async fn a_cookie_selects_the_counter() {
    let mut client = client("cookie.jwks").await;
    let sessions = ("x-original-uri", "/sessions");
    for (cookie, remaining) in [("a=b; sid=s1", "1"), ("sid=s2", "1"), ("sid=\"s1\"; sid=x", "0")] {
        let answer = client.get("/check", &[sessions, ("cookie", cookie)]).await;
        assert_eq!(answer.header("x-ratelimit-remaining"), remaining, "{cookie}");
    }
}
