//! Changes of the origin of rules while counters are in use, at agents that share a real Redis.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Kafka, Redis};

use super::fleet_of_processes::{Member, check};
use crate::support::{Client, file, finish, tollgate, wait_for};

/// Time in which a change takes effect at all agents.
const EFFECT_MAX: Duration = Duration::from_secs(2);
const NODES: [&str; 3] = ["gw-1", "gw-2", "gw-3"];

fn rules(first_line: &str, quota: &str) -> String {
    format!(
        "{first_line}\nrules: [{{ name: per-key, per: [api_key], quota: {quota}, consistency: strict, deadline: 1s, leases: off }}]"
    )
}

fn agent(node: &str, servers: &[&str], rules: &[&str]) -> Member {
    let args = [&["agent", "--http", "127.0.0.1:0", "--node", node], servers, rules].concat();
    let agent = Member::start(args.into_iter().map(str::to_owned).collect());
    agent.wait_until_ready();
    agent
}

fn publish(quota: u64, servers: &[&str]) {
    let path = file(&format!("origins-published-{quota}.yaml"), &rules("", &format!("{quota}/h")));
    let said = finish(tollgate(&["rules", "publish", path.to_str().unwrap()]).args(servers));
    assert_eq!(said.exit, 0, "{}", said.err);
}

/// Units that are left of the hot key, without a charge.
fn left(client: &mut Client) -> u64 {
    let body = client.post(r#"{"descriptors":{"api_key":"hot"},"cost":0}"#).json();
    body["remaining"].as_u64().expect("remaining")
}

/// Waits until every agent counts the hot key by this quota, of which ten units are spent.
fn takes_effect(agents: &[Member], quota: u64, what: &str) {
    let waited = Stopwatch::start();
    let mut clients: Vec<Client> = agents.iter().map(Member::client).collect();
    wait_for(what, || clients.iter_mut().all(|client| left(client) == quota - 10).then_some(()));
    assert!(waited.elapsed() < EFFECT_MAX, "{what}: {:?}", waited.elapsed());
}

/// F9: the way from `--rules` to `rules publish`, and on to a file with a version and back, whose generations are smaller and
/// greater by turns. The first agent that has the change makes it for all, and every agent keeps it.
fn walk_through_origins(servers: &[&str]) {
    let own = |name: &str, version: &str, quota: &str| file(&format!("origins-{name}.yaml"), &rules(version, quota));
    let [first, versioned, last] =
        [own("first", "", "100/h"), own("versioned", "version: 7", "50/h"), own("last", "", "30/h")]
            .map(|path| path.display().to_string());
    let mut agents = NODES.map(|node| agent(node, servers, &["--rules", &first]));
    let mut client = agents[0].client();
    assert!((0..10).all(|_| check(&mut client, "hot").allowed));
    takes_effect(&agents, 100, "a file without a version");
    publish(20, servers);
    let changes: [(&str, &[&str], u64); 4] = [
        ("published rules", &[], 20),
        ("a file with a version", &["--rules", &versioned], 50),
        ("a file without a version", &["--rules", &last], 30),
        ("published rules again", &[], 20),
    ];
    for (what, rules, quota) in changes {
        if what == "published rules again" {
            publish(20, servers);
        }
        for (number, node) in NODES.iter().enumerate() {
            agents[number].kill();
            agents[number] = agent(node, servers, rules);
            takes_effect(&agents, quota, &format!("{what} at {} of 3", number + 1));
        }
    }
}

/// F9, F4: without Kafka.
#[test]
fn rules_of_another_origin_take_effect_on_busy_counters_without_kafka() {
    let redis = Redis::start();
    walk_through_origins(&["--redis", &redis.url()]);
}

/// F9: with Kafka.
#[test]
fn rules_of_another_origin_take_effect_on_busy_counters() {
    let (redis, kafka) = (Redis::start(), Kafka::start());
    walk_through_origins(&["--redis", &redis.url(), "--kafka", &kafka.brokers()]);
}

/// F4: without Kafka, published rules are in force at every agent within 2 s, whatever the layout of the counters.
#[test]
fn rules_that_are_published_through_redis_are_in_force_within_two_seconds() {
    for slots in ["together", "multi"] {
        let redis = Redis::start();
        let url = redis.url();
        let servers = ["--redis", &*url, "--redis-slots", slots];
        publish(20, &servers);
        let agents = NODES.map(|node| agent(node, &servers, &[]));
        let mut client = agents[0].client();
        assert!((0..10).all(|_| check(&mut client, "hot").allowed));
        for quota in [40, 30, 50] {
            publish(quota, &servers);
            takes_effect(&agents, quota, &format!("published rules, {slots}"));
        }
    }
}

/// I8: agents that share a Redis and have different digest keys tell it, in the log, in `/healthz` and by a metric.
#[test]
fn different_digest_keys_raise_an_alarm_at_every_agent() {
    let redis = Redis::start();
    let (url, limit) = (redis.url(), ["--limit", "10/h per api_key"]);
    let key = file("origins-digest.key", "000102030405060708090a0b0c0d0e0f\n").display().to_string();
    let mut own = agent("gw-1", &["--redis", &url], &limit);
    assert_eq!((own.get("/healthz")["status"].as_str(), own.metric("tollgate_digest_keys_differ")), (Some("ok"), 0));
    let other = agent("gw-2", &["--redis", &url, "--digest-key-file", &key], &limit);
    let waited = Stopwatch::start();
    for agent in [&own, &other] {
        let problem = wait_for("the alarm", || {
            let problems = agent.get("/healthz")["problems"].as_array()?.clone();
            problems.into_iter().find(|problem| problem["part"] == "digest-key")
        });
        assert!(waited.elapsed() < EFFECT_MAX, "{:?}", waited.elapsed());
        assert!(problem["why"].as_str().is_some_and(|why| why.contains("--digest-key-file")), "{problem}");
        assert_eq!(agent.get("/healthz")["status"], "degraded");
        assert_eq!(agent.metric("tollgate_digest_keys_differ"), 1);
    }
    let line = own.log().find(|line| line.contains("another digest key")).expect("a line");
    assert!(line.contains("WARN") && line.contains("gw-1") && line.contains("--digest-key-file"), "{line}");
    drop(other);
    wait_for("the end of the alarm", || (own.get("/healthz")["status"] == "ok").then_some(()));
}
