//! A Redis that comes back without data: for a moment, and then it is gone again; or with a clock that is behind.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Kafka, Redis, free_port};

use super::fleet_of_processes::{Member, check};
use crate::support::{Client, file, finish, tollgate, wait_for};

const RULES: &str = "
defaults: { estimate: conservative, deadline: 50ms }
rules:
  - { name: hundred, match: { endpoint: /hundred }, per: [api_key], quota: 100/5m, consistency: strict }
  - { name: several, match: { endpoint: /several }, per: [api_key], quota: 300/5m }
";
/// Endpoints and quotas of the rules. No unit leaves its window during a test.
const QUOTAS: [(&str, u64); 2] = [("/hundred", 100), ("/several", 300)];
const NODES: [&str; 3] = ["gw-1", "gw-2", "gw-3"];
const EMPTY_FOR: Duration = Duration::from_millis(350);
/// Time for which the agents are asked afterwards: longer than that after which a silent agent is removed, 13 s.
const ASKED_FOR: Duration = Duration::from_secs(20);
/// Calls of a caller on each quota before Redis is gone, and in each round afterwards, and the time between two rounds.
const CALLS_BEFORE: usize = 60;
const CALLS_PER_ROUND: usize = 12;
const PAUSE: Duration = Duration::from_millis(50);

/// Units that a caller was admitted, by quota.
type Passed = [u64; QUOTAS.len()];

/// Rule of agents whose Redis comes back with another clock, its quota and window, and the time that a busy machine may add.
const CLOCK_RULES: &str =
    "rules: [{ name: per-key, per: [api_key], quota: 100/20s, consistency: strict, deadline: 1s }]";
const CLOCK_QUOTA: usize = 100;
const CLOCK_WINDOW: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(5);
/// Time by which the clock is behind: three windows.
const BEHIND_MS: i64 = 60_000;

/// Three agents that know each other, and what they have stated.
struct Three {
    redis: Redis,
    kafka: Option<Kafka>,
    agents: [Member; 3],
    clients: [Client; 3],
    /// Numbers of agents that any agent has stated.
    counted: BTreeSet<u64>,
    calls: usize,
}

impl Three {
    /// Starts agents over Redis, and over Kafka if there is one, and waits until each of them counts three.
    fn start(rules: &str, kafka: Option<Kafka>) -> Self {
        let redis = Redis::start();
        let agents = NODES.map(|node| agent(&redis, kafka.as_ref(), rules, node));
        agents.iter().for_each(Member::wait_until_ready);
        let is_complete = |agent: &Member| agent.get("/healthz")["agents"] == 3;
        wait_for("three agents", || agents.iter().all(is_complete).then_some(()));
        let clients = agents.each_ref().map(Member::client);
        Self { redis, kafka, agents, clients, counted: BTreeSet::new(), calls: 0 }
    }

    /// Sends calls of a key on each quota to the agents in turn, and adds those that pass.
    fn call(&mut self, key: &str, calls: usize, passed: &mut Passed) {
        for ((endpoint, _), passed) in QUOTAS.iter().zip(passed) {
            let body = format!(r#"{{"descriptors":{{"endpoint":"{endpoint}","api_key":"{key}"}}}}"#);
            for _ in 0..calls {
                self.calls += 1;
                *passed += u64::from(self.clients[self.calls % NODES.len()].post(&body).status == 200);
            }
        }
    }

    /// Notes the numbers that the first agents state.
    fn count(&mut self, agents: usize) {
        let agents = self.agents[..agents].iter();
        self.counted.extend(agents.map(|agent| agent.get("/healthz")["agents"].as_u64().expect("a number")));
    }

    /// Ends Redis, and waits until each agent knows it.
    fn lose_redis(&mut self) {
        self.redis.kill();
        let knows = |agent: &Member| agent.metric("tollgate_degraded") == 1;
        wait_for("the loss of Redis", || self.agents.iter().all(knows).then_some(()));
    }

    /// Starts Redis without data, and ends it 0.35 s after the first agents have found it; the others are suspended
    /// meanwhile.
    fn empty_redis(&mut self, found_by: usize, mut meanwhile: impl FnMut(&mut Self)) {
        self.agents[found_by..].iter().for_each(|agent| agent.signal("STOP"));
        self.redis.restart();
        let has_found = |redis: &Redis, node: &str| redis.command(&format!("ZSCORE tollgate:agents {node}")) != "$-1";
        let found = |redis: &Redis| NODES.iter().filter(|node| has_found(redis, node)).count();
        wait_for("agents to find it", || (found(&self.redis) == found_by).then_some(()));
        let since = Stopwatch::start();
        while since.elapsed() < EMPTY_FOR {
            meanwhile(self);
            self.count(found_by);
        }
        assert_eq!(found(&self.redis), found_by, "agents that have found it");
        self.redis.kill();
        self.agents[found_by..].iter().for_each(|agent| agent.signal("CONT"));
    }

    /// Lets callers call for longer than an agent stays a member without a sign of life.
    fn ask(&mut self, callers: &mut [(&str, Passed)]) {
        let asked = Stopwatch::start();
        while asked.elapsed() < ASKED_FOR {
            for (key, passed) in &mut *callers {
                self.call(key, CALLS_PER_ROUND, passed);
            }
            self.count(NODES.len());
            let round = Stopwatch::start();
            wait_for("the next round", || (round.elapsed() >= PAUSE).then_some(()));
        }
    }
}

fn agent(redis: &Redis, kafka: Option<&Kafka>, rules: &str, node: &str) -> Member {
    let http = format!("127.0.0.1:{}", free_port());
    let args = ["agent", "--redis", &redis.url(), "--rules", rules, "--http", &http, "--node", node];
    let bus = kafka.into_iter().flat_map(|kafka| ["--kafka".to_owned(), kafka.brokers()]);
    Member::start(args.map(str::to_owned).into_iter().chain(bus).collect())
}

/// Returns the bounds that `rules validate` prints for three agents without Redis and Kafka.
fn printed(rules: &str) -> Passed {
    let shown = finish(&mut tollgate(&["rules", "validate", rules, "--agents", "3", "--format", "json"])).out;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    std::array::from_fn(|rule| shown["rules"][rule]["outage"]["alone"].as_u64().expect("a bound"))
}

/// Ends Redis, and Kafka if there is one, and starts an empty Redis that the first agents find for a moment. Checks
/// that each agent counts three all the time, and the units of callers: one who has called before, one who calls only
/// afterwards, and one who calls all the time.
fn assert_fleet_remains(name: &str, found_by: usize, kafka: Option<Kafka>) {
    let rules = file(&format!("{name}.yaml"), RULES).display().to_string();
    let mut three = Three::start(&rules, kafka);
    let (mut before, mut always) = (Passed::default(), Passed::default());
    three.call("before", CALLS_BEFORE, &mut before);
    three.call("always", CALLS_BEFORE, &mut always);
    assert_eq!([before, always], [[CALLS_BEFORE as u64; 2]; 2], "Redis admits them");
    three.lose_redis();
    three.kafka.iter_mut().for_each(Kafka::kill);
    // An agent that is suspended cannot be asked.
    three.empty_redis(found_by, |three| {
        if found_by == NODES.len() {
            three.call("always", 1, &mut always);
        }
    });
    let mut callers = [("before", before), ("after", Passed::default()), ("always", always)];
    three.ask(&mut callers);

    let printed = printed(&rules);
    println!("{name}: {callers:?}, printed {printed:?}; numbers of agents: {:?}", three.counted);
    assert_eq!(three.counted, BTreeSet::from([3]), "{name}");
    for (key, passed) in callers {
        for (((endpoint, quota), printed), passed) in QUOTAS.iter().zip(printed).zip(passed) {
            let most = if key == "always" { printed } else { quota + quota / 20 };
            assert!((quota * 9 / 10..=most).contains(&passed), "{name}: {passed} of {quota} for {key} at {endpoint}");
        }
    }
}

/// I10: Redis is empty for 0.35 s and then gone. Agents that know each other from Redis alone remain three, whether all
/// of them or one has found it empty.
#[test]
fn agents_that_find_redis_empty_for_a_moment_remain_three() {
    for (name, found_by) in [("empty-for-all", 3), ("empty-for-one", 1)] {
        assert_fleet_remains(name, found_by, None);
    }
}

/// I10: the same after the end of Kafka, from which the agents knew each other, too.
#[test]
fn agents_that_lose_kafka_and_find_redis_empty_remain_three() {
    assert_fleet_remains("empty-without-kafka", 3, Some(Kafka::start()));
}

/// one-truth-of-time: Redis is killed and comes back empty, with a clock that is a minute behind. A caller whom both
/// agents deny on their own is admitted by Redis at both within a window, and not only when the clock has caught up.
/// Each agent counts one step and says so in one line.
#[test]
fn an_empty_redis_whose_clock_is_behind_locks_nobody_out() {
    let mut redis = Redis::start_with_clock();
    let rules = file("empty-and-behind.yaml", CLOCK_RULES).display().to_string();
    let mut agents = ["gw-1", "gw-2"].map(|node| agent(&redis, None, &rules, node));
    agents.iter().for_each(Member::wait_until_ready);
    let mut clients = agents.each_ref().map(Member::client);
    let passed = (0..CLOCK_QUOTA).filter(|call| check(&mut clients[call % 2], "k").allowed).count();
    assert_eq!(passed, CLOCK_QUOTA);
    for client in &mut clients {
        let denied = || Some(check(client, "k")).filter(|said| !said.allowed && said.source == "local");
        wait_for("a cached denial", denied);
    }
    redis.kill();
    redis.set_clock(-BEHIND_MS);
    redis.restart();
    let back = Stopwatch::start();
    for client in &mut clients {
        let admitted = || Some(check(client, "k")).filter(|said| said.allowed && said.source == "store");
        wait_for("an admission", admitted);
        println!("admitted {:?} after the return", back.elapsed());
        assert!(back.elapsed() < CLOCK_WINDOW + PATIENCE, "locked out for {:?}", back.elapsed());
    }
    for agent in &mut agents {
        assert_eq!(agent.metric("tollgate_store_clock_steps_total"), 1);
        let log = agent.stop();
        assert_eq!(log.matches("the store's clock stepped back by").count(), 1, "{log}");
        assert!(log.contains("check the time service of the store's host"), "{log}");
    }
}
