//! Agents that come, die and come back, over a Redis alone.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Redis, free_port};

use crate::fleet::{Member, alone};
use crate::support::{Client, file, wait_for};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";
/// Within so long agents know how many they are.
const KNOWN_WITHIN: Duration = Duration::from_secs(15);

/// An agent of this name, ready to be asked.
fn agent(redis: &Redis, node: &str) -> Member {
    let (url, rules) = (redis.url(), file("members.yaml", RULES).display().to_string());
    let http = format!("127.0.0.1:{}", free_port());
    let args = ["agent", "--redis", &url, "--rules", &rules, "--http", &http, "--node", node];
    let member = Member::start(args.map(str::to_owned).to_vec());
    member.wait_until_ready();
    member
}

/// How long it takes until an agent counts so many.
fn counted_after(by: &Member, agents: u64) -> Duration {
    let since = Stopwatch::start();
    let counted = || by.get("/healthz")["agents"].as_u64();
    wait_for(&format!("{agents} agents"), || (counted() == Some(agents)).then(|| since.elapsed()))
}

/// E7: another agent counts one that comes, and one that was killed no more, within 15 s.
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

/// I11: an agent that was killed serves at once when it is started again: whoever first gets a connection is answered, and
/// by the store.
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
