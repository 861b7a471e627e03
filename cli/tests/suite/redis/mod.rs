//! Agents and the Redis that they are given: addresses, TLS, logins, and Sentinel. Each fault names the server and a remedy, and the
//! remedy is tried.

mod addresses;
mod cluster;
mod deploy;
mod logins;
mod refused;
mod sentinel;
mod tls;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::{Up, file, tollgate, wait_for};

/// Time after which a test gives up on a line of a log.
const PATIENCE: Duration = Duration::from_mins(1);

/// Log of a running agent.
struct Log {
    lines: Receiver<String>,
    seen: String,
}

impl Log {
    /// Reads the log of an agent from its beginning.
    fn of(agent: &mut Up) -> Self {
        let (sender, lines) = channel();
        let log = agent.log();
        std::thread::spawn(move || log.into_iter().all(|line| sender.send(line).is_ok()));
        Self { lines, seen: String::new() }
    }

    /// Waits for the next line with this text.
    fn line(&mut self, text: &str) -> String {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen += &line;
            self.seen.push('\n');
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line of the log has {text}; it says:\n{}", self.seen);
    }

    /// Returns the lines up to the end of the agent.
    fn rest(self) -> Vec<String> {
        self.lines.into_iter().collect()
    }
}

/// Starts an agent that is not yet connected.
fn agent(redis: &str, flags: &[&str]) -> Up {
    let args = ["agent", "--http", "127.0.0.1:0", "--limit", "1000/min per api_key", "--redis", redis];
    Up::of(tollgate(&args).args(flags))
}

/// Waits until Redis decides calls.
fn wait_for_store(agent: &Up) {
    wait_for("decisions of Redis", || (source(agent) == "store").then_some(()));
}

/// Returns the deciding part of a call.
fn source(agent: &Up) -> String {
    agent.client().check("sk_a").json()["source"].as_str().expect("a source").to_owned()
}

/// Two rules that limit, and one in shadow; in a cluster, their counters lie on different primaries.
const RULES: &str = "
version: 1
rules:
  - { name: user, per: [user], quota: 40/1m, consistency: strict, deadline: 5s }
  - { name: route, per: [route], quota: 100000/1m, deadline: 5s }
  - { name: watched, per: [user, route], quota: 5/1m, shadow: true, deadline: 5s }
";

/// Starts an agent with the rules of a test.
fn fleet_agent(redis: &str, node: &str, test: &str, rules: &str) -> Up {
    fleet_agent_with(redis, node, test, rules, &[])
}

/// Starts an agent with the rules of a test and further flags.
fn fleet_agent_with(redis: &str, node: &str, test: &str, rules: &str, flags: &[&str]) -> Up {
    let rules = file(&format!("redis-{test}-{node}.yaml"), rules).display().to_string();
    let args = ["agent", "--http", "127.0.0.1:0", "--node", node, "--rules", &rules, "--redis", redis];
    Up::of(tollgate(&args).args(flags))
}

/// Checks a call of a user on a route; returns true if it is allowed, and its source.
fn check(agent: &Up, user: &str, route: &str, id: Option<&str>) -> (bool, String) {
    let mut body = serde_json::json!({ "descriptors": { "user": user, "route": route } });
    if let Some(id) = id {
        body["id"] = id.into();
    }
    let answer = agent.client().post(&body.to_string()).json();
    (answer["allowed"] == true, answer["source"].as_str().unwrap_or_default().to_owned())
}
