//! Settlements over HTTP, at one agent with its own counts and at two agents that share a Redis.

use serde_json::{Value, json};
use tollgate_servers::{Redis, free_port};

use crate::fleet::{Member, alone};
use crate::support::{Answer, Client, Up, file};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s }]";
/// Width of the window and of a sub-window, in ms.
const LEFT_AFTER_MS: u64 = 60_000 + 5_000;

fn post(client: &mut Client, path: &str, body: &Value) -> Answer {
    client.send("POST", path, &[], &body.to_string());
    client.receive()
}

fn settlement(key: &str, units: i64, id: &str) -> Value {
    json!({ "descriptors": { "api_key": key }, "units": units, "id": id })
}

/// Returns the reason for which a settlement is refused.
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

/// B8, never-over: the `id` of a decision refunds at most what its call was charged, once, at whichever agent; without it
/// a settlement may only add, at most one quota; an id with one changed character is refused.
#[test]
fn a_settlement_neither_locks_a_caller_nor_gives_quota_without_end() {
    let _alone = alone();
    let rules = file("settlements.yaml", RULES).display().to_string();
    let up = Up::start(&["--rules", &rules]);
    settle(&mut [up.client(), up.client()]);

    let redis = Redis::start();
    let agents = ["gw-1", "gw-2"].map(|node| {
        let http = format!("127.0.0.1:{}", free_port());
        let args = ["agent", "--redis", &redis.url(), "--rules", &rules, "--http", &http, "--node", node];
        let agent = Member::start(args.map(str::to_owned).to_vec());
        agent.wait_until_ready();
        agent
    });
    settle(&mut agents.each_ref().map(Member::client));
}
