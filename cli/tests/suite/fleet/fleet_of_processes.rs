//! Fleet under test: servers, processes, and requests to them.
//!
//! Most rules of these tests have a deadline of a second, which a busy machine keeps: so a call is decided without the
//! store only if a test wants it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Kafka, Redis, free_port};

use super::log::Units;
use crate::support::{Client, Up, file, tollgate, wait_for};

/// Servers, and the rules that all agents enforce.
pub(crate) struct Fleet {
    pub(crate) redis: Redis,
    pub(crate) kafka: Kafka,
    pub(crate) rules: PathBuf,
}

/// Process that can be killed and restarted at the same address.
pub(crate) struct Member {
    args: Vec<String>,
    up: Option<Up>,
}

impl Fleet {
    /// `rules` is the text of a rules file.
    pub(crate) fn start(name: &str, rules: &str) -> Self {
        Self::start_over(Redis::start, name, rules)
    }

    pub(crate) fn start_over(redis: fn() -> Redis, name: &str, rules: &str) -> Self {
        let rules = file(&format!("{name}.yaml"), rules);
        Self { redis: redis(), kafka: Kafka::start(), rules }
    }

    /// Starts an agent of this name and waits until it is ready.
    pub(crate) fn agent(&self, node: &str) -> Member {
        self.agent_with(node, &[])
    }

    /// Starts an agent with further arguments and waits until it is ready.
    pub(crate) fn agent_with(&self, node: &str, more: &[&str]) -> Member {
        let member = self.member("agent", node, &[&["--redis", &*self.redis.url()], more].concat());
        member.wait_until_ready();
        member
    }

    /// Starts an agent of this name that knows no Redis, and waits until it is ready.
    pub(crate) fn agent_without_redis(&self, node: &str) -> Member {
        let member = self.member("agent", node, &[]);
        member.wait_until_ready();
        member
    }

    pub(crate) fn aggregator(&self, node: &str) -> Member {
        self.member("aggregator", node, &[])
    }

    fn member(&self, command: &str, node: &str, more: &[&str]) -> Member {
        let http = format!("127.0.0.1:{}", free_port());
        let (kafka, rules) = (self.kafka.brokers(), self.rules.display().to_string());
        let args = [command, "--kafka", &kafka, "--rules", &rules, "--http", &http, "--node", node];
        Member::start(args.iter().chain(more).map(ToString::to_string).collect())
    }
}

impl Member {
    pub(crate) fn start(args: Vec<String>) -> Self {
        let mut member = Self { args, up: None };
        member.restart();
        member
    }

    /// Restarts the process at its address.
    pub(crate) fn restart(&mut self) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.up = Some(Up::of(&mut tollgate(&args)));
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.up = None;
    }

    /// Sends SIGTERM, waits for the end of the process, and returns its output.
    pub(crate) fn stop(&mut self) -> String {
        let up = self.up.take().expect("it runs");
        up.signal("TERM");
        up.end().1
    }

    pub(crate) fn client(&self) -> Client {
        self.up.as_ref().expect("it runs").client()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.client().get(path, &[]).json()
    }

    /// Returns the lines of the log as they come, to be read once.
    pub(crate) fn log(&mut self) -> impl Iterator<Item = String> + use<> {
        self.up.as_mut().expect("it runs").log()
    }

    pub(crate) fn signal(&self, name: &str) {
        self.up.as_ref().expect("it runs").signal(name);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.up.as_ref().expect("it runs").address
    }

    /// Returns the counters of the whole fleet by id, as this aggregator shows them.
    pub(crate) fn counters(&self) -> HashMap<String, Units> {
        let shown = self.get("/counters?limit=100000");
        assert_eq!(shown["unanswered"].as_array().map(Vec::len), Some(0), "{}", shown["unanswered"]);
        let units = |counter: &Value, name: &str| counter[name].as_u64().expect("units");
        let id = |counter: &Value| counter["id"].as_str().expect("an id").to_owned();
        let counters = shown["counters"].as_array().expect("counters").iter();
        counters
            .map(|counter| {
                (id(counter), Units { admitted: units(counter, "admitted"), denied: units(counter, "denied") })
            })
            .collect()
    }

    /// Returns the partitions of an aggregator, with the offset that it will read next in each.
    fn own(&self) -> Vec<(u64, u64)> {
        let health = self.get("/healthz");
        let partitions = health["partitions"].as_array().expect("partitions").iter();
        let own = partitions.filter(|part| part["owned"] == true && part["restored"] == true);
        own.map(|part| {
            (part["partition"].as_u64().expect("a number"), part["read"].as_u64().map_or(0, |read| read + 1))
        })
        .collect()
    }

    pub(crate) fn own_partitions(&self) -> Vec<u64> {
        self.own().into_iter().map(|(partition, _)| partition).collect()
    }

    pub(crate) fn wait_until_ready(&self) {
        wait_for("readiness", || (self.client().get("/readyz", &[]).status == 200).then_some(()));
    }

    /// Returns the value of the series of a metric with this label, such as `topic="calls"`. Every series exists from
    /// the start.
    pub(crate) fn series(&self, name: &str, label: &str) -> u64 {
        let metrics = self.client().get("/metrics", &[]);
        let is_series = |line: &&str| line.split('{').next() == Some(name) && line.contains(label);
        let value = metrics.text().lines().find(is_series).and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} with {label}"))
    }

    /// Returns the sum of the metric lines that begin with this text.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = self.client().get("/metrics", &[]);
        let lines = metrics.text().lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

/// Returns true if each partition has one owner that has read it up to the end of the log.
pub(crate) fn have_read_all(aggregators: &[Member], ends: &[u64]) -> bool {
    let mut own: Vec<(u64, u64)> = aggregators.iter().flat_map(Member::own).collect();
    own.sort_unstable();
    own.len() == ends.len() && (0..).zip(ends).zip(own).all(|((number, end), part)| part.0 == number && part.1 >= *end)
}

/// Decision as the body of an answer states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) allowed: bool,
    pub(crate) source: String,
    /// 0 if the answer does not tell it.
    pub(crate) remaining: u64,
}

/// Asks an agent for one unit of a key.
pub(crate) fn check(client: &mut Client, key: &str) -> Said {
    let body = client.check(key).json();
    Said {
        allowed: body["allowed"].as_bool().expect("a decision"),
        source: body["source"].as_str().expect("a source").to_owned(),
        remaining: body["remaining"].as_u64().unwrap_or_default(),
    }
}

/// Returns the largest delay of a bare timer while `work` runs.
pub(crate) fn while_timing<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let timer = scope.spawn(|| {
            let mut latest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let (nap, since) = (Duration::from_millis(1), Stopwatch::start());
                std::thread::sleep(nap);
                latest = latest.max(since.elapsed().saturating_sub(nap));
            }
            latest
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, timer.join().expect("a timer"))
    })
}
