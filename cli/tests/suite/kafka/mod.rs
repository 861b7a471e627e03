//! Agents and aggregators, and the Kafka that they are given: TLS, logins, rights, and several brokers. Each fault names the broker and
//! a remedy, and the remedy is tried.

mod cluster;
mod logins;
#[cfg(feature = "kafka-tls")]
mod rights;
#[cfg(feature = "kafka-tls")]
mod tls;

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use crate::support::{Up, file, tollgate};

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/min, consistency: eventual }]";
/// Time after which a test gives up on a fault.
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(20);

/// Starts an agent that is not yet connected.
fn agent(brokers: &str, flags: &[&str]) -> Up {
    Up::of(&mut agent_command(brokers, flags))
}

/// Starts agents side by side: each waits for its broker at its start.
fn agents(of: &[(&str, &[&str])]) -> Vec<Up> {
    std::thread::scope(|scope| {
        let starting: Vec<_> = of.iter().map(|(brokers, flags)| scope.spawn(|| agent(brokers, flags))).collect();
        starting.into_iter().map(|started| started.join().expect("an agent")).collect()
    })
}

/// Returns the command of an agent that counts over Kafka alone.
fn agent_command(brokers: &str, flags: &[&str]) -> Command {
    static FILE: LazyLock<String> = LazyLock::new(|| file("kafka-alone.yaml", RULES).display().to_string());
    let args = ["agent", "--http", "127.0.0.1:0", "--rules", &**FILE, "--kafka", brokers, "--kafka-partitions", "1"];
    let mut command = tollgate(&args);
    command.args(flags);
    command
}

/// Returns the fault of Kafka that an agent tells in `/healthz`, if it has one.
fn bus_error(agent: &Up) -> Option<String> {
    let health = agent.client().get("/healthz", &[]).json();
    health["bus_error"].as_str().map(str::to_owned)
}

/// Returns true if an agent publishes calls. An agent that has just started tells no fault either.
fn is_connected(agent: &Up) -> bool {
    bus_error(agent).is_none() && agent.client().get("/metrics", &[]).text().contains("tollgate_bus_connected 1")
}

/// Waits until an agent publishes calls.
fn wait_for_kafka(agent: &Up) {
    wait_until(agent, "connection to Kafka", |_| is_connected(agent).then_some(()));
}

/// Waits until an agent tells a fault with these parts, and returns its text.
fn wait_for_fault(agent: &Up, parts: &[&str]) -> String {
    let has_parts = |told: &String| parts.iter().all(|part| told.contains(part));
    wait_until(agent, &format!("{parts:?}"), |told| told.filter(has_parts))
}

/// Waits for a value by the fault that an agent tells.
fn wait_until<T>(agent: &Up, what: &str, look: impl Fn(Option<String>) -> Option<T>) -> T {
    let waited = Stopwatch::start();
    loop {
        let told = bus_error(agent);
        if let Some(found) = look(told.clone()) {
            return found;
        }
        assert!(waited.elapsed() < PATIENCE, "no {what}; the agent tells {told:?}");
        std::thread::sleep(GLANCE);
    }
}

/// Returns the number of rows that an aggregator has counted.
fn rows(aggregator: &Up) -> u64 {
    let metrics = aggregator.client().get("/metrics", &[]);
    let lines = metrics.text().lines().filter(|line| line.starts_with("tollgate_aggregator_rows_total"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
