//! Topics of analytics that this user may not use: the log names them with a remedy that works, and the rest goes on.

use std::time::Duration;

use tollgate_bus::Bus;
use tollgate_bus::kafka::{KafkaBus, KafkaSettings, TopicSet};
use tollgate_servers::{Kafka, Redis};

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::{file, wait_for};

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 3/min, deadline: 1s }
";
const PREPARE_WAIT: Duration = Duration::from_secs(2);
/// Whatever no rule forbids is allowed, so that the test needs no users.
const WITH_ACLS: &str = "
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:admin
";

/// Forbids everything on a topic, or allows it again.
fn acl(kafka: &Kafka, change: &str, topic: &str) {
    kafka.run(&format!(
        "kafka-acls.sh --bootstrap-server {} {change} --force --deny-principal User:ANONYMOUS --operation All --topic {topic}",
        kafka.brokers()
    ));
}

/// L4: agents limit and aggregators count while `rollups`, `live` and `decisions` are denied, and each says what is missing.
#[test]
fn limits_go_on_while_topics_of_analytics_are_denied() {
    let rules = file("denied-topics.yaml", RULES);
    let fleet = Fleet { redis: Redis::start(), kafka: Kafka::start_with("PLAINTEXT", WITH_ACLS), rules };
    for topic in ["rollups", "live", "decisions"] {
        acl(&fleet.kafka, "--add", topic);
    }
    for topics in [TopicSet::Analytics, TopicSet::Decisions] {
        let bus = KafkaBus::new(KafkaSettings::new(&fleet.kafka.brokers()).carrying(topics)).expect("settings");
        wait_for("the denial", || bus.prepare(PREPARE_WAIT).is_err_and(|error| !error.is_transient()).then_some(()));
    }
    let mut agent = fleet.agent_with("gw-1", &["--decision-log", "kafka"]);
    let mut aggregator = fleet.aggregator("agg-1");
    aggregator.wait_until_ready();
    let mut client = agent.client();
    let answers: Vec<_> = (0..5).map(|_| check(&mut client, "k1")).collect();
    assert_eq!(answers.iter().filter(|said| said.allowed).count(), 3, "{answers:?}");
    wait_for("the counts", || (aggregator.metric("tollgate_aggregator_rows_total") >= 5).then_some(()));

    let line = |member: &mut Member, what: &str| member.log().find(|line| line.contains(what)).expect("a line");
    let told = line(&mut aggregator, "the page and its API lack calls; counts and limits go on");
    assert!(told.contains("`rollups`, `live`") && told.contains("kafka-acls.sh"), "{told}");
    let told = line(&mut agent, "lines wait for the topic `decisions`");
    assert!(told.contains("the topics `decisions`") && told.contains("kafka-acls.sh"), "{told}");
    assert_eq!(agent.get("/healthz")["bus_error"], serde_json::Value::Null);
    let problems = aggregator.get("/api/v1/status")["problems"].clone();
    assert_eq!((&problems[0]["part"], problems.as_array().map(Vec::len)), (&"analytics".into(), Some(1)), "{problems}");

    for topic in ["rollups", "live", "decisions"] {
        acl(&fleet.kafka, "--remove", topic);
    }
    wait_for("the page", || {
        aggregator.get("/api/v1/status")["problems"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
    wait_for("a call on the page", || {
        check(&mut client, "k2");
        let callers = aggregator.get("/api/v1/callers?minutes=5");
        callers["callers"].as_array().is_some_and(|callers| !callers.is_empty()).then_some(())
    });
}
