//! Which topics are made, and which are refused.

use rdkafka::admin::{NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use tollgate_bus::kafka::{Kafka, KafkaError, KafkaSettings};
use tollgate_bus::{Bus, From, Log, Reader, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{
    PATIENCE, admin, append, broker, numbers, options, prepared, read, reports, settings, wait, wait_until_it_has,
};

fn refusal(settings: &KafkaSettings) -> String {
    let error = Kafka::new(settings.clone()).expect("settings").prepare(PATIENCE).expect_err("it is refused");
    assert!(matches!(error, KafkaError::Refused { .. }) && !error.is_transient(), "{error}");
    error.to_string()
}

fn setting(broker: &Broker, topic: &str, name: &str) -> String {
    let told = wait(admin(broker).describe_configs(&[ResourceSpecifier::Topic(topic)], &options())).expect("an answer");
    let topic = told[0].as_ref().expect("the topic is there");
    topic.get(name).and_then(|entry| entry.value.clone()).expect("the setting is there")
}

#[test]
fn topics_are_made_with_the_settings_they_need() {
    let broker = broker();
    let settings = settings(&broker, 3);
    let bus = prepared(&settings);
    bus.prepare(PATIENCE).expect("a second time changes nothing");
    let has =
        |topic: Topic, name: &str| setting(&broker, &format!("{}{}", settings.topic_prefix, topic.as_str()), name);
    for topic in Topic::ALL {
        assert_eq!(has(topic, "message.timestamp.type"), "LogAppendTime");
        assert_eq!(has(topic, "cleanup.policy"), if topic == Topic::Rules { "compact" } else { "delete" });
    }
    assert_eq!(has(Topic::Calls, "retention.ms"), (48 * 60 * 60 * 1_000).to_string());
    assert_eq!(has(Topic::Calls, "compression.type"), "producer");
    for topic in [Topic::Signals, Topic::Presence] {
        assert!(has(topic, "retention.ms").parse::<u32>().expect("ms") <= 120_000);
        assert!(has(topic, "segment.ms").parse::<u32>().expect("ms") <= 60_000);
    }
}

#[test]
fn many_may_make_the_topics_at_once() {
    let broker = broker();
    let settings = settings(&broker, 2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| prepared(&settings));
        }
    });
}

#[test]
fn another_number_of_partitions_is_refused_even_where_settings_and_topics_agree() {
    let broker = broker();
    let two = settings(&broker, 2);
    prepared(&two);
    let three = KafkaSettings { partitions: 3, ..two.clone() };
    let refused = refusal(&three);
    assert!(
        refused.contains("has 2 partitions and should have 3") && refused.contains("; set the number"),
        "{refused}"
    );

    let names = [Topic::Calls, Topic::Signals].map(|topic| format!("{}{}", two.topic_prefix, topic.as_str()));
    let more = names.each_ref().map(|name| NewPartitions::new(name, 3));
    let added = wait(admin(&broker).create_partitions(&more, &options())).expect("an answer");
    assert!(added.iter().all(Result::is_ok), "{added:?}");
    for name in &names {
        wait_until_it_has(&broker, name, 3);
    }
    let refused = refusal(&three);
    assert!(refused.contains("laid out for 2") && refused.contains("; go back to 2"), "{refused}");
}

#[test]
fn calls_with_the_times_of_their_writers_are_refused() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let name = format!("{}calls", settings.topic_prefix);
    let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(1)).set("message.timestamp.type", "CreateTime");
    wait(admin(&broker).create_topics(&[topic], &options())).expect("an answer")[0].as_ref().expect("it is made");
    let refused = refusal(&settings);
    assert!(refused.contains("CreateTime") && refused.contains("kafka-configs.sh"), "{refused}");
}

#[test]
fn nothing_is_written_or_read_before_the_topics_are_known_to_be_right() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let bus = Kafka::new(settings.clone()).expect("settings");
    let mut log = bus.log(Topic::Calls);
    assert_eq!(log.append(0, vec![1], 0).expect_err("it is not taken").0, [1]);
    assert_eq!(bus.next_offset(Topic::Calls, 0), None);
    let mut reader = bus.read(Topic::Calls, &[0], From::Next);
    assert!(reader.poll(std::time::Duration::ZERO, 1).is_empty());
    assert_eq!(bus.log_id(Topic::Calls), 0, "and asking made no topic");
    bus.prepare(PATIENCE).expect("the topics are made");
    assert!(reader.poll(std::time::Duration::ZERO, 1).is_empty(), "it takes its place");
    append(&mut log, 2..3);
    assert_eq!(numbers(&read(&mut reader, 1)), [2]);
}

#[test]
fn a_topic_that_is_made_anew_is_another_log() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let bus = prepared(&settings);
    let first = bus.log_id(Topic::Calls);
    assert_ne!(first, 0);
    assert_eq!(prepared(&settings).log_id(Topic::Calls), first, "everybody sees the same log");
    assert_ne!(bus.log_id(Topic::Signals), first);
    append(&mut bus.log(Topic::Calls), 0..5);
    let name = format!("{}calls", settings.topic_prefix);
    wait(admin(&broker).delete_topics(&[&name], &options())).expect("an answer")[0].as_ref().expect("it is deleted");
    wait_until_it_has(&broker, &name, 0);
    bus.prepare(PATIENCE).expect("it is made anew");
    assert_ne!(bus.log_id(Topic::Calls), first);
    let mut log = bus.log(Topic::Calls);
    append(&mut log, 7..8);
    assert_eq!(reports(&mut log)[0].offset, Some(0));
    assert_eq!(numbers(&read(&mut bus.read(Topic::Calls, &[0], From::Oldest), 1)), [7]);
}
