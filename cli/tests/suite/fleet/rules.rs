//! Published rules: from the bus, from Redis while the bus is unavailable, and from the state folder without any server.

use std::path::PathBuf;

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::{file, finish, tollgate, wait_for};

const FEW: &str = "rules: [{ name: per-key, per: [api_key], quota: 10/h, consistency: strict, deadline: 1s }]";
const MORE: &str = "rules: [{ name: per-key, per: [api_key], quota: 20/h, consistency: strict, deadline: 1s }]
lists: { deny: [{ api_key: sk_revoked_* }] }";

fn publish(text: &str, to: &[&str]) -> (i32, String, String) {
    // Tests of one process publish at the same time.
    let name = format!("published-{}-{:?}.yaml", std::process::id(), std::thread::current().id());
    let path = file(&name, text);
    let said = finish(tollgate(&["rules", "publish", path.to_str().unwrap()]).args(to));
    (said.exit, said.out, said.err)
}

/// Publishes rules and returns their generation: their offset, so a fleet does not always begin with the same one.
fn published(text: &str, to: &[&str]) -> u64 {
    let (exit, out, err) = publish(text, to);
    assert_eq!(exit, 0, "{out}{err}");
    out.trim_end().rsplit(' ').next().and_then(|generation| generation.parse().ok()).expect("a generation")
}

/// Starts an agent that follows published rules, with a state folder of this name.
fn follower(fleet: &Fleet, state: &str) -> Member {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{state}-{}", std::process::id()));
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let args = ["agent", "--kafka", &kafka, "--redis", &redis, "--http", "127.0.0.1:0", "--state-dir"];
    Member::start(args.iter().map(ToString::to_string).chain([folder.display().to_string()]).collect())
}

fn wait_for_generation(agent: &Member, generation: u64) {
    wait_for("the rules", || (agent.get("/healthz")["generation"] == generation).then_some(()));
}

/// F3, F7, F8, G9, last-good: published rules reach running agents, newer ones replace older ones, and each agent finds them
/// again while Kafka is unavailable, and without any server.
#[test]
fn published_rules_reach_agents_whatever_is_away() {
    let mut fleet = Fleet::start("rules", FEW);
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let agent = follower(&fleet, "first");
    let missing = agent.client().get("/readyz", &[]);
    assert_eq!(missing.status, 503);
    assert!(missing.text().contains("tollgate rules publish"), "{}", missing.text());

    let first = published(FEW, &["--kafka", &kafka]);
    wait_for_generation(&agent, first);
    agent.wait_until_ready();
    let mut client = agent.client();
    assert_eq!(check(&mut client, "k1").remaining, 9);

    let (exit, _, err) = publish("rules: [{ name: a, per: [api_key], quota: 0/h }]", &["--kafka", &kafka]);
    assert_eq!(exit, 2, "{err}");
    let second = published(MORE, &["--kafka", &kafka]);
    assert!(second > first, "{second} after {first}");
    wait_for_generation(&agent, second);
    assert_eq!(check(&mut client, "k1").remaining, 18, "what was spent is kept");
    assert!(!check(&mut client, "sk_revoked_1").allowed, "a listed key is denied from here on");

    let aggregator = Member::start(
        ["aggregator", "--kafka", &kafka, "--redis", &redis, "--http", "127.0.0.1:0"].map(str::to_owned).to_vec(),
    );
    wait_for("the copy in Redis", || {
        fleet.redis.command("HGET tollgate:rules generation").ends_with(&second.to_string()).then_some(())
    });
    drop(aggregator);
    fleet.kafka.kill();
    let other = follower(&fleet, "second");
    wait_for_generation(&other, second);
    other.wait_until_ready();
    wait_for("word of Kafka", || {
        other.get("/healthz")["bus_error"].as_str().filter(|error| error.contains("does not answer")).map(|_| ())
    });

    fleet.redis.kill();
    drop(other);
    let again = follower(&fleet, "second");
    wait_for_generation(&again, second);
    assert_eq!(check(&mut again.client(), "k1").source, "fallback");
}

/// stand-alone: a fleet without Kafka gets its rules from Redis.
#[test]
fn a_fleet_without_kafka_is_published_to_through_redis() {
    let fleet = Fleet::start("no-kafka", FEW);
    let redis = fleet.redis.url();
    assert_eq!(publish(FEW, &["--redis", &redis]).0, 0);
    let agent = Member::start(["agent", "--redis", &redis, "--http", "127.0.0.1:0"].map(str::to_owned).to_vec());
    agent.wait_until_ready();
    wait_for_generation(&agent, 1);
    assert_eq!(check(&mut agent.client(), "k1").source, "store");
    assert_eq!(publish(MORE, &["--redis", &redis]).0, 0);
    wait_for_generation(&agent, 2);
}

/// F7: the files of a directory are one publication, whose problems name the file, and which can be published again.
#[test]
fn a_directory_is_published_as_one_generation() {
    let fleet = Fleet::start("published-parts", FEW);
    let redis = fleet.redis.url();
    let name = format!("parts-{}", std::process::id());
    let rule =
        |name: &str, settings: &str| format!("rules: [{{ name: {name}, per: [api_key], quota: 10/h{settings} }}]\n");
    let keys = ", keys: { sk_live_one: { quota: 20/h } }";
    file(&format!("{name}/a.yaml"), &format!("owner: Team A\n{}", rule("a", keys)));
    let folder = file(&format!("{name}/b.yaml"), &rule("b", "")).parent().expect("a folder").to_owned();
    let run = |args: &[&str]| finish(tollgate(args).args(["--redis", &redis]));
    let path = folder.to_str().expect("a path");
    let said = run(&["rules", "publish", path]);
    assert!(said.exit == 0 && said.out.ends_with(": published as generation 1\n"), "{}{}", said.out, said.err);
    let agent = Member::start(["agent", "--redis", &redis, "--http", "127.0.0.1:0"].map(str::to_owned).to_vec());
    wait_for_generation(&agent, 1);
    let told = agent.client().get("/explain", &[("x-api-key", "k")]).json();
    assert_eq!((&told["rules"][0]["owner"], &told["rules"][1]["rule"]), (&"Team A".into(), &"b".into()));
    let got = run(&["rules", "get"]);
    let expected =
        format!("--- # file: a.yaml\nowner: Team A\n{}--- # file: b.yaml\n{}", rule("a", keys), rule("b", ""));
    assert_eq!(got.out, expected);
    let again = file(&format!("{name}-again.yaml"), &got.out);
    let said = run(&["rules", "publish", again.to_str().expect("a path"), "--dry-run"]);
    assert_eq!((said.exit, said.out.contains("No difference to generation 1")), (0, true), "{}{}", said.out, said.err);
    let history = run(&["rules", "history", "--format", "json"]);
    assert!(history.out.contains(&format!("\"file\":\"{name}\"")), "{}", history.out);
    // The difference is of rules that the publisher may read.
    file(&format!("{name}/a.yaml"), &rule("a", &keys.replace("20/h", "30/h")));
    let said = run(&["rules", "publish", path, "--dry-run"]);
    assert!(said.exit == 3 && said.out.contains("key sk_live_one"), "{}{}", said.out, said.err);
    file(&format!("{name}/b.yaml"), &rule("a", ""));
    let said = run(&["rules", "publish", path]);
    let refusal = format!("{path}/b.yaml:1: a rule named `a` stands in {path}/a.yaml:1, too; rename one\n");
    assert_eq!((said.exit, said.err), (2, refusal));
}

/// Rules were published to Redis alone, and now they come from Kafka, whose generations begin anew: the first one there is above those
/// that agents have, and in force.
#[test]
fn the_first_rules_of_a_topic_follow_those_that_were_published_to_redis_alone() {
    let fleet = Fleet::start("newer-rules", FEW);
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    // More than the records of the partitions that processes write before the rules, one each.
    assert!((0..8).all(|_| publish(FEW, &["--redis", &redis]).0 == 0));
    let agent = follower(&fleet, "newer-before");
    wait_for_generation(&agent, 8);
    assert_eq!(publish(MORE, &["--kafka", &kafka]).0, 0);
    wait_for("the rules", || (agent.get("/healthz")["generation"].as_u64() > Some(8)).then_some(()));
    assert!(!check(&mut agent.client(), "sk_revoked_1").allowed, "by the rules of the topic");
}
