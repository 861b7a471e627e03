//! Agents that join, die and return, with Redis only; and a fleet that loses every sign of life of its members.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, free_port};

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::{Client, Up, file, tollgate, wait_for};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";
/// Time within which agents know the size of the fleet.
const KNOWN_WITHIN: Duration = Duration::from_secs(15);
/// Time between the end of Redis and that of Kafka, as seen in an outage that began with both.
const BETWEEN: Duration = Duration::from_secs(8);
/// Time without both: several times that after which a silent agent is removed, and less than a window.
const AWAY: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(50);

/// Starts an agent of this name and waits until it is ready.
fn agent(redis: &Redis, node: &str) -> Member {
    let (url, rules) = (redis.url(), file("members.yaml", RULES).display().to_string());
    let http = format!("127.0.0.1:{}", free_port());
    let args = ["agent", "--redis", &url, "--rules", &rules, "--http", &http, "--node", node];
    let member = Member::start(args.map(str::to_owned).to_vec());
    member.wait_until_ready();
    member
}

fn counted_after(by: &Member, agents: u64) -> Duration {
    let since = Stopwatch::start();
    let counted = || by.get("/healthz")["agents"].as_u64();
    wait_for(&format!("{agents} agents"), || (counted() == Some(agents)).then(|| since.elapsed()))
}

/// E7: another agent counts a new agent, and stops counting a killed one within 15 s.
#[test]
fn agents_know_within_15_s_how_many_they_are() {
    let redis = Redis::start();
    let first = agent(&redis, "gw-1");
    let alone = counted_after(&first, 1);
    let mut second = agent(&redis, "gw-2");
    let came = counted_after(&first, 2);
    second.kill();
    let died = counted_after(&first, 1);
    println!(
        "the number was right {alone:?} after the first came, {came:?} after the second, {died:?} after it was killed"
    );
    assert!(alone.max(came) <= KNOWN_WITHIN, "{alone:?} and {came:?} after one came");
    assert!(died <= KNOWN_WITHIN, "{died:?} after one was killed");
}

/// I11: a killed agent serves immediately after its restart: the first connection is answered, by the store.
#[test]
fn an_agent_that_was_killed_serves_at_once_when_it_is_back() {
    let redis = Redis::start();
    let mut agent = agent(&redis, "gw-1");
    assert_eq!(agent.client().check("k1").json()["remaining"], 999);
    for left in [998, 997, 996] {
        let address = agent.address();
        agent.kill();
        let answer = std::thread::scope(|scope| {
            let first = scope.spawn(|| wait_for("a connection", || Client::connect(address)).check("k1"));
            agent.restart();
            first.join().expect("it is answered")
        });
        let said = answer.json();
        assert_eq!(
            (answer.status, &said["source"], &said["remaining"]),
            (200, &"store".into(), &left.into()),
            "{said}"
        );
    }
}

/// I10: Redis is killed, and Kafka 8 s later. Three agents remain three as long as both are away, and together admit
/// the quota.
#[test]
fn three_agents_that_lose_redis_and_then_kafka_remain_three() {
    let rules = "rules: [{ name: per-key, per: [api_key], quota: 100/min, deadline: 50ms }]";
    let mut fleet = Fleet::start("frozen", rules);
    let aggregator = fleet.aggregator("counting");
    let agents = ["gw-1", "gw-2", "gw-3"].map(|node| fleet.agent(node));
    aggregator.wait_until_ready();
    for agent in &agents {
        counted_after(agent, 3);
    }
    let mut clients = agents.each_ref().map(Member::client);
    let passed = |since: Stopwatch, time| wait_for("time", || (since.elapsed() >= time).then_some(()));

    fleet.redis.kill();
    passed(Stopwatch::start(), BETWEEN);
    fleet.kafka.kill();
    let (away, mut admitted, mut counted) = (Stopwatch::start(), [0; 3], BTreeSet::new());
    while away.elapsed() < AWAY {
        for (client, admitted) in clients.iter_mut().zip(&mut admitted) {
            *admitted += u32::from(check(client, "k").allowed);
        }
        counted.extend(agents.iter().filter_map(|agent| agent.get("/healthz")["agents"].as_u64()));
        passed(Stopwatch::start(), PAUSE);
    }
    println!("admitted by each agent: {admitted:?}; numbers of agents: {counted:?}");
    let sum: u32 = admitted.iter().sum();
    assert!((90..=105).contains(&sum), "{admitted:?} of 100");
    assert_eq!(counted, BTreeSet::from([3]));
    assert!(agents.iter().all(|agent| agent.metric("tollgate_fleet_frozen") == 1));
}

/// I10: two agents of one name count as one, so both say that they need names of their own. No Kafka is needed.
#[test]
fn agents_of_one_name_warn_of_each_other() {
    let redis = Redis::start();
    let start = || {
        let args = ["agent", "--http", "127.0.0.1:0", "--node", "twin", "--limit", "5/s per api_key"];
        Up::of(tollgate(&args).env("TOLLGATE_REDIS", redis.url()))
    };
    let mut agents = [start(), start()];
    for agent in &mut agents {
        let line = agent.log().find(|line| line.contains("has the same name")).expect("a warning");
        assert!(line.contains("a --node of its own") && line.contains("node=twin"), "{line}");
    }
}
