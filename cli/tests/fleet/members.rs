//! Agents that join, die and return, with Redis only.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, free_port};

use crate::fleet::{Member, alone};
use crate::support::{Client, file, wait_for};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";
/// Time within which agents know the size of the fleet.
const KNOWN_WITHIN: Duration = Duration::from_secs(15);

/// Starts an agent of this name and waits until it is ready.
fn agent(redis: &Redis, node: &str) -> Member {
    let (url, rules) = (redis.url(), file("members.yaml", RULES).display().to_string());
    let http = format!("127.0.0.1:{}", free_port());
    let args = ["agent", "--redis", &url, "--rules", &rules, "--http", &http, "--node", node];
    let member = Member::start(args.map(str::to_owned).to_vec());
    member.wait_until_ready();
    member
}

/// Returns the time until an agent counts this number of agents.
fn counted_after(by: &Member, agents: u64) -> Duration {
    let since = Stopwatch::start();
    let counted = || by.get("/healthz")["agents"].as_u64();
    wait_for(&format!("{agents} agents"), || (counted() == Some(agents)).then(|| since.elapsed()))
}

/// E7: another agent counts a new agent, and stops counting a killed one within 15 s.
#[test]
fn agents_know_within_15_s_how_many_they_are() {
    let _alone = alone();
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
    let _alone = alone();
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
