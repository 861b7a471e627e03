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
    let back = format!(r#"{{"descriptors": {{"user": "u"}}, "units": -8, "id": {}}}"#, answer.json()["id"]);
    assert_eq!(post(&mut client, "/settle", &back).await.json()["remaining"], 93);
    assert_eq!(client.post(r#"{"descriptors": {"user": "u"}}"#).await.json()["remaining"], 92);
}

/// A retry of a call with an id is free until all its units are refunded; then it is charged like a new call. The refund is made
/// once, also if it is sent again after that retry.
#[tokio::test]
async fn a_retry_after_a_full_refund_is_charged_again() {
    let mut client = client([strict("100/min")]).await;
    let call = r#"{"descriptors": {"user": "u"}, "cost": 10, "id": "r-1"}"#;
    let first = client.post(call).await;
    assert_eq!((&first.json()["remaining"], &client.post(call).await.json()["remaining"]), (&90.into(), &90.into()));
    let refund = format!(r#"{{"descriptors": {{"user": "u"}}, "units": -10, "id": {}}}"#, first.json()["id"]);
    assert_eq!(post(&mut client, "/settle", &refund).await.json()["remaining"], 100);
    // In one millisecond, the two charges of the request would be one.
    let other = r#"{"descriptors": {"user": "v"}, "cost": 0}"#;
    while client.post(other).await.json()["at_ms"] == first.json()["at_ms"] {}
    assert_eq!(client.post(call).await.json()["remaining"], 90, "nothing of the first call was left");
    assert_eq!(client.post(call).await.json()["remaining"], 90, "and this is a retry of the second");
    assert_eq!(post(&mut client, "/settle", &refund).await.json()["remaining"], 90, "the refund was made before");
}

/// A settlement refunds at most what its call was charged, once; without the id of the decision it may only add, at most one
/// quota.
#[tokio::test]
async fn a_settlement_neither_locks_a_caller_nor_gives_quota_without_end() {
    let mut client = client([strict("100/min")]).await;
    let call = r#"{"descriptors": {"user": "u"}, "cost": 3}"#;
    let id = client.post(call).await.json()["id"].clone();
    let settle = |user: &str, units: i64, id: &serde_json::Value| {
        format!(r#"{{"descriptors": {{"user": "{user}"}}, "units": {units}, "id": {id}}}"#)
    };
    let remaining =
        async |client: &mut Client, body: &str| post(client, "/settle", body).await.json()["remaining"].clone();
    assert_eq!(remaining(&mut client, &settle("u", -100, &id)).await, 100, "three units, and no more");
    assert_eq!(remaining(&mut client, &settle("u", -3, &id)).await, 100, "a retry refunds nothing");
    assert_eq!(client.post(call).await.json()["remaining"], 97);
    assert_eq!(remaining(&mut client, &settle("u", -3, &id)).await, 97, "neither does one after another call");

    for (body, reason) in [
        (settle("v", -3, &id), "not that of an admission of these descriptors"),
        (settle("u", -3, &"agent-1-2-3-4-5".into()), "not that of an admission of these descriptors"),
        (r#"{"descriptors": {"user": "u"}, "units": -1}"#.to_owned(), "a refund needs the `id`"),
    ] {
        let detail = post(&mut client, "/settle", &body).await.problem(400);
        assert!(detail.contains(reason), "{detail}");
    }

    let much = r#"{"descriptors": {"user": "w"}, "units": 9007199254740992}"#;
    assert_eq!(
        post(&mut client, "/settle", r#"{"descriptors": {"user": "w"}, "units": 5}"#).await.json()["remaining"],
        95
    );
    let settled = post(&mut client, "/settle", much).await.json();
    let reset_ms = settled["reset_ms"].as_u64().unwrap();
    assert_eq!(settled["remaining"], 0, "what is charged without room is counted");
    assert!(reset_ms <= 70_000, "one quota, which leaves after a window: {reset_ms}");
}

/// Settlements without an id charge a caller with one quota in a window, however many there are, so a bucket has units again after a
/// window.
#[tokio::test]
async fn many_settlements_without_an_id_lock_a_caller_for_a_window_at_most() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut client = client([strict("100/min").counted_by(algorithm)]).await;
        let settle = r#"{"descriptors": {"user": "u"}, "units": 100}"#;
        for _ in 0..51 {
            assert_eq!(post(&mut client, "/settle", settle).await.status, StatusCode::OK);
        }
        let denied = client.post(r#"{"descriptors": {"user": "u"}}"#).await.json();
        let wait_ms = denied["retry_after_ms"].as_u64().unwrap();
        assert!(denied["allowed"] == false && wait_ms <= 66_000, "{denied}");
        let other = client.post(r#"{"descriptors": {"user": "v"}}"#).await.json();
        assert_eq!(other["allowed"], true, "another caller has its own quota");
    }
}

/// A slot of a `concurrency` rule is free again after its call was released.
#[tokio::test]
async fn a_slot_is_released() {
    let mut client = client([strict("1/30s").counted_by(Algorithm::Concurrency)]).await;
    let call = r#"{"descriptors": {"user": "u"}}"#;
    let answer = client.post(call).await;
    assert_eq!(client.post(call).await.status.as_u16(), 429);
    let ended = format!(r#"{{"descriptors": {{"user": "u"}}, "id": {}}}"#, answer.json()["id"]);
    assert_eq!(post(&mut client, "/release", &ended).await.json()["remaining"], 1);
    assert_eq!(client.post(call).await.status, StatusCode::OK);
    assert_eq!(post(&mut client, "/release", &ended).await.json()["remaining"], 0, "once");
}

/// A job that runs again under the same request id holds a slot again, and its release frees it, also if the gateway repeats the
/// check and knows the id of the second answer only.
#[tokio::test]
async fn a_slot_is_held_again_under_the_request_id_of_a_released_call() {
    let mut client = client([strict("2/10min").counted_by(Algorithm::Concurrency)]).await;
    let job = r#"{"descriptors": {"user": "u"}, "id": "job7"}"#;
    for run in 0..10 {
        let first = client.post(job).await;
        assert_eq!(first.json()["remaining"], 1, "run {run}");
        let again = client.post(job).await;
        assert_eq!(again.json()["remaining"], 1, "run {run}: a repetition holds the same slot");
        let known = if run % 2 == 0 { first } else { again };
        let release = format!(r#"{{"descriptors": {{"user": "u"}}, "id": {}}}"#, known.json()["id"]);
        for _ in 0..2 {
            assert_eq!(post(&mut client, "/release", &release).await.json()["remaining"], 2, "run {run}");
        }
    }
}

/// `concurrency` limits calls at a time, so its denial names no window.
#[tokio::test]
async fn a_denial_by_concurrency_speaks_of_slots() {
    let mut client = client([strict("2/10min").counted_by(Algorithm::Concurrency)]).await;
    let call = |cost: u64| format!(r#"{{"descriptors": {{"user": "u"}}, "cost": {cost}}}"#);
    assert_eq!(client.post(call(2)).await.json()["slots"], true);
    let denied = client.post(call(1)).await;
    assert_eq!(denied.header("ratelimit-policy"), r#""tokens";q=2;qu="concurrent-requests""#);
    let detail = denied.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("rule tokens has 2 slots, 2 in use; this call passes in "), "{detail}");
    assert!(detail.ends_with(" s, or when other calls end"), "{detail}");
    let detail = client.post(call(3)).await.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with(", and this call takes 3: it can never pass; make it smaller"), "{detail}");
}

/// A rule with `deny: true` and `shadow: true` would have denied the call once, whatever settles and releases follow.
#[tokio::test]
async fn a_deny_rule_in_shadow_is_not_counted_once_more_by_each_settle_and_release() {
    let closed = Rule::denying("closed", Vec::new()).in_shadow();
    let slots = Rule::per("slots", &["user"], "9/min".parse().unwrap()).counted_by(Algorithm::Concurrency);
    let mut client = client([closed, strict("100/min"), slots]).await;
    let call = client.post(r#"{"descriptors": {"user": "u"}, "cost": 2}"#).await;
    assert_eq!(call.status, StatusCode::OK);
    let id = call.json()["id"].clone();
    for units in [3, -1] {
        let body = format!(r#"{{"descriptors": {{"user": "u"}}, "units": {units}, "id": {id}}}"#);
        assert_eq!(post(&mut client, "/settle", &body).await.status, StatusCode::OK);
    }
    let body = format!(r#"{{"descriptors": {{"user": "u"}}, "id": {id}}}"#);
    assert_eq!(post(&mut client, "/release", &body).await.status, StatusCode::OK);
    let metrics = String::from_utf8(client.get("/metrics", &[]).await.body.to_vec()).unwrap();
    assert!(metrics.contains("tollgate_shadow_denials_total{rule=\"closed\"} 1\n"), "{metrics}");
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
