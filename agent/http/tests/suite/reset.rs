//! `/reset`: an operator gives a caller its quotas back.

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::Agent;

use crate::support::{Client, Sidecar};

const RULES: &str = "
rules:
  - { name: tenant, per: [tenant], quota: 100/h }
  - { name: key, per: [api_key], quota: 2/h, consistency: strict }
  - { name: watched, per: [api_key], quota: 1/h, shadow: true }
  - { name: bucket, per: [api_key], quota: 2/h, burst: 4, algorithm: token_bucket }
  - { name: everybody, per: [], quota: 100/h }
  - { name: slots, per: [tenant], quota: 3/h, algorithm: concurrency }
lists: { deny: [{ api_key: listed }] }
";

async fn client() -> Client {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    Sidecar::of(Agent::builder().rules(rules).start().expect("an agent")).await.client().await
}

async fn post(client: &mut Client, path: &str, body: &Value) -> Value {
    let answer = client.ask("POST", path, &[], body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

fn call(key: &str) -> Value {
    json!({ "descriptors": { "tenant": "t", "api_key": key } })
}

/// A call has five rules, of all kinds of counters. After the reset of its caller, all but the slots are free.
#[tokio::test]
async fn all_quotas_of_a_caller_are_free_and_running_calls_stay() {
    let mut client = client().await;
    let check = async |client: &mut Client, key: &str| client.post(call(key).to_string()).await;
    for key in ["k", "k", "other"] {
        assert_eq!(check(&mut client, key).await.status, StatusCode::OK);
    }
    assert_eq!(check(&mut client, "k").await.json()["rule"], "key", "it denies, and the slots are full");
    let reset = post(&mut client, "/reset", &call("k")).await;
    let rules = reset["rules"].as_array().expect("rules");
    let seen: Vec<_> = rules.iter().map(|rule| (rule["rule"].as_str().unwrap(), rule["reset"] == true)).collect();
    let expected =
        [("tenant", true), ("key", true), ("watched", true), ("bucket", true), ("everybody", false), ("slots", false)];
    assert_eq!(seen, expected, "{reset}");
    assert_eq!(
        rules[1]["caller"].as_str().map(|caller| caller.starts_with("api_key=") && caller != "api_key=k"),
        Some(true)
    );
    assert!(rules[5]["why"].as_str().is_some_and(|why| why.contains("POST /release")), "{reset}");
    assert_eq!(
        reset["agents"],
        "this agent only, because it has neither Redis nor a bus; send the request to each agent"
    );

    let denied = check(&mut client, "k").await.json();
    assert_eq!((&denied["rule"], &denied["slots"]), (&"slots".into(), &true.into()), "the calls run: {denied}");
    let explained = post(&mut client, "/explain", &call("k")).await;
    assert_eq!(explained["list"], Value::Null);
    for (key, remaining) in [("k", 1), ("other", 0)] {
        let rule = json!({ "descriptors": { "api_key": key } });
        assert_eq!(client.post(rule.to_string()).await.json()["remaining"], remaining, "{key}");
    }
}

#[tokio::test]
async fn a_reset_that_concerns_nobody_says_so() {
    let mut client = client().await;
    for (body, reason) in [
        (json!({ "descriptors": { "user": "u" } }), "no rule counts a caller with these descriptors"),
        (
            json!({ "descriptors": { "api_key": "k" }, "cost": 3 }),
            "unknown field `cost`, expected `descriptors` or `unverified`",
        ),
        (json!({}), "missing field `descriptors`"),
    ] {
        let problem = client.ask("POST", "/reset", &[], body.to_string()).await.problem(400);
        assert!(problem.contains(reason), "{problem}");
    }
    let listed = post(&mut client, "/reset", &json!({ "descriptors": { "api_key": "listed" } })).await;
    assert_eq!(
        listed["rules"].as_array().map(Vec::len),
        Some(4),
        "a caller on the deny list has counters, too: {listed}"
    );
}
