//! Requests in the format of envoyproxy/ratelimit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use tollgate::{Agent, RulesSource};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_rules::import::EnvoySettings;

use crate::support::{Answer, Client, Sidecar};

const CONFIG: &str = "domain: web
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: path, value: /export, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: user, value: root, rate_limit: { unlimited: true } }
  - { key: plan, value: trial, rate_limit: { name: trial, unit: day, requests_per_unit: 1 } }
  - { key: trying, rate_limit: { unit: day, requests_per_unit: 2 }, shadow_mode: true }
  - { key: partner, rate_limit: { unit: day, requests_per_unit: 1000, replaces: [{ name: trial }] } }
";

async fn client(folder: &str) -> Client {
    client_with(folder, EnvoySettings::default()).await
}

async fn client_with(folder: &str, settings: EnvoySettings) -> Client {
    let folder = std::env::temp_dir().join(format!("tollgate-json-{folder}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("web.yaml"), CONFIG).unwrap();
    let agent = Agent::builder().rules_from(RulesSource::Envoy(folder.clone(), settings)).start();
    std::fs::remove_dir_all(folder).unwrap();
    Sidecar::of(agent.unwrap()).await.client().await
}

async fn ask(client: &mut Client, descriptors: &[&[(&str, &str)]]) -> Answer {
    let entries = |entries: &&[(&str, &str)]| {
        let entries: Vec<String> =
            entries.iter().map(|(key, value)| format!(r#"{{"key": "{key}", "value": "{value}"}}"#)).collect();
        format!(r#"{{"entries": [{}]}}"#, entries.join(", "))
    };
    let descriptors: Vec<String> = descriptors.iter().map(entries).collect();
    let body = format!(r#"{{"domain": "web", "descriptors": [{}]}}"#, descriptors.join(", "));
    client.ask("POST", "/json", &[], body).await
}

/// The most specific limit applies, a descriptor is limited only by rules of its own depth, and each descriptor has a
/// status.
#[tokio::test]
async fn a_request_of_several_descriptors_has_a_status_for_each() {
    let mut client = client("several").await;
    let deep: &[(&str, &str)] = &[("user", "u"), ("path", "/export")];
    let answer = ask(&mut client, &[&[("user", "u")], deep, &[("other", "x")]]).await;
    let body = answer.json();
    assert_eq!((answer.status, body["overallCode"].as_str()), (StatusCode::OK, Some("OK")));
    let limit = serde_json::json!({ "name": "web/user", "requestsPerUnit": 2, "unit": "MINUTE" });
    assert_eq!(body["statuses"][0]["currentLimit"], limit);
    assert_eq!((&body["statuses"][0]["limitRemaining"], &body["statuses"][1]["code"]), (&1.into(), &"OK".into()));
    assert_eq!(body["statuses"][1]["currentLimit"]["unit"], "HOUR");
    assert!(body["statuses"][2].get("currentLimit").is_none());
    let over = ask(&mut client, &[&[("user", "u")], deep]).await;
    assert_eq!(over.status.as_u16(), 429);
    assert_eq!(over.json()["statuses"][0]["code"], "OK");
    assert_eq!(over.json()["statuses"][1]["code"], "OVER_LIMIT");
    // The first descriptor was counted although the second one was over its limit.
    assert_eq!(ask(&mut client, &[&[("user", "u")]]).await.status.as_u16(), 429);
    assert_eq!(ask(&mut client, &[&[("user", "root")]]).await.status, StatusCode::OK);
}

/// In a domain that charges all or none, descriptors under their limits are not charged if another one is over.
#[tokio::test]
async fn a_domain_may_be_charged_all_or_none() {
    let settings = EnvoySettings { all_or_none: vec!["web".into()], ..EnvoySettings::default() };
    let (mut each, mut all) = (client("each").await, client_with("all", settings).await);
    let both: [&[(&str, &str)]; 2] = [&[("user", "u"), ("path", "/export")], &[("partner", "p")]];
    for (client, left) in [(&mut each, 996), (&mut all, 999)] {
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(ask(client, &both).await);
        }
        assert_eq!(answers[3].status.as_u16(), 429, "the export is over its limit");
        let partner = &answers[3].json()["statuses"][1];
        assert_eq!((&partner["code"], &partner["limitRemaining"]), (&"OK".into(), &left.into()));
    }
}

/// A denied request charges none of its rules, also with costs and slots.
#[tokio::test]
async fn a_denied_request_charges_no_costs_and_takes_no_slots() {
    const RULES: &str = "
rules:
  - { name: fixed, match: { domain: web, user: '*' }, per: [user], quota: 10/min, cost: 3 }
  - { name: table, match: { domain: web, plan: '*' }, per: [plan], quota: 10/min, costs: { plan: { big: 4 } } }
  - { name: slots, match: { domain: web, job: '*' }, per: [job], quota: 2/30s, algorithm: concurrency }
  - { name: export, match: { domain: web, export: '*' }, per: [export], quota: 1/h }
  - { name: closed, match: { domain: web, closed: '*' }, deny: true }
";
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let agent = Agent::builder().rules(rules).start().unwrap();
    let mut client = Sidecar::of(agent).await.client().await;
    let others: [&[(&str, &str)]; 3] = [&[("user", "u")], &[("plan", "big")], &[("job", "j")]];
    let remaining = |answer: &Answer| -> Vec<serde_json::Value> {
        let body = answer.json();
        (0..3).map(|status| body["statuses"][status]["limitRemaining"].clone()).collect()
    };
    assert_eq!(ask(&mut client, &[&[("export", "e")]]).await.status, StatusCode::OK);
    // The store denies the first of these, and the agent itself the next two.
    for denied in [("export", "e"), ("export", "e"), ("closed", "c")] {
        let denied: &[(&str, &str)] = &[denied];
        let answer = ask(&mut client, &[others[0], others[1], others[2], denied]).await;
        let codes = answer.json()["statuses"].as_array().unwrap().iter().map(|status| status["code"].clone()).collect();
        let codes: Vec<serde_json::Value> = codes;
        assert_eq!(
            (answer.status.as_u16(), codes),
            (429, vec!["OK".into(), "OK".into(), "OK".into(), "OVER_LIMIT".into()])
        );
        assert_eq!(remaining(&answer), [10, 10, 2]);
    }
    assert_eq!(remaining(&ask(&mut client, &others).await), [7, 6, 1]);
}

/// Descriptors that share a counter are charged one after the other, and never more than the limit.
#[tokio::test]
async fn equal_descriptors_are_charged_one_by_one() {
    let mut client = client("equal").await;
    let user: &[(&str, &str)] = &[("user", "u")];
    let answer = ask(&mut client, &[user, user, user]).await;
    let codes: Vec<_> = (0..3).map(|status| answer.json()["statuses"][status]["code"].clone()).collect();
    assert_eq!((answer.status.as_u16(), codes), (429, vec!["OK".into(), "OK".into(), "OVER_LIMIT".into()]));
}

#[tokio::test]
async fn a_replacing_limit_replaces_for_the_whole_request() {
    let mut client = client("replaces").await;
    let trial: &[(&str, &str)] = &[("plan", "trial")];
    assert_eq!(ask(&mut client, &[trial]).await.status, StatusCode::OK);
    assert_eq!(ask(&mut client, &[trial]).await.status.as_u16(), 429);
    assert_eq!(ask(&mut client, &[trial, &[("partner", "p")]]).await.status, StatusCode::OK);
}

/// A client of envoyproxy/ratelimit reads 0 from a descriptor that is over its limit, and from its own header.
#[tokio::test]
async fn over_limit_shows_0_remaining_after_the_charge() {
    let mut client = client("over").await;
    let of = |hits: &str| {
        let entries = r#"[{"key": "user", "value": "u"}]"#;
        format!(r#"{{"domain": "web", "descriptors": [{{"entries": {entries}, "hitsAddend": {hits}}}]}}"#)
    };
    let answer = client.ask("POST", "/json", &[], of("3")).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-remaining")), (429, "0"));
    assert!(!answer.headers.contains_key("retry-after"), "three hits of two never pass");
    let status = &answer.json()["statuses"][0];
    assert_eq!((&status["code"], status.get("limitRemaining")), (&"OVER_LIMIT".into(), None));
    assert_ne!(status["durationUntilReset"], "0s", "the hits count until the window ends");
    assert_eq!(client.ask("POST", "/json", &[], of("1")).await.status.as_u16(), 429, "the three hits count");
}

/// Protobuf's JSON form: 64-bit numbers are text, wrappers are plain values, `null` is a missing field, and fields may have
/// their names of the definition.
#[tokio::test]
async fn hits_are_read_in_each_form_of_protobuf_json() {
    let mut client = client("hits").await;
    let entries = r#"[{"key": "partner", "value": "p"}]"#;
    let mut left = 1_000;
    for (of_request, of_descriptor, hits) in [
        (r#""hitsAddend": "2","#, "", 2),
        (r#""hitsAddend": 3,"#, "", 3),
        (r#""hits_addend": "4","#, r#", "hitsAddend": null"#, 4),
        (r#""hitsAddend": null,"#, r#", "isNegativeHits": false, "limit": null"#, 1),
        (r#""hitsAddend": 0,"#, "", 1),
        (r#""hitsAddend": 9,"#, r#", "hitsAddend": "5""#, 5),
        (r#""hitsAddend": 9,"#, r#", "hits_addend": "0""#, 0),
    ] {
        let descriptor = format!(r#"{{"entries": {entries}{of_descriptor}}}"#);
        let body = format!(r#"{{"domain": "web", {of_request} "descriptors": [{descriptor}]}}"#);
        let answer = client.ask("POST", "/json", &[], body.clone()).await;
        left -= hits;
        assert_eq!(answer.json()["statuses"][0]["limitRemaining"], left, "{body}");
    }
}

/// A descriptor in shadow reports its limit, as there. Nothing in the headers tells the client about it.
#[tokio::test]
async fn a_descriptor_in_shadow_has_a_current_limit() {
    let mut client = client("shadow").await;
    for left in [Some(1), None, None] {
        let answer = ask(&mut client, &[&[("trying", "t")]]).await;
        let status = &answer.json()["statuses"][0];
        assert_eq!((answer.status, &status["code"]), (StatusCode::OK, &"OK".into()));
        let limit = serde_json::json!({ "name": "web/trying", "requestsPerUnit": 2, "unit": "DAY" });
        assert_eq!(status["currentLimit"], limit);
        assert_eq!(status.get("limitRemaining").and_then(serde_json::Value::as_u64), left);
        assert!(answer.headers.get("x-ratelimit-limit").is_none() && answer.headers.get("ratelimit").is_none());
    }
}

#[tokio::test]
async fn an_invalid_rate_limit_request_is_rejected() {
    let mut client = client("refused").await;
    for (body, reason) in [
        ("", "it is empty; send {"),
        ("{", "EOF while parsing"),
        ("[]", "expected an object with `domain` and `descriptors`"),
        (r#"{"descriptors": []}"#, "the `domain` is missing"),
        (r#"{"domain": "web"}"#, "it has 0 descriptors"),
        (r#"{"domain": "web", "descriptors": [{}]}"#, "descriptor 1: it has 0 entries"),
        (r#"{"domain": "web", "descriptors": null}"#, "it has 0 descriptors"),
        (
            r#"{"domain": "web", "descriptors": [{"entries": [{"key": "user"}], "limit": {}}]}"#,
            "it brings a limit of 0 requests per UNKNOWN",
        ),
        (
            r#"{"domain": "web", "descriptors": [{"entries": [{"key": "user"}], "limit": {"requestsPerUnit": 5, "unit": "HOUR"}}]}"#,
            "no rule takes one for it",
        ),
        (
            r#"{"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "u"}], "isNegativeHits": true}]}"#,
            "write `refunds: true` in it, or refund with `POST /settle`",
        ),
        (r#"{"domain": "web", "descriptors": [{"entries": [{"value": "v"}]}]}"#, "has 0 bytes; it must have 1 to 64"),
        (
            r#"{"domain": "web", "hitsAddend": "two"}"#,
            "`two`, expected hits, a whole number from 0 to 9007199254740992",
        ),
        (r#"{"domain": "web", "hitsAddend": -1}"#, "expected hits, a whole number from 0"),
        (r#"{"domain": "web", "descriptor": []}"#, "unknown field `descriptor`"),
    ] {
        let detail = client.ask("POST", "/json", &[], body.to_owned()).await.problem(400);
        assert!(detail.contains(reason), "{body}: {detail}");
    }
}

/// A clock that a test sets, in ms since 1970.
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::Relaxed))
    }
}

/// The protocol has no release: a slot is held until the window of its quota ends, and the rules say so when they are read.
#[tokio::test]
async fn a_request_under_concurrency_keeps_its_slot_until_the_window_ends() {
    const START_MS: u64 = 1_700_000_000_000;
    let rules = "descriptors: { domain: { header: x-domain }, user: { header: x-user } }
rules: [{ name: exports, match: { domain: web, user: '*' }, per: [user], quota: 1/10min, algorithm: concurrency, consistency: strict }]
";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("valid rules");
    let warnings: Vec<_> = rules.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|warning| warning.contains("`POST /json` has no release")), "{warnings:?}");
    let clock = Arc::new(HandClock(AtomicU64::new(START_MS)));
    let agent = Agent::builder().clock(clock.clone()).rules(rules).start().expect("an agent in memory");
    let mut client = Sidecar::of(agent).await.client().await;
    let mut code_at = async |ms: u64| {
        clock.0.store(START_MS + ms, Ordering::Relaxed);
        ask(&mut client, &[&[("user", "u")]]).await.json()["overallCode"].as_str().unwrap_or_default().to_owned()
    };
    let codes = [code_at(0).await, code_at(599_999).await, code_at(600_000).await, code_at(600_001).await];
    assert_eq!(codes, ["OK", "OVER_LIMIT", "OK", "OVER_LIMIT"]);
}
