//! Starts over a Kafka that is not as it should be.

use super::fleet_of_processes::{Fleet, Member, Said, check};
use crate::support::wait_for;

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";

fn is_connected(member: &Member) -> bool {
    member.metric("tollgate_bus_connected") == 1
}

/// Waits until an agent admits by signals, after its Redis was killed: it has its part after two of its own heartbeats.
fn wait_for_an_admission_by_signals(agent: &Member) {
    let mut client = agent.client();
    let admitted = |said: &Said| said.source == "signal" && said.allowed;
    wait_for("an admission by signals", || Some(check(&mut client, "later")).filter(admitted));
}

/// stand-alone: partitions of `signals` that were added by hand, and a junk layout record, stop no agent from starting.
/// It limits by Redis, names the topic, the reason and the remedy in its log, and shows the alarm in a metric. The
/// printed command ends the alarm without a restart, and signals arrive again.
#[test]
fn an_agent_starts_over_a_changed_kafka_and_the_printed_remedy_works() {
    let mut fleet = Fleet::start("starting", RULES);
    let aggregator = fleet.aggregator("counting");
    aggregator.wait_until_ready();
    let mut agent = fleet.agent("gw-1");
    wait_for("the bus", || is_connected(&agent).then_some(()));
    let brokers = fleet.kafka.brokers();
    let faults = [
        (
            format!("kafka-topics.sh --bootstrap-server {brokers} --alter --topic signals --partitions 12"),
            "the topic `signals` has 12 partitions and should have 8",
        ),
        (
            format!(
                "echo layout:junk | kafka-console-producer.sh --bootstrap-server {brokers} --topic rules --property parse.key=true --property key.separator=:"
            ),
            "the layout record in the topic `rules` is not one of Tollgate's",
        ),
    ];
    for (number, (fault, reason)) in (1..).zip(faults) {
        fleet.kafka.run(&fault);
        agent.kill();
        agent.restart();
        agent.wait_until_ready();
        let line = agent.log().find(|line| line.contains("the store alone limits")).expect("an alarm");
        assert!(line.contains(reason), "{line}");
        wait_for("the reason in /healthz", || {
            let error = agent.get("/healthz")["bus_error"].as_str().map(str::to_owned);
            (!is_connected(&agent) && error?.contains(reason)).then_some(())
        });
        let said = check(&mut agent.client(), "k1");
        assert_eq!((said.source.as_str(), said.remaining), ("store", 1_000 - number));

        let remedy = line.split('`').find(|text| text.contains("kafka-") && text.contains("--topic"));
        fleet.kafka.run(remedy.expect("a command"));
        wait_for("the end of the alarm", || is_connected(&agent).then_some(()));
    }
    wait_for("the aggregator's end of the alarm", || {
        (aggregator.metric("tollgate_aggregator_bus_connected") == 1).then_some(())
    });
    fleet.redis.kill();
    wait_for_an_admission_by_signals(&agent);
}

/// F8: with Kafka and Redis away, an agent that follows published rules goes on limiting by the last ones, and within
/// 30 s its log and a metric say that new rules cannot reach it.
#[test]
fn an_agent_without_any_source_of_rules_goes_on_and_says_so_within_30_s() {
    let mut fleet = Fleet::start("no-rules", &RULES.replace("1000/h", "20/h"));
    let (kafka, redis) = (fleet.kafka.brokers(), fleet.redis.url());
    let file = fleet.rules.display().to_string();
    let published =
        crate::support::finish(&mut crate::support::tollgate(&["rules", "publish", &file, "--kafka", &kafka]));
    assert_eq!(published.exit, 0, "{}", published.err);
    let args = ["agent", "--kafka", &kafka, "--redis", &redis, "--http", "127.0.0.1:0", "--agents-expected", "1"];
    let mut agent = Member::start(args.map(str::to_owned).to_vec());
    agent.wait_until_ready();
    assert_eq!(check(&mut agent.client(), "k1").remaining, 19);

    let log = agent.log();
    fleet.kafka.kill();
    fleet.redis.kill();
    let away = tollgate_core::clock::Stopwatch::start();
    let alarm = log.into_iter().find(|line| line.contains("published rules cannot be read")).expect("an alarm");
    let alarmed = away.elapsed();
    println!("after {alarmed:?}: {alarm}");
    assert!(alarmed.as_secs() <= 30, "{alarmed:?}");
    assert_eq!(agent.metric("tollgate_rules_unreachable"), 1);
    let mut client = agent.client();
    let admitted = (0..30).filter(|_| check(&mut client, "k1").allowed).count();
    assert_eq!(admitted, 19, "the last good rules stay in force");
    fleet.redis.restart();
    wait_for("the end of the alarm", || (agent.metric("tollgate_rules_unreachable") == 0).then_some(()));
}

/// An agent of which nobody has heard the fleet yet does not know its size. This is so at each first start, so it is no warning.
#[test]
fn an_unknown_size_of_the_fleet_is_null_and_no_warning() {
    let rules = crate::support::file("unknown-size.yaml", RULES).display().to_string();
    let [kafka, redis] = [(); 2].map(|()| format!("127.0.0.1:{}", tollgate_servers::free_port()));
    let args = [
        "agent",
        "--kafka",
        &kafka,
        "--redis",
        &format!("redis://{redis}"),
        "--rules",
        &rules,
        "--http",
        "127.0.0.1:0",
    ];
    let mut agent = Member::start(args.map(str::to_owned).to_vec());
    assert_eq!(agent.get("/healthz")["agents"], serde_json::Value::Null);
    let line = agent.log().find(|line| line.contains("the size of the fleet is unknown")).expect("it is logged");
    assert!(line.contains("INFO") && line.contains("--agents-expected"), "{line}");
}

/// SIGHUP reads the rules of an aggregator again, and never ends it.
#[test]
fn a_hang_up_does_not_end_an_aggregator() {
    let fleet = Fleet::start("hang-up", RULES);
    let mut aggregator = fleet.aggregator("counting");
    let mut log = aggregator.log();
    aggregator.signal("HUP");
    log.find(|line| line.contains("SIGHUP: the rules are read again")).expect("it is logged");
    std::fs::write(&fleet.rules, "rules: [").expect("the file can be written");
    aggregator.signal("HUP");
    log.find(|line| line.contains("SIGHUP: the rules stay as they were")).expect("it is logged");
    aggregator.wait_until_ready();
}
