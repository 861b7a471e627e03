//! Undecodable and forged records on the bus.

use std::time::Duration;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_wire::Record;

use super::fleet_of_processes::{Fleet, Member, check};
use super::log;
use crate::support::wait_for;

const RULES: &str = "rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, deadline: 1s }]";
/// Field 8 of a batch of calls, empty: a counter without content.
const COUNTER: [u8; 2] = [8 << 3 | 2, 0];

/// exactly-counted: random bytes, an unknown version, a batch of a million counters: each becomes a dead letter with its
/// offset, and counting continues.
#[test]
fn an_undecodable_record_is_a_dead_letter_and_stops_nothing() {
    let fleet = Fleet::start("poison", RULES);
    let aggregator = fleet.aggregator("counting");
    let agent = fleet.agent("gw-1");
    aggregator.wait_until_ready();
    let mut client = agent.client();
    assert!((0..10).all(|_| check(&mut client, "before").allowed));

    // A producer that may send records larger than any agent does.
    let settings = vec![("message.max.bytes".to_owned(), "10000000".to_owned())];
    let bus = KafkaBus::new(KafkaSettings::new(&fleet.kafka.brokers()).with(settings)).expect("settings");
    bus.prepare(Duration::from_secs(10)).expect("Kafka is there");
    let mut rng = fastrand::Rng::with_seed(7);
    let random: Vec<u8> = (0..500).map(|_| rng.u8(..)).collect();
    let unknown_version = vec![1 << 3, 99];
    let million = [&[1 << 3, 1][..], &COUNTER.repeat(1_000_000)].concat();
    let mut log = bus.writer(Topic::Calls);
    for partition in 0..bus.partitions(Topic::Calls) {
        for poison in [&random, &unknown_version, &million] {
            log.append(partition, poison.clone(), 0).expect("there is room");
        }
    }
    log.flush(Duration::from_secs(20));
    let reports = log.reports();
    let offsets: Vec<(u64, u64)> =
        reports.iter().map(|report| (u64::from(report.partition), report.offset.expect("it is in the log"))).collect();
    assert_eq!(offsets.len(), 24);

    wait_for("all of them to be counted", || (aggregator.metric("tollgate_dead_letters_total") == 24).then_some(()));
    let listed = aggregator.get("/dead-letters");
    let letters = listed["dead_letters"].as_array().expect("a list");
    for (partition, offset) in offsets {
        let letter = letters.iter().find(|letter| letter["partition"] == partition && letter["offset"] == offset);
        assert!(letter.is_some_and(|letter| !letter["reason"].as_str().unwrap_or_default().is_empty()), "{letters:?}");
    }
    assert!((0..20).all(|_| check(&mut client, "before").allowed));
    wait_for("what came after them", || {
        let counters = aggregator.get("/counters");
        (counters["counters"][0]["admitted"] == 30).then_some(())
    });
}

fn dead_letters(member: &Member, topic: &str) -> u64 {
    member.series("tollgate_dead_letters_total", &format!("topic=\"{topic}\""))
}

pub(crate) fn append(bus: &KafkaBus, topic: Topic, partition: u32, records: &[Vec<u8>]) {
    let mut writer = bus.writer(topic);
    for record in records {
        writer.append(partition, record.clone(), 0).expect("there is room");
    }
    writer.flush(Duration::from_secs(20));
    assert!(writer.reports().iter().all(|report| report.offset.is_some()));
}

fn member(id: &str, role: Role, partitions: Vec<u32>) -> Vec<u8> {
    let (id, region) = (id.into(), "default".into());
    let clock = tollgate_core::clock::Timestamp::default();
    Presence {
        id,
        epoch: 1,
        region,
        role,
        generation: 1,
        clock,
        open_breakers: Vec::new(),
        dropped_rows: 0,
        leaving: false,
        http: "".into(),
        partitions,
        coordinates: false,
        emergency: None,
        resets: Vec::new(),
        rules_refusal: "".into(),
        rules_published: false,
    }
    .encode()
}

/// One forged signal (offset 2^63, threshold 2^32-1), 10,000 forged agents, a forged aggregator, and a batch with
/// sequence 2^63 under an agent's name: each is a dead letter with an alarm. The fleet, the partitions, the counts, and
/// the decisions by signals while Redis is away stay as they were.
#[test]
fn forged_records_are_dead_letters_and_change_nothing() {
    let mut fleet = Fleet::start("forged", RULES);
    let mut aggregator = fleet.aggregator("counting");
    let mut agent = fleet.agent("gw-1");
    aggregator.wait_until_ready();
    let mut client = agent.client();
    wait_for("the size of the fleet", || (agent.metric("tollgate_agents_active") == 1).then_some(()));
    assert!((0..10).all(|_| check(&mut client, "k1").allowed));
    let bus = log::bus(&fleet.kafka.brokers());
    let batch = wait_for("the calls in the log", || {
        (0..bus.partitions(Topic::Calls)).find_map(|partition| log::last_batch(&bus, partition))
    });
    let home = batch.name.partition;
    let real = wait_for("a signal", || {
        log::signals(&bus).into_iter().rev().map(|(_, batch)| batch).find(|batch| batch.partition == home)
    });

    let (mut agent_log, mut aggregator_log) = (agent.log(), aggregator.log());
    let mut offset = real.clone();
    (offset.as_of, offset.threshold_permille) = (1 << 63, u32::MAX);
    let offset_alone = {
        let mut forged = real.clone();
        forged.as_of = 1 << 63;
        forged
    };
    let other_log = {
        let mut forged = real.clone();
        forged.log += 1;
        forged
    };
    append(&bus, Topic::Signals, home, &[offset.encode(), offset_alone.encode(), other_log.encode()]);
    let agents: Vec<_> =
        (0..10_000).map(|number| member(&format!("gw-{}", number + 2), Role::Agent, Vec::new())).collect();
    append(&bus, Topic::Presence, 0, &agents);
    let claims = (0..bus.partitions(Topic::Calls)).collect();
    append(&bus, Topic::Presence, 0, &[member("liar", Role::Aggregator, claims)]);
    let mut jump = batch.clone();
    jump.name.sequence = 1 << 63;
    append(&bus, Topic::Calls, home, &[jump.encode()]);

    wait_for("the dead letters of signals", || (dead_letters(&agent, "signals") == 3).then_some(()));
    wait_for("the dead letters of presence", || (dead_letters(&agent, "presence") >= 5_000).then_some(()));
    wait_for("the forged aggregator", || (dead_letters(&aggregator, "presence") == 1).then_some(()));
    wait_for("the forged batch", || (dead_letters(&aggregator, "calls") == 1).then_some(()));
    agent_log.find(|line| line.contains("let only Tollgate write") && line.contains("signals")).expect("an alarm");
    aggregator_log.find(|line| line.contains("let only Tollgate write") && line.contains("liar")).expect("an alarm");

    assert!((0..20).all(|_| check(&mut client, "k1").allowed));
    wait_for("the calls after it", || (aggregator.get("/counters")["counters"][0]["admitted"] == 30).then_some(()));
    assert_eq!(agent.metric("tollgate_agents_active"), 1);
    assert_eq!((aggregator.metric("tollgate_aggregator_members"), aggregator.own_partitions().len()), (1, 8));
    fleet.redis.kill();
    let said =
        wait_for("a decision by signals", || Some(check(&mut client, "k1")).filter(|said| said.source == "signal"));
    assert!(said.allowed && said.remaining > 400, "30 of 1000 are spent, and the threshold is a half: {said:?}");
}
