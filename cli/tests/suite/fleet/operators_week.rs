//! An operator's week with published rules: history, canary, override, deny list, rollback, and everything that goes wrong.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};

use super::fleet_of_processes::{Fleet, Member};
use crate::support::{file, finish, tollgate, wait_for};

const MONDAY: &str = "rules: [{ name: per-key, per: [api_key], quota: 10/h, consistency: strict, deadline: 5s }]";
const CANARY: &str = "rules:
  - { name: per-key, per: [api_key], quota: 10/h, consistency: strict, deadline: 5s }
  - { name: canary, per: [api_key], quota: 2/h, shadow: true, consistency: strict, deadline: 5s }";
const BROKEN: &str = "rules: [{ name: per-key, per: [api_key], quota: 0/h }]";

/// The flags by which the operator's commands reach the servers.
struct Operator(Vec<String>);

/// End of a command: its exit code, standard output and standard error.
struct Told {
    exit: i32,
    out: String,
    err: String,
}

impl Operator {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = tollgate(&["rules"]);
        command.args(args).args(&self.0);
        command
    }

    fn run(&self, args: &[&str]) -> Told {
        let said = finish(&mut self.command(args));
        Told { exit: said.exit, out: said.out, err: said.err }
    }

    /// Runs a command that publishes; returns the generation.
    fn publish(&self, args: &[&str]) -> u64 {
        let Told { exit, out, err } = self.run(args);
        assert_eq!(exit, 0, "{args:?}: {out}{err}");
        out.trim_end().rsplit(' ').next().and_then(|generation| generation.parse().ok()).expect("a generation")
    }

    fn json(&self, args: &[&str]) -> Value {
        let Told { out, err, .. } = self.run(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
    }

    fn generations(&self) -> Vec<u64> {
        let history = self.json(&["history"]);
        let publications = history["publications"].as_array().expect("publications");
        publications.iter().map(|one| one["generation"].as_u64().expect("a number")).collect()
    }
}

fn path(name: &str, text: &str) -> String {
    file(&format!("week-{name}.yaml"), text).display().to_string()
}

fn follower(fleet: &Fleet, node: &str) -> Member {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("state-week-{node}-{}", std::process::id()));
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let args = ["agent", "--node", node, "--kafka", &kafka, "--redis", &redis, "--http", "127.0.0.1:0", "--state-dir"];
    Member::start(args.iter().map(ToString::to_string).chain([folder.display().to_string()]).collect())
}

/// Returns the limit of the tightest rule for a key, and whether the call passed.
fn limit(agent: &Member, key: &str) -> (Option<u64>, bool) {
    let answer = agent.client().check(key);
    (answer.find("x-ratelimit-limit").and_then(|limit| limit.parse().ok()), answer.status == 200)
}

fn wait_for_generation(agents: &[&Member], generation: u64) {
    for agent in agents {
        wait_for("the rules", || (agent.get("/healthz")["generation"] == generation).then_some(()));
    }
}

/// F7, G1, G2, G4, G5, G9: publish, canary, override that ends, deny, rollback, a broken file, publishers at once, Kafka away, and
/// an agent that was offline for all of it.
#[test]
fn an_operators_week() {
    let mut fleet = Fleet::start("week", MONDAY);
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let operator = Operator(["--kafka", &kafka, "--redis", &redis].map(str::to_owned).to_vec());
    let (a, b) = (follower(&fleet, "a"), follower(&fleet, "b"));
    let agents = [&a, &b];

    let monday = path("monday", MONDAY);
    let first = operator.publish(&["publish", &monday, "--comment", "the first rules", "--author", "ann@desk"]);
    wait_for_generation(&agents, first);
    let mut offline = follower(&fleet, "offline");
    wait_for_generation(&[&offline], first);
    offline.kill();
    assert_eq!(limit(&a, "k1"), (Some(10), true));

    canary_by_shadow(&operator, &agents);
    override_that_ends(&operator, &agents);
    deny_and_allow(&operator, &agents);
    rollback(&operator, &agents, first);

    let before = operator.generations();
    let Told { exit, err, .. } = operator.run(&["publish", &path("broken", BROKEN)]);
    assert!(exit == 2 && err.contains("week-broken.yaml:1: a quota of 0"), "{exit} {err}");
    assert_eq!(operator.generations(), before, "a broken file changes nothing");

    publishers_at_once(&operator, &agents);
    let newest = operator.generations()[0];
    fleet.kafka.kill();
    let waited = Stopwatch::start();
    let Told { exit, err, .. } = operator.run(&["publish", &monday]);
    assert!(exit == 1 && err.contains("Kafka"), "{exit} {err}");
    assert!(waited.elapsed().as_secs() < 60, "{:?}", waited.elapsed());
    assert!(agents.iter().all(|agent| agent.get("/healthz")["generation"] == newest), "the rules stay in force");
    offline.restart();
    wait_for_generation(&[&offline], newest);
    assert_eq!(limit(&offline, "k-later"), (Some(10), true), "it comes back with the newest rules");
    assert!(!limit(&offline, "abuser").1, "and with the overrides");
    kafka_given_up(&fleet, &monday, &agents);
}

/// Rules in Redis that are a copy of those on Kafka are replaced only once the copy is declared the original.
fn kafka_given_up(fleet: &Fleet, rules: &str, agents: &[&Member; 2]) {
    let alone = Operator(["--redis", &fleet.redis.url()].map(str::to_owned).to_vec());
    let Told { exit, err, .. } = alone.run(&["publish", rules]);
    assert!(exit == 1 && err.contains("are a copy of generation"), "{exit} {err}");
    let remedy = err.split('`').nth(1).and_then(|command| command.strip_prefix("redis-cli ")).expect("a command");
    assert_eq!(fleet.redis.command(remedy), ":1", "{err}");
    wait_for_generation(agents, alone.publish(&["publish", rules]));
}

fn canary_by_shadow(operator: &Operator, agents: &[&Member; 2]) {
    let canary = path("canary", CANARY);
    let dry = operator.run(&["publish", &canary, "--dry-run"]);
    assert!(dry.exit == 3 && dry.out.contains("canary") && dry.out.contains("added"), "{} {}", dry.out, dry.err);
    let second = operator.publish(&["publish", &canary, "--comment", "canary of 2/h"]);
    wait_for_generation(agents, second);
    assert!((0..3).all(|_| limit(agents[0], "k2").1), "a rule in shadow denies nothing");
    assert_eq!(operator.run(&["publish", &canary, "--dry-run"]).exit, 0, "no difference");
    let status = operator.json(&["status"]);
    let heard = status["agents"].as_array().expect("agents").iter();
    assert_eq!(heard.map(|agent| &agent["state"]).collect::<Vec<_>>(), ["newest", "newest"], "{status}");
}

fn override_that_ends(operator: &Operator, agents: &[&Member; 2]) {
    let spent = limit(agents[0], "k3");
    assert_eq!(spent, (Some(10), true));
    let args = ["override", "api_key=k3", "x3", "--rule", "per-key", "--for", "10s", "--reason", "launch"];
    let generation = operator.publish(&args);
    let published = Stopwatch::start();
    wait_for_generation(agents, generation);
    let listed = operator.json(&["overrides"]);
    let until_ms = listed["overrides"][0]["until_ms"].as_u64().expect("an end");
    assert_eq!(listed["overrides"][0]["reason"], "launch");
    assert_eq!(limit(agents[1], "k3").0, Some(30), "at the other agent, too; after {:?}", published.elapsed());
    let body = r#"{"descriptors":{"api_key":"k3"}}"#;
    let mut client = agents[0].client();
    client.send("POST", "/explain", &[("content-type", "application/json")], body);
    let explained = client.receive().json();
    assert_eq!(explained["rules"][0]["end"]["reason"], "launch", "{explained}");
    for agent in agents {
        let ended = wait_for("the end of the override", || {
            let answer = agent.client().check("k3");
            let used = 10_u64.checked_sub(answer.find("x-ratelimit-remaining")?.parse().ok()?);
            (answer.find("x-ratelimit-limit") == Some("10")).then_some(used)
        });
        assert!(ended.is_some_and(|used| used >= 3), "the count is kept: {ended:?}");
        assert!(SystemClock::start().now().as_ms() >= until_ms, "not before its end");
    }
    assert_eq!(operator.json(&["overrides"])["overrides"].as_array().map(Vec::len), Some(0));
}

fn deny_and_allow(operator: &Operator, agents: &[&Member; 2]) {
    assert!(limit(agents[0], "abuser").1);
    let denied = operator.publish(&["deny", "api_key=abuser", "--for", "1d", "--reason", "scraping"]);
    wait_for_generation(agents, denied);
    assert!(agents.iter().all(|agent| !limit(agent, "abuser").1), "denied everywhere");
    let dry = operator.run(&["allow", "api_key=friend", "--for", "1d", "--dry-run"]);
    assert!(dry.exit == 3 && dry.err.contains("the allow list rests on `api_key` from the header"), "{}", dry.err);
    let allowed = operator.publish(&["allow", "api_key=friend", "--for", "1d"]);
    wait_for_generation(agents, allowed);
    let body = r#"{"descriptors":{"api_key":"friend"}}"#;
    let passes = || agents[0].client().post(body).status == 200;
    assert!((0..12).all(|_| passes()), "counted and never denied");
    let removed = operator.publish(&["allow", "api_key=friend", "--remove"]);
    wait_for_generation(agents, removed);
    assert!(!passes(), "what it used is counted");
    let Told { exit, err, .. } = operator.run(&["allow", "api_key=friend", "--remove"]);
    assert!(exit == 1 && err.contains("there is no lists.allow api_key=friend in force"), "{exit} {err}");
}

fn rollback(operator: &Operator, agents: &[&Member; 2], first: u64) {
    let Told { exit, err, .. } = operator.run(&["rollback", "999999"]);
    assert!(exit == 1 && err.contains("generation 999999 is not kept") && err.contains(&first.to_string()), "{err}");
    let generation = operator.publish(&["rollback", &first.to_string()]);
    wait_for_generation(agents, generation);
    assert_eq!(operator.run(&["get", &first.to_string()]).out.trim_end(), MONDAY);
    assert!(operator.run(&["get"]).out.starts_with(MONDAY), "the text of the first generation is in force");
    assert!(!limit(agents[1], "abuser").1, "overrides stay");
    let history = operator.json(&["history"]);
    let publications = history["publications"].as_array().expect("publications");
    assert_eq!(publications[0]["comment"], format!("rollback to generation {first}"));
    let oldest = publications.last().expect("a publication");
    assert_eq!((&oldest["comment"], &oldest["author"]), (&"the first rules".into(), &"ann@desk".into()));
}

/// Each publisher either replaces the rules that it saw, or says that others came first and changes nothing.
fn publishers_at_once(operator: &Operator, agents: &[&Member; 2]) {
    let before = operator.generations();
    let text = |number: usize| MONDAY.replace("10/h", &format!("10/h, cost: {}", number + 1));
    let start = |number: usize| -> Child {
        let path = path(&format!("at-once-{number}"), &text(number));
        let mut command = operator.command(&["publish", &path, "--comment", &format!("publisher {number}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let publishers: Vec<Child> = (0..4).map(start).collect();
    let mut taken = 0;
    for publisher in publishers {
        let output = publisher.wait_with_output().expect("an end");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => taken += 1,
            Some(1) => assert!(err.contains("other rules were published in the meantime"), "{err}"),
            code => panic!("{code:?} {err}"),
        }
    }
    let after = operator.generations();
    assert!(taken >= 1 && after.len() == before.len() + taken, "{before:?} {after:?}");
    wait_for_generation(agents, after[0]);
    let in_force = operator.run(&["get"]).out;
    assert!((0..4).any(|number| in_force.starts_with(&text(number))), "one whole file is in force: {in_force}");
    let monday = path("monday", MONDAY);
    wait_for_generation(agents, operator.publish(&["publish", &monday]));
}

/// F7: what the last bullet of the week tests on Kafka holds for a fleet that has Redis alone, too.
#[test]
fn a_fleet_without_kafka_has_the_same_history() {
    let redis = tollgate_servers::Redis::start();
    let operator = Operator(["--redis", &redis.url()].map(str::to_owned).to_vec());
    assert_eq!(operator.run(&["history"]).out.trim_end(), "No rules are published yet.");
    let Told { exit, err, .. } = operator.run(&["override", "api_key=k", "x2", "--for", "1h"]);
    assert!(exit == 1 && err.contains("tollgate rules publish FILE"), "{exit} {err}");
    let monday = path("redis-monday", MONDAY);
    assert_eq!(operator.publish(&["publish", &monday]), 1);
    assert_eq!(operator.publish(&["publish", &path("redis-canary", CANARY)]), 2);
    let Told { exit, err, .. } = operator.run(&["override", "api_key=k", "x2", "--for", "1h"]);
    assert!(
        exit == 2 && err.contains("several rules count by `api_key`: per-key, canary; name one with --rule"),
        "{err}"
    );
    let Told { exit, err, .. } = operator.run(&["override", "api_key=k", "x2", "--for", "1h", "--rule", "nobody"]);
    assert!(exit == 2 && err.contains("no rule `nobody` counts by `api_key` first"), "{err}");
    assert_eq!(operator.publish(&["override", "api_key=k", "x2", "--for", "1h", "--rule", "per-key"]), 3);
    assert_eq!(operator.publish(&["rollback", "1"]), 4);
    let listed = operator.run(&["overrides"]).out;
    assert!(listed.contains("per-key") && listed.contains("x2"), "{listed}");
    publishers_at_once(&operator, &[&follower_of(&redis), &follower_of(&redis)]);
}

/// G3, G7: a caller is moved to another tier by the rules, at once; who is in no tier is in the default one; and an override by a
/// factor is a multiple of the new tier's quota.
#[test]
fn an_override_by_a_factor_follows_the_caller_into_another_tier() {
    let redis = tollgate_servers::Redis::start();
    let operator = Operator(["--redis", &redis.url()].map(str::to_owned).to_vec());
    let of_tier = |tier: &str| {
        let text = "tiers: { free: { quota: 10/h }, pro: { quota: 100/h } }
descriptors:
  api_key: { header: x-api-key, verified: true }
  tier: { of: api_key, map: { k1: TIER }, default: free }
rules: [{ name: per-key, per: [api_key], quota: tier, deadline: 5s }]";
        path(&format!("tier-{tier}"), &text.replace("TIER", tier))
    };
    operator.publish(&["publish", &of_tier("free")]);
    let agent = follower_of(&redis);
    let published = |generation| wait_for_generation(&[&agent], generation);
    published(operator.publish(&["override", "api_key=k1", "x2", "--for", "1h"]));
    assert_eq!((limit(&agent, "k1").0, limit(&agent, "unknown").0), (Some(20), Some(10)));
    published(operator.publish(&["publish", &of_tier("pro")]));
    assert_eq!((limit(&agent, "k1").0, limit(&agent, "unknown").0), (Some(200), Some(10)));
    published(operator.publish(&["override", "tier=pro", "500/h", "--for", "1h"]));
    assert_eq!(limit(&agent, "k1").0, Some(200), "an override of the key comes before one of its tier");
    published(operator.publish(&["override", "api_key=k1", "--remove"]));
    assert_eq!(limit(&agent, "k1").0, Some(500));
    published(operator.publish(&["override", "tier=pro", "--remove"]));
    assert_eq!(limit(&agent, "k1").0, Some(100));
}

fn follower_of(redis: &tollgate_servers::Redis) -> Member {
    let member = Member::start(["agent", "--redis", &redis.url(), "--http", "127.0.0.1:0"].map(str::to_owned).to_vec());
    member.wait_until_ready();
    member
}
