//! `on_failure` of three agents while Redis is down, with signals and without.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use super::fleet_of_processes::{Fleet, Member};
use crate::support::{Client, wait_for};

const RULES: &str = "
degraded_remaining: -1
defaults: { estimate: conservative, deadline: 1s }
rules:
  - { name: few, match: { endpoint: /few }, per: [api_key], quota: 10/min }
  - { name: share, match: { endpoint: /share }, per: [api_key], quota: 60/min, on_failure: share }
  - { name: open, match: { endpoint: /open }, per: [api_key], quota: 60/min, on_failure: open }
  - { name: closed, match: { endpoint: /closed }, per: [api_key], quota: 60/min, on_failure: closed }
  - { name: limit, match: { endpoint: /limit }, per: [api_key], quota: 60/min, on_failure: limit 12/min }
";
/// Units of each key of `/share` and so on that the store admits before the outage, in turn at the agents.
const BEFORE: usize = 30;
const APART: Duration = Duration::from_millis(400);

/// Three agents, and a connection to each.
struct Three {
    fleet: Fleet,
    aggregator: Member,
    agents: [Member; 3],
    clients: [Client; 3],
}

impl Three {
    fn start(name: &str) -> Self {
        let fleet = Fleet::start(name, RULES);
        let aggregator = fleet.aggregator("counting");
        let agents = ["gw-1", "gw-2", "gw-3"].map(|node| fleet.agent(node));
        aggregator.wait_until_ready();
        for agent in &agents {
            wait_for("three agents", || (agent.get("/healthz")["agents"] == 3).then_some(()));
        }
        let clients = agents.each_ref().map(Member::client);
        Self { fleet, aggregator, agents, clients }
    }

    /// Asks an agent; returns true if the call passes, and the source.
    fn ask(&mut self, agent: usize, endpoint: &str, key: &str) -> (bool, String) {
        let body = format!(r#"{{"descriptors":{{"endpoint":"{endpoint}","api_key":"{key}"}}}}"#);
        let answer = self.clients[agent].post(&body);
        let body = answer.json();
        let source = body["source"].as_str().expect("a source").to_owned();
        let is_degraded = source == "signal" || source == "fallback";
        assert_eq!(answer.find("x-ratelimit-policy"), is_degraded.then_some("degraded"), "H4");
        assert_eq!(answer.header("x-ratelimit-remaining") == "-1", is_degraded, "H4");
        assert!([200, 429].contains(&answer.status), "I1: {}", answer.status);
        (answer.status == 200, source)
    }

    /// Asks agents in turn, a while apart; returns the number of calls that pass.
    fn calls(&mut self, agents: &[usize], endpoint: &str, key: &str, calls: usize, apart: Duration) -> usize {
        let mut passed = 0;
        for agent in agents.iter().cycle().take(calls) {
            passed += usize::from(self.ask(*agent, endpoint, key).0);
            let since = Stopwatch::start();
            wait_for("the next call", || (since.elapsed() >= apart).then_some(()));
        }
        passed
    }

    /// Ends Redis, and waits until each agent knows that a counter without a signal is unused: an equal part of ten is
    /// three.
    fn lose_redis(&mut self) {
        let signalled = "the signals of all calls";
        let made: u64 = self.agents.iter().map(|agent| agent.metric("tollgate_decisions_total")).sum();
        wait_for(signalled, || (self.aggregator.metric("tollgate_aggregator_rows_total") >= made).then_some(()));
        self.fleet.redis.kill();
        for agent in 0..3 {
            let mut probe = 0;
            wait_for("a threshold of zero", || {
                probe += 1;
                let key = format!("probe-{agent}-{probe}");
                let passed = (0..4).filter(|_| self.ask(agent, "/few", &key) == (true, "signal".to_owned())).count();
                (passed >= 3).then_some(())
            });
        }
    }
}

/// I3: of 10/min, a caller who was served in the last window has nearly all while Redis is down, at one agent or spread, and
/// most of it in a burst; a new caller has an equal part in a burst.
#[test]
fn a_known_caller_keeps_its_quota_while_redis_is_down() {
    let mut three = Three::start("known-caller");
    for key in ["one", "spread", "burst"] {
        assert_eq!(three.ask(0, "/few", key), (true, "store".to_owned()));
    }
    three.lose_redis();
    for (key, agents) in [("one", &[0][..]), ("spread", &[0, 1, 2])] {
        let passed = 1 + three.calls(agents, "/few", key, 12, APART);
        println!("{key}: {passed} of 10");
        assert!((9..=11).contains(&passed), "{key}: {passed}");
    }
    // Signals that arrive during the burst admit more.
    let burst = three.calls(&[0], "/few", "burst", 12, Duration::ZERO);
    let new = three.calls(&[1], "/few", "new", 12, Duration::ZERO);
    println!("in a burst: {burst} of a known caller, {new} of a new one");
    assert!((6..=10).contains(&burst) && (3..=11).contains(&new), "{burst} {new}");
}

/// I1, I3, I4, H4: the table of `on_failure` with signals, then without Kafka, then after the return of Redis.
#[test]
fn on_failure_decides_with_signals_and_without_kafka() {
    let mut three = Three::start("on-failure");
    for endpoint in ["/share", "/open", "/closed", "/limit"] {
        for key in ["signals", "alone"] {
            assert_eq!(three.calls(&[0, 1, 2], endpoint, key, BEFORE, Duration::ZERO), BEFORE, "{endpoint}");
        }
    }
    three.lose_redis();
    let passed = |three: &mut Three, key: &str| {
        ["/share", "/open", "/closed", "/limit"].map(|endpoint| three.calls(&[0, 1, 2], endpoint, key, 90, APART / 20))
    };
    let [share, open, closed, limit] = passed(&mut three, "signals");
    println!("with signals: share {share}, open {open}, closed {closed}, limit {limit}");
    assert!((28..=36).contains(&share), "{share} of 30 that are free, and calls of the lag of signals");
    // Without signals, all 90 pass.
    assert!((30..=60).contains(&open), "{open}: all that are free, and calls of the lag of signals");
    assert_eq!((closed, limit), (0, 6), "10 of 12 were used at each agent");

    three.fleet.kafka.kill();
    let gone = Stopwatch::start();
    wait_for("3 s without Kafka", || (gone.elapsed() > Duration::from_secs(3)).then_some(()));
    let [share, open, closed, limit] = passed(&mut three, "alone");
    println!("alone: share {share}, open {open}, closed {closed}, limit {limit}");
    assert!((24..=30).contains(&share), "{share} of 30 that are free");
    assert_eq!((open, closed, limit), (90, 0, 6));

    three.fleet.redis.restart();
    for agent in 0..3 {
        wait_for("the store", || (three.ask(agent, "/few", "after").1 == "store").then_some(()));
    }
}
