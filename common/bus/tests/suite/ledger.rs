//! The buses of the ledger and the usage: their topics, their mirrors, and topics that are refused.

use rdkafka::admin::{NewTopic, ResourceSpecifier, TopicReplication};
use tollgate_bus::kafka::{KafkaBus, KafkaSettings, TopicSet};
use tollgate_bus::{Bus, BusError, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{TIMEOUT, admin, append, broker, numbers, options, prepared, read, reports, settings, wait};

fn exists(broker: &Broker, topic: &str) -> bool {
    let metadata = admin(broker).inner().fetch_metadata(None, TIMEOUT).expect("the broker answers");
    metadata.topics().iter().any(|found| found.name() == topic)
}

fn refusal(settings: KafkaSettings) -> String {
    let error = KafkaBus::new(settings).expect("settings").prepare(TIMEOUT).expect_err("the topic is refused");
    assert!(matches!(error, BusError::Refused { .. }), "{error}");
    error.to_string()
}

#[test]
fn each_bus_creates_and_deletes_only_its_own_topics() {
    let broker = broker();
    let deployment = settings(&broker, 2);
    let name = |topic: Topic| format!("{}{}", deployment.topic_prefix, topic.as_str());
    let of_deployment = prepared(&deployment);
    assert!(!exists(&broker, &name(Topic::Ledger)) && exists(&broker, &name(Topic::Calls)));
    let home = settings(&broker, 2).carrying(TopicSet::Ledger);
    let of_ledger = prepared(&home);
    let ledger = format!("{}ledger", home.topic_prefix);
    assert!(exists(&broker, &ledger) && !exists(&broker, &format!("{}calls", home.topic_prefix)));
    let described = wait(admin(&broker).describe_configs(&[ResourceSpecifier::Topic(&ledger)], &options()));
    let described = described.expect("an answer").remove(0).expect("the topic exists");
    for (setting, expected) in [("retention.ms", "-1"), ("retention.bytes", "-1"), ("cleanup.policy", "delete")] {
        let value = described.get(setting).and_then(|entry| entry.value.as_deref());
        assert_eq!(value, Some(expected), "{setting}");
    }
    of_ledger.delete_topics(TIMEOUT).expect("the topic is deleted");
    tollgate_servers::wait_for("the deletion", || (!exists(&broker, &ledger)).then_some(()));
    append(&mut of_deployment.writer(Topic::Calls), 0..1);
    assert_eq!(numbers(&read(&mut of_deployment.reader(Topic::Calls, &[0], ReadFrom::Oldest), 1)), [0]);
}

/// A mirror gives the topic another name, and may be late.
#[test]
fn a_mirror_is_read_by_its_name_and_never_created() {
    let broker = broker();
    let mirror = format!("{}home.ledger", settings(&broker, 1).topic_prefix);
    let settings = settings(&broker, 1).carrying(TopicSet::LedgerMirror(mirror.clone()));
    let bus = KafkaBus::new(settings.clone()).expect("settings");
    let refused = refusal(settings);
    assert!(refused.contains(&mirror) && refused.contains("--ledger-topic"), "{refused}");
    assert!(!exists(&broker, &mirror));
    let topic = NewTopic::new(&mirror, 1, TopicReplication::Fixed(1)).set("retention.ms", "-1");
    wait(admin(&broker).create_topics(&[topic], &options())).expect("an answer")[0].as_ref().expect("it is created");
    tollgate_servers::wait_for("the mirror", || bus.prepare(TIMEOUT).ok());
    let mut copier = bus.writer(Topic::Ledger);
    append(&mut copier, 0..3);
    assert_eq!(reports(&mut copier).len(), 3);
    assert_eq!(numbers(&read(&mut bus.reader(Topic::Ledger, &[0], ReadFrom::Oldest), 3)), [0, 1, 2]);
    assert!(bus.reader(Topic::Ledger, &[0], ReadFrom::Next).poll(std::time::Duration::ZERO, 1).is_empty());
}

/// The usage is for display: it has a topic of its own, whose records end, and whose absence does not stop the ledger.
#[test]
fn the_usage_has_a_bus_of_its_own() {
    let broker = broker();
    let home = settings(&broker, 2).carrying(TopicSet::Usage);
    let name = |topic: Topic| format!("{}{}", home.topic_prefix, topic.as_str());
    let bus = prepared(&home);
    let end = tollgate_servers::wait_for("the end of the topic", || bus.next_offset(Topic::Usage, 0));
    assert_eq!((bus.partitions(Topic::Usage), end), (1, 0));
    assert!(exists(&broker, &name(Topic::Usage)) && !exists(&broker, &name(Topic::Ledger)));
    let usage = name(Topic::Usage);
    let described = wait(admin(&broker).describe_configs(&[ResourceSpecifier::Topic(&usage)], &options()));
    let described = described.expect("an answer").remove(0).expect("the topic exists");
    let kept = described.get("retention.ms").and_then(|entry| entry.value.as_deref());
    assert_eq!(kept, Some("3600000"));
    append(&mut bus.writer(Topic::Usage), 0..2);
    assert_eq!(numbers(&read(&mut bus.reader(Topic::Usage, &[0], ReadFrom::Oldest), 2)), [0, 1]);

    let mirror = TopicSet::usage_mirror(&format!("{}home.ledger", home.topic_prefix)).expect("a name");
    let refused = refusal(home.clone().carrying(mirror));
    let missing = format!("{}home.usage", home.topic_prefix);
    assert!(refused.contains(&missing) && refused.contains("topic `usage`"), "{refused}");
    assert!(!exists(&broker, &missing));
}

#[test]
fn a_ledger_that_loses_entries_is_refused_and_the_printed_remedy_works() {
    let broker = broker();
    let settings = settings(&broker, 1).carrying(TopicSet::Ledger);
    let name = format!("{}ledger", settings.topic_prefix);
    let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(1)).set("retention.ms", "60000");
    wait(admin(&broker).create_topics(&[topic], &options())).expect("an answer")[0].as_ref().expect("it is created");
    let refused = refusal(settings.clone());
    assert!(refused.contains("retention.ms=60000") && refused.contains("entries of the ledger are lost"), "{refused}");
    broker.run(refused.split('`').find(|text| text.contains("kafka-")).expect("a command"));
    let bus = KafkaBus::new(settings).expect("settings");
    tollgate_servers::wait_for("the remedy", || bus.prepare(TIMEOUT).ok());
    bus.writer(Topic::Ledger).append(0, vec![1], 0).expect("the queue has room");
}
