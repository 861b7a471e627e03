//! Own answers of rules: status, texts, fields, hidden headers and the nested body.

use http::HeaderName;
use serde_json::json;
use tollgate::Agent;
use tollgate_servers::wait_for;

use crate::support::{Answer, Client, Sidecar};

const RULES: &str = r#"
deny_status: 403
defaults: { answer: { fields: { docs: "https://api.example/limits" } } }
descriptors: { of: { header: x-of }, user: { header: x-user } }
rules:
  - { name: plain, match: { of: plain }, per: [of], quota: 1/min }
  - name: own
    match: { of: own }
    per: [of]
    quota: 1/min
    answer: { status: 420, title: Calm down, message: "Wait, please.", fields: { plan: free, tries: 3, paid: false } }
  - { name: nested, match: { of: nested }, per: [of], quota: 100/min, answer: { status: 503, body: nested } }
  - name: hidden
    match: { of: hidden }
    per: [of]
    quota: 1/min
    answer: { hide: [RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After] }
  - { name: entry, match: { domain: web }, per: [key], quota: 1/min, answer: { status: 420, hide: [RateLimit] } }
  - { name: closed, match: { of: closed }, deny: true, answer: { status: 451, body: nested } }
  - { name: refused, match: { of: refused }, per: [of], quota: 1/min, answer: { status: 400 } }
  - { name: shadowed, match: { of: shadowed }, per: [of], quota: 1/min, shadow: true, answer: { status: 420, hide: [RateLimit] } }
  - { name: slots, match: { of: slots }, per: [of], quota: 1/min, algorithm: concurrency, answer: { body: nested } }
  - { name: wide, match: { of: both }, per: [of], quota: 5/min, answer: { status: 420, fields: { wide: true } } }
  - { name: tight, match: { of: both }, per: [of, user], quota: 1/min, answer: { status: 422, fields: { tight: true } } }
lists: { deny: [{ of: listed }] }
"#;

async fn client() -> Client {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    Sidecar::of(Agent::builder().node("gw-1").rules(rules).start().unwrap()).await.client().await
}

async fn check(client: &mut Client, of: &str, cost: u64) -> Answer {
    client.post(json!({ "descriptors": { "of": of, "user": "u1" }, "cost": cost }).to_string()).await
}

/// Returns the answer to the first call that is denied.
async fn denial(client: &mut Client, of: &str) -> Answer {
    let admitted = check(client, of, 1).await;
    if admitted.status == 200 { check(client, of, 1).await } else { admitted }
}

/// H3: status, title, text and fields of a rule stand in its denials, beside all other members.
#[tokio::test]
async fn a_denial_has_the_words_of_its_rule() {
    let mut client = client().await;
    let admitted = check(&mut client, "own", 1).await;
    assert_eq!((admitted.status.as_u16(), admitted.json().get("plan")), (200, None), "fields are for denials");
    let denied = check(&mut client, "own", 1).await;
    assert_eq!((denied.status.as_u16(), denied.header("content-type")), (420, "application/problem+json"));
    let body = denied.json();
    let members = ["status", "title", "detail", "plan", "tries", "paid", "rule", "allowed"].map(|name| &body[name]);
    assert_eq!(json!(members), json!([420, "Calm down", "Wait, please.", "free", 3, false, "own", false]));
    assert!(body.get("docs").is_none(), "the rule replaces the fields of the defaults");
    assert!(denied.header("retry-after").parse::<u64>().unwrap() * 1_000 >= body["retry_after_ms"].as_u64().unwrap());
    let plain = denial(&mut client, "plain").await;
    assert_eq!((plain.status.as_u16(), &plain.json()["docs"]), (429, &"https://api.example/limits".into()));
    assert_eq!(plain.json()["title"], "Too many requests");
}

/// H3: the nested body is that of the users' document, and its numbers are those of the headers.
#[tokio::test]
async fn a_nested_body_has_an_error_with_details() {
    let mut client = client().await;
    check(&mut client, "nested", 100).await;
    let denied = check(&mut client, "nested", 1).await;
    assert_eq!((denied.status.as_u16(), denied.header("content-type")), (503, "application/json"));
    let reset_at_s = denied.header("x-ratelimit-reset").parse().unwrap();
    let expected = json!({
        "error": {
            "code": "RATE_LIMIT_EXCEEDED",
            "message": "Rate limit of 100 requests per 60 seconds exceeded",
            "details": {
                "limit": 100,
                "window_seconds": 60,
                "retry_after_seconds": denied.header("retry-after").parse::<u64>().unwrap(),
                "reset_at": jiff::Timestamp::from_second(reset_at_s).unwrap().to_string(),
            },
        },
        "docs": "https://api.example/limits",
    });
    assert_eq!(denied.json(), expected);
    // A call that no retry lets pass keeps its status, has no time, and says why.
    let never = check(&mut client, "nested", 101).await;
    assert_eq!((never.status.as_u16(), never.headers.get("retry-after")), (403, None));
    let error = &never.json()["error"];
    assert!(error["details"]["retry_after_seconds"].is_null());
    assert!(error["message"].as_str().unwrap().ends_with("it can never pass; make it smaller"), "{error}");
    let slots = denial(&mut client, "slots").await.json();
    assert!(slots["error"]["message"].as_str().unwrap().starts_with("rule slots has 1 slots, 1 in use"), "{slots}");
    assert!(slots["error"]["details"]["window_seconds"].is_null());
}

/// H3: a rule that denies every call has its own answer, and the deny list and the emergency switch that of the defaults.
#[tokio::test]
async fn denials_regardless_of_a_count_have_own_answers() {
    let mut client = client().await;
    let closed = check(&mut client, "closed", 1).await;
    assert_eq!((closed.status.as_u16(), closed.headers.get("retry-after")), (451, None));
    let details = json!({ "limit": null, "window_seconds": null, "retry_after_seconds": null, "reset_at": null });
    assert_eq!(closed.json()["error"]["details"], details);
    let listed = check(&mut client, "listed", 1).await;
    assert_eq!((listed.status.as_u16(), &listed.json()["docs"]), (403, &"https://api.example/limits".into()));
    let switched = client.ask("POST", "/emergency", &[], r#"{"on": true, "quota": "1/h"}"#).await;
    assert_eq!(switched.status, 200);
    let emergency = denial(&mut client, "own").await;
    let body = emergency.json();
    assert_eq!((emergency.status.as_u16(), &body["rule"], body["docs"].is_string()), (429, &"emergency".into(), true));
}

/// H3: hidden headers are missing from admissions and denials of the rule, and from those of no other rule.
#[tokio::test]
async fn hidden_headers_are_missing_from_all_answers_of_the_rule() {
    let mut client = client().await;
    for status in [200, 429] {
        let answer = check(&mut client, "hidden", 1).await;
        let names: Vec<_> = answer.headers.keys().map(HeaderName::as_str).filter(|name| !is_of_http(name)).collect();
        assert_eq!((answer.status.as_u16(), &names[..]), (status, &["x-gateway-node"][..]));
        assert_eq!(answer.json()["rule"], "hidden");
    }
    let other = check(&mut client, "plain", 1).await;
    assert!(other.headers.contains_key("ratelimit"));
}

fn is_of_http(name: &str) -> bool {
    ["content-type", "content-length", "date", "cache-control"].contains(&name)
}

/// H3: of several rules, the one that denies answers; if none denies, the one with the least room.
#[tokio::test]
async fn of_several_rules_the_one_that_denies_answers() {
    let mut client = client().await;
    assert_eq!(denial(&mut client, "both").await.status.as_u16(), 422);
    for user in ["u2", "u3", "u4", "u5"] {
        let call = json!({ "descriptors": { "of": "both", "user": user } }).to_string();
        assert_eq!(client.post(call).await.status, 200);
    }
    let other_user = client.post(json!({ "descriptors": { "of": "both", "user": "u6" } }).to_string()).await;
    let body = other_user.json();
    assert_eq!((other_user.status.as_u16(), &body["wide"], body.get("tight")), (420, &true.into(), None));
}

/// H3: a rule in shadow never answers.
#[tokio::test]
async fn a_rule_in_shadow_has_no_own_answer() {
    let mut client = client().await;
    for _ in 0..3 {
        let answer = check(&mut client, "shadowed", 1).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["rule"]), (200, &json!(null)));
    }
}

/// H3: `?deny=403` stands above the status of a rule, because nginx knows no other. The body tells the same status; texts and headers stay.
#[tokio::test]
async fn the_status_for_nginx_stands_above_that_of_a_rule() {
    let mut client = client().await;
    for (of, told) in [("own", 420), ("refused", 400)] {
        let headers = [("x-of", of)];
        assert_eq!(client.get("/check?deny=403", &headers).await.status, 200);
        let denied = client.get("/check?deny=403", &headers).await;
        let body = denied.json();
        assert_eq!((denied.status.as_u16(), &body["status"], &body["rule"]), (403, &403.into(), &of.into()));
        assert!(denied.header("retry-after").parse::<u64>().is_ok());
        assert_eq!(client.get("/check", &headers).await.status.as_u16(), told);
        let prefixed = client.get("/check/path", &headers).await;
        assert_eq!((prefixed.status.as_u16(), &prefixed.json()["rule"]), (told, &of.into()));
    }
}

/// H3: a batch has the bodies of single answers, and `/json` the statuses of its protocol.
#[tokio::test]
async fn surfaces_of_several_calls_keep_their_statuses() {
    let mut client = client().await;
    let call = json!({ "descriptors": { "of": "closed" } });
    let batch = client.ask("POST", "/batch", &[], json!({ "calls": [call] }).to_string()).await;
    assert_eq!(
        (batch.status.as_u16(), &batch.json()["answers"][0]["error"]["code"]),
        (200, &"RATE_LIMIT_EXCEEDED".into())
    );
    let entries = json!([{ "key": "key", "value": "k1" }]);
    let request = json!({ "domain": "web", "descriptors": [{ "entries": entries }] }).to_string();
    for status in [200, 429] {
        let answer = client.ask("POST", "/json", &[], request.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.headers.get("ratelimit")), (status, None));
        assert_eq!(answer.header("x-ratelimit-limit"), "1");
    }
}

/// H3: a reload changes the answers, also those of cached denials.
#[tokio::test]
async fn a_reload_changes_the_answers() {
    let file = std::env::temp_dir().join(format!("tollgate-own-answers-{}.yaml", std::process::id()));
    let rule = |answer| format!("rules: [{{ name: a, per: [of], quota: 1/h, answer: {answer} }}]");
    std::fs::write(&file, rule("{ status: 420 }")).unwrap();
    let agent = Agent::builder().rules_file(&file).start().unwrap();
    let mut client = Sidecar::of(agent.clone()).await.client().await;
    assert_eq!(denial(&mut client, "any").await.status.as_u16(), 420);
    let generation = || agent.engine().with_rules(|rules| rules.generation);
    let before = generation();
    std::fs::write(&file, rule("{ body: nested, fields: { new: 1 } }")).unwrap();
    wait_for("the reload", || (generation() != before).then_some(()));
    std::fs::remove_file(&file).unwrap();
    let denied = check(&mut client, "any", 1).await;
    assert_eq!((denied.status.as_u16(), &denied.json()["new"]), (429, &1.into()));
    assert_eq!(denied.json()["error"]["code"], "RATE_LIMIT_EXCEEDED");
}
