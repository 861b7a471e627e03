//! Explanations of requests: descriptors, rules that apply, and reasons why others do not.

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::Agent;

use crate::support::{Client, Sidecar};

const RULES: &str = "
descriptors: { ip: { client_ip: { trusted_hops: 1 } } }
rules:
  - { name: users, match: { endpoint: '/users/{id}' }, per: [ip], quota: 2/min }
  - { name: raw, match: { endpoint: /users/123 }, per: [ip], quota: 1/min }
  - { name: posts, match: { method: POST }, per: [ip], quota: 1/min }
  - { name: key, per: [api_key], quota: 5/min }
  - { name: tenant, per: [tenant], quota: 1/min }
";

async fn client() -> Client {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 7).unwrap();
    Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await
}

fn applying(explained: &Value) -> Vec<&str> {
    let rules = explained["rules"].as_array().unwrap().iter().filter(|rule| rule["applies"] == true);
    rules.filter_map(|rule| rule["rule"].as_str()).collect()
}

/// A request is explained by its real headers as it is decided, in each form, and nothing is charged.
#[tokio::test]
async fn a_request_is_explained_as_it_is_decided() {
    let mut client = client().await;
    let own = [("x-forwarded-for", "9.9.9.9, ::ffff:203.0.113.7"), ("x-api-key", "sk_live_12345")];
    let forward = [&own[..], &[("x-forwarded-method", "get"), ("x-forwarded-uri", "/users/123?page=2")]].concat();
    for _ in 0..3 {
        for (path, headers) in [("/explain/users/123?page=2", &own[..]), ("/explain", &forward)] {
            let answer = client.get(path, headers).await;
            assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
            let explained = answer.json();
            let known = |name: &str, value: &str, verified: bool| json!({ "name": name, "value": value, "verified": verified, "derived": false });
            let descriptors = explained["descriptors"].as_array().unwrap();
            assert_eq!(descriptors[0], known("ip", "203.0.113.7", true), "{path}");
            assert_eq!(descriptors[1]["name"], "api_key");
            assert!(!explained.to_string().contains("sk_live_12345"), "a secret is cut");
            assert_eq!(descriptors[2..], [known("method", "GET", true), known("endpoint", "/users/{id}", true)]);
            assert_eq!(applying(&explained), ["users", "key"]);
            let why = |rule: usize| explained["rules"][rule]["why"].as_str().unwrap();
            assert_eq!(why(1), "endpoint is /users/{id}, and must be /users/123");
            assert_eq!(why(2), "method is GET, and must be POST");
            assert_eq!(why(4), "there is no tenant to count by");
        }
    }
    let decided = client.get("/check/users/124", &own).await;
    assert_eq!((&decided.json()["rule"], decided.header("x-ratelimit-remaining")), (&"users".into(), "1"));
    assert_eq!(client.get("/check", &forward).await.header("x-ratelimit-remaining"), "0");
    assert_eq!(client.get("/check", &forward).await.status.as_u16(), 429);
    let held = client.get("/explain/users/125", &own).await.json();
    assert_eq!((&held["rules"][0]["by"], &held["rules"][3]["by"]), (&"cached_denial".into(), &Value::Null));
}

/// Each method of a client may stand before `/explain/PATH`, as before `/check/PATH`; a body is not looked at.
#[tokio::test]
async fn a_request_of_any_method_is_explained() {
    let mut client = client().await;
    for (method, path, rules) in [
        ("POST", "/explain/users/9", &["users", "posts"][..]),
        ("DELETE", "/explain//users/9/", &["users"]),
        ("POST", "/explain/", &["posts"]),
        ("GET", "/explain/explain", &[]),
        ("GET", "/explain", &[]),
    ] {
        let explained = client.ask(method, path, &[], "body").await.json();
        assert_eq!(applying(&explained), rules, "{method} {path}");
    }
    let refused = client.ask("DELETE", "/explain", &[], "").await.problem(405);
    assert_eq!(refused, "/explain does not support DELETE; use GET, HEAD or POST");
}

/// A call that names its descriptors has the values of the same request, and is explained, decided, settled and released by them.
#[tokio::test]
async fn named_descriptors_have_the_values_of_a_request() {
    let mut client = client().await;
    let descriptors = r#""descriptors": {"ip": "::ffff:203.0.113.7", "method": "get", "endpoint": "users/123?page=2"}"#;
    let body = format!("{{{descriptors}}}");
    let named = client.ask("POST", "/explain", &[], body.clone()).await.json();
    assert_eq!(named, client.get("/explain/users/123", &[("x-forwarded-for", "203.0.113.7")]).await.json());
    assert_eq!(applying(&named), ["users"]);
    let decided = client.post(body).await;
    assert_eq!((&decided.json()["rule"], decided.header("x-ratelimit-remaining")), (&"users".into(), "1"));
    let id = decided.json()["id"].as_str().unwrap().to_owned();
    let settled = format!(r#"{{{descriptors}, "units": -1, "id": "{id}"}}"#);
    assert_eq!(client.ask("POST", "/settle", &[], settled).await.json()["remaining"], 2);
    let charged = format!(r#"{{{descriptors}, "units": 1}}"#);
    assert_eq!(client.ask("POST", "/settle", &[], charged).await.json()["remaining"], 1);
}

/// The token of a permit names the descriptors of a program, which need not have the values of a request.
#[tokio::test]
async fn a_call_of_a_program_is_released_by_its_own_values() {
    let rules = "rules: [{ name: slots, per: [endpoint], quota: 1/h, algorithm: concurrency }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 7).unwrap();
    let agent = Agent::builder().rules(rules).start().unwrap();
    let call = tollgate::Call::new().with("endpoint", "/jobs/17");
    let mut client = Sidecar::of(agent.clone()).await.client().await;
    let permit = agent.check(&call).await.expect("a free slot").permit.expect("a slot");
    assert!(agent.check(&call).await.is_err());
    let token = permit.into_token().to_string();
    assert_eq!(client.ask("POST", "/release", &[], token).await.status, StatusCode::OK);
    assert!(agent.check(&call).await.is_ok());
}
