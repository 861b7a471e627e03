//! Settlements, releases, and optional fields of a call.

use http::StatusCode;
use tollgate::{Agent, Call, Rule, RuleSet};
use tollgate_core::algorithm::Algorithm;

use crate::support::{Answer, Client, Sidecar};

async fn client(rules: impl IntoIterator<Item = Rule>) -> Client {
    Sidecar::of(Agent::builder().rules(RuleSet::new(1, rules)).start().unwrap()).await.client().await
}

fn strict(quota: &str) -> Rule {
    Rule::per("tokens", &["user"], quota.parse().unwrap()).strict()
}

async fn post(client: &mut Client, path: &str, body: &str) -> Answer {
    client.ask("POST", path, &[], body.to_owned()).await
}

/// B8: after settling 5 units, `remaining` is lower by 5; units charged in excess are refunded.
#[tokio::test]
async fn a_call_is_settled_after_its_answer() {
    let mut client = client([strict("100/min")]).await;
    let answer = client.post(r#"{"descriptors": {"user": "u"}, "cost": 10}"#).await;
    assert_eq!(answer.json()["remaining"], 90);
    let settled = post(&mut client, "/settle", r#"{"descriptors": {"user": "u"}, "units": 5}"#).await;
    assert_eq!((settled.status, &settled.json()["remaining"]), (StatusCode::OK, &85.into()));
    let at_ms = answer.json()["at_ms"].as_u64().unwrap();
    let back = format!(r#"{{"descriptors": {{"user": "u"}}, "units": -8, "at_ms": {at_ms}}}"#);
    assert_eq!(post(&mut client, "/settle", &back).await.json()["remaining"], 93);
    assert_eq!(client.post(r#"{"descriptors": {"user": "u"}}"#).await.json()["remaining"], 92);
}

/// A slot of a `concurrency` rule is free again after its call was released.
#[tokio::test]
async fn a_slot_is_released() {
    let mut client = client([strict("1/30s").counted_by(Algorithm::Concurrency)]).await;
    let call = r#"{"descriptors": {"user": "u"}}"#;
    let answer = client.post(call).await;
    assert_eq!(client.post(call).await.status.as_u16(), 429);
    let at_ms = answer.json()["at_ms"].as_u64().unwrap();
    let ended = format!(r#"{{"descriptors": {{"user": "u"}}, "at_ms": {at_ms}}}"#);
    assert_eq!(post(&mut client, "/release", &ended).await.json()["remaining"], 1);
    assert_eq!(client.post(call).await.status, StatusCode::OK);
}

/// A library's permit becomes a token, whose text is the body that releases its slot here.
#[tokio::test]
async fn the_token_of_a_permit_is_released() {
    let rule = strict("1/30s").counted_by(Algorithm::Concurrency);
    let agent = Agent::builder().rules(RuleSet::new(1, [rule])).start().unwrap();
    let mut call = Call::new().with("user", "u");
    call.set_unverified("tier".into(), "pro".into());
    let token = agent.check(&call).await.unwrap().permit.expect("a slot").into_token();
    let mut client = Sidecar::of(agent).await.client().await;
    let same = r#"{"descriptors": {"user": "u"}}"#;
    assert_eq!(client.post(same).await.status.as_u16(), 429);
    assert_eq!(post(&mut client, "/release", &token.to_string()).await.json()["remaining"], 1);
    assert_eq!(client.post(same).await.status, StatusCode::OK);
}

/// A8: the response contains the delay until the call's turn.
#[tokio::test]
async fn a_queued_call_gets_its_delay() {
    let rule = strict("2/s").counted_by(Algorithm::LeakyBucket);
    let mut client = client([rule]).await;
    let call = r#"{"descriptors": {"user": "u"}}"#;
    assert!(client.post(call).await.json().get("delay_ms").is_none(), "the first call is not delayed");
    let second = client.post(call).await;
    let delay_ms = second.json()["delay_ms"].as_u64().unwrap();
    assert!((1..=500).contains(&delay_ms), "{delay_ms}");
    assert_eq!(second.header("x-ratelimit-delay-ms"), delay_ms.to_string());
    assert_eq!(client.post(call).await.status.as_u16(), 429);
}

/// A2: a retried request is not charged again.
#[tokio::test]
async fn a_request_with_an_id_is_charged_once() {
    let mut client = client([strict("1/min")]).await;
    let call = r#"{"descriptors": {"user": "u"}, "id": "r-1"}"#;
    assert_eq!(client.post(call).await.status, StatusCode::OK);
    assert_eq!(client.post(call).await.status, StatusCode::OK);
    assert_eq!(client.post(r#"{"descriptors": {"user": "u"}, "id": "r-2"}"#).await.status.as_u16(), 429);
}

#[tokio::test]
async fn an_invalid_settlement_is_rejected_with_the_remedy() {
    let mut client = client([strict("1/min")]).await;
    for (path, body, reason) in [
        ("/settle", r#"{"descriptors": {}}"#, "`units` is missing"),
        ("/settle", r#"{"descriptors": {}, "units": 0}"#, "`units` is 0; it must be a whole number"),
        ("/settle", r#"{"descriptors": {}, "cost": 1}"#, "unknown field `cost`"),
        ("/release", r#"{"descriptors": {}}"#, "`at_ms` is missing"),
    ] {
        let detail = post(&mut client, path, body).await.problem(400);
        assert!(detail.contains(reason), "{path} {body}: {detail}");
    }
}
