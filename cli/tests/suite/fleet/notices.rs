//! Log lines of an agent whose servers fail: one per change, with its server or node and a remedy.

use serde_json::Value;
use tollgate_core::clock::Stopwatch;

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::wait_for;

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 50ms }
";
/// Fields of which each line about a failure has one: the log's reader must know who failed.
const SUBJECTS: [&str; 4] = ["node", "store", "brokers", "rule"];
/// Words of which each line about a failure has one, in its text or its remedy.
const REMEDIES: [&str; 6] = ["check", "start it", "raise", "give", "none:", "none if"];

/// Outages in a row; each is two changes.
const CHANGES: usize = 8;
/// Time after which a change of the same state is told again, in seconds.
const PERIOD_S: usize = 10;

struct Line {
    level: String,
    fields: Value,
}

impl Line {
    fn read(line: &str) -> Self {
        let fields: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { level: fields["level"].as_str().expect("a level").to_owned(), fields }
    }

    fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }
}

/// I8, N7: each change of Redis and Kafka is one line with its subject and a remedy, and a server that comes and goes
/// does not fill the log. Metrics show the same states.
#[test]
fn each_failure_is_one_line_with_a_remedy() {
    let mut fleet = Fleet::start("notices", RULES);
    let mut agent = fleet.agent_with("gw-1", &["--log-format", "json", "--agents-expected", "1"]);
    let mut client = agent.client();
    wait_until(&agent, "tollgate_bus_connected", 1);

    let began = Stopwatch::start();
    fleet.redis.kill();
    wait_for("the loss of Redis", || (check(&mut client, "sk_a").source != "store").then_some(()));
    wait_until(&agent, "tollgate_degraded", 1);
    fleet.redis.restart();
    wait_until(&agent, "tollgate_degraded", 0);

    // The store comes and goes.
    let flapped = Stopwatch::start();
    for _ in 0..CHANGES {
        fleet.redis.pause();
        wait_for("the loss of Redis", || {
            let _ = check(&mut client, "sk_b");
            (agent.metric("tollgate_degraded") == 1).then_some(())
        });
        fleet.redis.resume();
        wait_until(&agent, "tollgate_degraded", 0);
    }

    let seconds = |since: &Stopwatch| usize::try_from(since.elapsed().as_secs()).expect("a short test");
    let (periods, minutes) = (seconds(&flapped) / PERIOD_S, 1 + seconds(&began) / 60);
    fleet.kafka.kill();
    wait_until(&agent, "tollgate_bus_connected", 0);
    fleet.kafka.restart();
    wait_until(&agent, "tollgate_bus_connected", 1);
    let log = agent.stop();

    let lines: Vec<Line> = log.lines().map(Line::read).collect();
    let failures = || lines.iter().filter(|line| line.level != "INFO");
    for line in failures() {
        let told = [line.text("message"), line.text("remedy")].join(" ");
        assert!(SUBJECTS.iter().any(|subject| !line.text(subject).is_empty()), "who failed? {}", line.fields);
        assert!(REMEDIES.iter().any(|remedy| told.contains(remedy)), "no remedy: {}", line.fields);
        assert!(!log.contains("sk_"), "raw keys: {log}");
    }
    let count = |text: &str| lines.iter().filter(|line| line.text("message").contains(text)).count();
    assert_eq!(
        (count("the connection to Kafka is lost"), count("the connection to Kafka is restored")),
        (1, 1),
        "{log}"
    );
    // Late calls are denied until the breaker opens.
    let late = count("Redis answers later than the deadline");
    assert!((1..=minutes).contains(&late), "{late} of {minutes}: {log}");
    // Two lines for the loss and the return, and then two at the end of each period, of which a busy machine needs more.
    let (lost, found) = (count("signals decide, or each rule's on_failure"), count("the store answers again"));
    let most = 3 + periods;
    assert!((1..=most).contains(&lost) && (1..=most).contains(&found), "{lost} {found} of {most}: {log}");
    assert!(failures().count() <= 12 + periods, "{log}");
}

fn wait_until(agent: &Member, gauge: &str, value: u64) {
    wait_for(gauge, || (agent.metric(gauge) == value).then_some(()));
}
