//! Agents that come, die and come back, over a Redis alone.

use tollgate_servers::{Redis, free_port};

use crate::fleet::{Member, alone};
use crate::support::{Client, file, wait_for};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";

/// An agent of this name, ready to be asked.
fn agent(redis: &Redis, node: &str) -> Member {
    let (url, rules) = (redis.url(), file("members.yaml", RULES).display().to_string());
    let http = format!("127.0.0.1:{}", free_port());
    let args = ["agent", "--redis", &url, "--rules", &rules, "--http", &http, "--node", node];
    let member = Member::start(args.map(str::to_owned).to_vec());
    member.wait_until_ready();
    member
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
