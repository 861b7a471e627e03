//! Publications after Redis or the topic `rules` has lost those before: running agents follow them.

use std::path::PathBuf;

use super::fleet_of_processes::{Fleet, Member};
use crate::support::{file, finish, tollgate, wait_for};

fn rules(quota: u64) -> String {
    format!("rules: [{{ name: per-key, per: [api_key], quota: {quota}/h, consistency: eventual }}]")
}

/// Starts an agent that follows the published rules.
fn follower(name: &str, servers: &[&str]) -> Member {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{name}-{}", std::process::id()));
    let folder = folder.display().to_string();
    let args = [&["agent", "--node", name, "--http", "127.0.0.1:0", "--state-dir", &folder], servers].concat();
    Member::start(args.into_iter().map(str::to_owned).collect())
}

/// Publishes rules with this quota; returns their generation.
fn publish(servers: &[&str], quota: u64) -> u64 {
    let path = file(&format!("lost-publications-{quota}.yaml"), &rules(quota)).display().to_string();
    let said = finish(tollgate(&["rules", "publish", &path]).args(servers));
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    said.out.trim_end().rsplit(' ').next().and_then(|generation| generation.parse().ok()).expect("a generation")
}

fn wait_for_quota(agent: &Member, quota: u64) {
    let quota = quota.to_string();
    wait_for(&format!("the rules with {quota}/h"), || {
        (agent.client().check("k").find("x-ratelimit-limit") == Some(&*quota)).then_some(())
    });
}

/// F7: the generations of a fleet on Redis alone go on after a loss of its data.
#[test]
fn agents_follow_publications_after_redis_has_lost_those_before() {
    let redis = tollgate_servers::Redis::start();
    let url = redis.url();
    let servers = ["--redis", &*url];
    let agent = follower("lost-redis", &servers);
    let before = (10..13).map(|quota| publish(&servers, quota)).max().expect("generations");
    wait_for_quota(&agent, 12);
    assert_eq!(redis.command("FLUSHALL"), "+OK");
    wait_for("an announcement", || (redis.command("EXISTS tollgate:agents") == ":1").then_some(()));
    assert!(publish(&servers, 20) > before);
    wait_for_quota(&agent, 20);
}

/// F7: so do those on Kafka after the topic was made anew, with and without Redis.
#[test]
fn agents_follow_publications_after_the_topic_was_made_anew() {
    let fleet = Fleet::start("lost-topic", &rules(10));
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let (alone, both) = (["--kafka", &*kafka], ["--kafka", &*kafka, "--redis", &*redis]);
    let agents = [follower("lost-topic-alone", &alone), follower("lost-topic-both", &both)];
    let before = (11..14).map(|quota| publish(&both, quota)).max().expect("generations");
    for agent in &agents {
        wait_for_quota(agent, 13);
    }
    fleet.kafka.run(&format!("kafka-topics.sh --bootstrap-server {kafka} --delete --topic rules"));
    assert!(publish(&alone, 21) > before);
    for agent in &agents {
        wait_for_quota(agent, 21);
    }
    publish(&both, 22);
    for agent in &agents {
        wait_for_quota(agent, 22);
    }
}

/// G5: overrides, and an agent that was away, go on after the topic was made anew.
#[test]
fn overrides_stay_and_an_agent_that_was_away_is_overtaken_after_the_topic_was_made_anew() {
    let fleet = Fleet::start("lost-overrides", &rules(10));
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let (alone, both) = (["--kafka", &*kafka], ["--kafka", &*kafka, "--redis", &*redis]);
    let run = |args: &[&str], servers: &[&str]| {
        let said = finish(tollgate(args).args(servers));
        assert_eq!(said.exit, 0, "{args:?}: {}{}", said.out, said.err);
        said.out
    };
    let away = follower("lost-overrides-away", &alone);
    for quota in 31..37 {
        publish(&both, quota);
    }
    run(&["rules", "deny", "api_key=leaked", "--for", "1h"], &both);
    wait_for_quota(&away, 36);
    drop(away);
    fleet.kafka.run(&format!("kafka-topics.sh --bootstrap-server {kafka} --delete --topic rules"));
    assert!(run(&["rules", "overrides"], &both).contains("api_key=leaked"), "Redis still has it");
    publish(&both, 41);
    assert!(run(&["rules", "overrides"], &alone).contains("api_key=leaked"), "it is published again");

    // The same without the copy in Redis: a topic that begins anew while its agents are away.
    fleet.kafka.run(&format!("kafka-topics.sh --bootstrap-server {kafka} --delete --topic rules"));
    let first = publish(&alone, 51);
    let away = follower("lost-overrides-away", &alone);
    wait_for("its old rules", || (away.get("/healthz")["generation"].as_u64() > Some(first)).then_some(()));
    let status = wait_for("its heartbeat", || {
        let said = finish(tollgate(&["rules", "status"]).args(alone));
        said.out.contains("ahead").then_some(said)
    });
    assert!(status.exit == 1 && status.out.contains("publish again"), "{}", status.out);
    publish(&alone, 52);
    wait_for_quota(&away, 52);
}
