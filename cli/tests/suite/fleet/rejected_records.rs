//! Topics that reject every record although they look as they should, and processes that say so.

use serde_json::Value;

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::wait_for;

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";
/// Settings under which a topic rejects each record of Tollgate.
const FAULTS: [&str; 2] = ["cleanup.policy=compact", "max.message.bytes=20"];

/// Returns why Kafka is a problem of a process, by its `/healthz`; nothing while the process has no problem.
fn problem(member: &Member) -> Option<String> {
    let health = member.get("/healthz");
    let why = health["problems"].as_array().expect("problems").iter().find(|problem| problem["part"] == "kafka");
    let why = why.map(|problem| problem["why"].as_str().expect("a reason").to_owned());
    let (status, told) = if why.is_some() { ("degraded", why.as_deref().into()) } else { ("ok", Value::Null) };
    assert_eq!((health["status"].as_str(), &health["bus_error"]), (Some(status), &told));
    why
}

/// Lets a topic reject records until a process says so, and runs the command that it prints. `act` makes it write.
fn fail_and_repair(fleet: &Fleet, topic: &str, connected: &str, member: &mut Member, act: impl Fn()) {
    let mut log = member.log();
    // A connection without a first request is closed after 10 s, which Kafka's command may take.
    act();
    for fault in FAULTS {
        wait_for("the bus", || (member.metric(connected) == 1 && problem(member).is_none()).then_some(()));
        fleet.kafka.run(&format!(
            "kafka-configs.sh --bootstrap-server {} --entity-type topics --entity-name {topic} --alter --add-config {fault}",
            fleet.kafka.brokers()
        ));
        let reason = format!("the topic `{topic}` rejects records");
        let why = wait_for("the reason in /healthz", || {
            act();
            problem(member).filter(|why| why.contains(&reason) && member.metric(connected) == 0)
        });
        let line = log.find(|line| line.contains(&reason)).expect("a line");
        let remedy = why.split('`').find(|text| text.starts_with("kafka-configs.sh")).expect("a command");
        assert!(line.contains("ERROR") && line.contains(remedy), "{line}");
        fleet.kafka.run(remedy);
        wait_for("the end of the alarm", || {
            act();
            (member.metric(connected) == 1 && problem(member).is_none()).then_some(())
        });
    }
}

/// I1: a Kafka that answers and rejects every record of calls is a problem in `/healthz`, in a metric and in the log, with
/// the topic, the reason and a command that repairs it. The agent limits all the same, and stays ready; its readiness names the
/// same problem.
#[test]
fn an_agent_says_that_kafka_rejects_its_records_and_the_printed_remedy_works() {
    let fleet = Fleet::start("rejected", RULES);
    let mut agent = fleet.agent("gw-1");
    let mut client = agent.client();
    let readiness = agent.client();
    let named = std::cell::Cell::new(0);
    let clients = std::cell::RefCell::new((&mut client, readiness));
    fail_and_repair(&fleet, "calls", "tollgate_bus_connected", &mut agent, || {
        let (client, readiness) = &mut *clients.borrow_mut();
        let said = check(client, "k");
        assert!(["store", "local"].contains(&&*said.source), "{said:?}");
        let ready = readiness.get("/readyz", &[]);
        assert_eq!((ready.status, ready.json()["missing"].as_array().map(Vec::len)), (200, Some(0)));
        let problem = ready.json()["problems"][0].clone();
        if problem["why"].as_str().is_some_and(|why| why.contains("the topic `calls` rejects records")) {
            assert_eq!(problem["part"], "kafka");
            named.set(named.get() + 1);
        }
    });
    assert!(named.get() > 0, "its readiness never named the problem");
}

/// I1: an aggregator whose signals are rejected says the same, and is not ready then.
#[test]
fn an_aggregator_says_that_kafka_rejects_its_signals_and_the_printed_remedy_works() {
    let fleet = Fleet::start("rejected-signals", RULES);
    let mut aggregator = fleet.aggregator("counting");
    aggregator.wait_until_ready();
    let agent = fleet.agent("gw-1");
    // A partition without any record has no heartbeats.
    assert_eq!(check(&mut agent.client(), "k").source, "store");
    fail_and_repair(&fleet, "signals", "tollgate_aggregator_bus_connected", &mut aggregator, || {});
}

/// An aggregator whose Kafka is away names it from its first answer on: in `/healthz`, in `/readyz`, and in its log.
#[test]
fn an_aggregator_without_kafka_names_kafka() {
    let mut fleet = Fleet::start("away", RULES);
    let mut aggregator = fleet.aggregator("counting");
    aggregator.wait_until_ready();
    assert_eq!(problem(&aggregator), None);
    fleet.kafka.kill();
    let names_it = |aggregator: &Member| {
        let missing = aggregator.client().get("/readyz", &[]);
        let why = problem(aggregator)?;
        let missing = (missing.status == 503).then(|| missing.json()["missing"][0].to_string())?;
        (why.contains("Kafka") && missing.contains("Kafka")).then_some(())
    };
    wait_for("the loss of Kafka", || names_it(&aggregator));
    aggregator.kill();
    aggregator.restart();
    assert!(problem(&aggregator).is_some_and(|why| why.contains("Kafka")));
    let line = aggregator.log().find(|line| line.contains("no calls are counted")).expect("a line");
    assert!(line.contains(&fleet.kafka.brokers()) && line.contains("--kafka"), "{line}");
    names_it(&aggregator).expect("it names Kafka");
}
