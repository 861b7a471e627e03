//! Settlements over HTTP, at one agent with its own counts and at two agents that share a Redis.

use serde_json::{Value, json};
use tollgate_servers::{Redis, free_port};

use super::fleet_of_processes::Member;
use crate::support::{Answer, Client, Up, file, wait_for};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s }]";
/// Buckets that drain for longer than their window.
const BUCKETS: &str = "
defaults: { consistency: strict, deadline: 1s }
rules:
  - { name: tokens, match: { kind: tokens }, per: [api_key], quota: 10/s, algorithm: token_bucket, burst: 1000 }
  - { name: queue, match: { kind: queue }, per: [api_key], quota: 10/s, algorithm: leaky_bucket, burst: 1000 }
";
/// Width of the window and of a sub-window, in ms.
const LEFT_AFTER_MS: u64 = 60_000 + 5_000;

fn post(client: &mut Client, path: &str, body: &Value) -> Answer {
    client.send("POST", path, &[], &body.to_string());
    client.receive()
}

fn settlement(key: &str, units: i64, id: &str) -> Value {
    json!({ "descriptors": { "api_key": key }, "units": units, "id": id })
}

fn refused(client: &mut Client, body: &Value) -> String {
    let answer = post(client, "/settle", body);
    assert_eq!((answer.status, answer.header("content-type")), (400, "application/problem+json"), "{body}");
    answer.json()["detail"].as_str().expect("a reason").to_owned()
}

/// Settles calls: the first agent decides, and both settle.
fn settle(agents: &mut [Client; 2]) {
    let call = json!({ "descriptors": { "api_key": "k" }, "cost": 3 });
    let answer = post(&mut agents[0], "/check", &call).json();
    let id = answer["id"].as_str().expect("an id");
    assert_eq!(answer["remaining"], 97);
    let remaining = |client: &mut Client, body: &Value| {
        let answer = post(client, "/settle", body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["remaining"].clone()
    };
    assert_eq!(remaining(&mut agents[1], &settlement("k", -100, id)), 100, "the three units of the call, and no more");
    for agent in &mut *agents {
        assert_eq!(remaining(agent, &settlement("k", -3, id)), 100, "once");
    }
    assert_eq!(post(&mut agents[0], "/check", &call).json()["remaining"], 97);
    for agent in &mut *agents {
        assert_eq!(remaining(agent, &settlement("k", -3, id)), 97, "another call gives nothing to settle it again");
    }

    // The same id with another cost is another request, so that a settlement refunds what was charged for this one.
    let named = |cost: u64| json!({ "descriptors": { "api_key": "named" }, "cost": cost, "id": "q" });
    let [small, again, large] = [1, 1, 30].map(|cost| post(&mut agents[0], "/check", &named(cost)).json());
    assert_eq!([&small, &again, &large].map(|answer| answer["remaining"].as_u64()), [99, 99, 69].map(Some));
    for (answer, left) in [(&large, 99), (&small, 100), (&again, 100), (&large, 100)] {
        let id = answer["id"].as_str().expect("an id");
        assert_eq!(remaining(&mut agents[1], &settlement("named", -30, id)), left);
    }

    let unnamed = |units: i64| json!({ "descriptors": { "api_key": "k" }, "units": units });
    assert_eq!(
        refused(&mut agents[0], &unnamed(-1)),
        "`id` is missing; a refund needs the `id` of the response of /check, which tells the charge"
    );
    let forged = (0..id.len()).map(|place| {
        let other = if &id[place..=place] == "0" { "1" } else { "0" };
        [&id[..place], other, &id[place + 1..]].concat()
    });
    for forged in forged.chain(["x".to_owned(), format!("{id}0")]) {
        let reason = refused(&mut agents[1], &settlement("k", -3, &forged));
        assert!(
            reason.contains("the `id` is not that of an admission of these descriptors; send both as in"),
            "{reason}"
        );
    }
    assert!(refused(&mut agents[0], &settlement("other", -3, id)).contains("not that of an admission"));
    assert_eq!(post(&mut agents[0], "/check", &call).json()["remaining"], 94, "what was refused changed nothing");

    assert_eq!(remaining(&mut agents[1], &unnamed(5)), 89);
    let much = post(&mut agents[1], "/settle", &unnamed(1 << 53)).json();
    assert_eq!(much["remaining"], 0);
    assert!(
        much["reset_ms"].as_u64() <= Some(LEFT_AFTER_MS),
        "at most one quota, which leaves with the window: {much}"
    );
    assert_eq!(post(&mut agents[0], "/check", &call).status, 429);
}

/// Settles a call under a bucket again and again, at both agents, for two windows.
fn settle_bucket(agents: &mut [Client; 2], kind: &str) {
    let descriptors = json!({ "api_key": "k", "kind": kind });
    let call = json!({ "descriptors": descriptors, "cost": 500 });
    let answers = [(); 2].map(|()| post(&mut agents[0], "/check", &call).json());
    assert!(answers.iter().all(|answer| answer["allowed"] == true), "{answers:?}");
    let body = json!({ "descriptors": descriptors, "units": -500, "id": answers[0]["id"] });
    let mut left = |agent: usize| {
        let answer = post(&mut agents[agent], "/settle", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["remaining"].as_u64().expect("a number")
    };
    let refunded = left(0);
    assert!((500..900).contains(&refunded), "the units of the call: {refunded}");
    wait_for("two windows to pass", || {
        let now = left(0).max(left(1));
        assert!(now < refunded + 400, "{kind}: {now} units after {refunded}");
        (now >= refunded + 20).then_some(())
    });
}

/// B8, never-over: the `id` of a decision refunds at most what its call was charged, once, at whichever agent; without it
/// a settlement may only add, at most one quota; an id with one changed character is refused.
#[test]
fn a_settlement_neither_locks_a_caller_nor_gives_quota_without_end() {
    let rules = file("settlements.yaml", RULES).display().to_string();
    let up = Up::start(&["--rules", &rules]);
    settle(&mut [up.client(), up.client()]);

    let redis = Redis::start();
    settle(&mut two_agents(&redis, &rules).each_ref().map(Member::client));
}

/// B8, never-over: a bucket gives the units of a call back once, for as long as they may be in it.
#[test]
fn a_settlement_of_a_bucket_that_is_repeated_for_windows_refunds_once() {
    let rules = file("buckets.yaml", BUCKETS).display().to_string();
    let up = Up::start(&["--rules", &rules]);
    let redis = Redis::start();
    let agents = two_agents(&redis, &rules);
    for kind in ["tokens", "queue"] {
        settle_bucket(&mut [up.client(), up.client()], kind);
        settle_bucket(&mut agents.each_ref().map(Member::client), kind);
    }
}

fn two_agents(redis: &Redis, rules: &str) -> [Member; 2] {
    ["gw-1", "gw-2"].map(|node| {
        let http = format!("127.0.0.1:{}", free_port());
        let args = ["agent", "--redis", &redis.url(), "--rules", rules, "--http", &http, "--node", node];
        let agent = Member::start(args.map(str::to_owned).to_vec());
        agent.wait_until_ready();
        agent
    })
}
