//! Topics that are created, and topics that are refused.

use rdkafka::admin::{NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use tollgate_bus::kafka::{KafkaBus, KafkaSettings, TopicSet};
use tollgate_bus::{Bus, BusError, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{
    TIMEOUT, admin, append, broker, numbers, options, prepared, read, reports, settings, wait, wait_until_it_has,
};

fn refusal(settings: &KafkaSettings) -> String {
    let error =
        KafkaBus::new(settings.clone()).expect("settings").prepare(TIMEOUT).expect_err("the topics are refused");
    assert!(matches!(error, BusError::Refused { .. }) && !error.is_transient(), "{error}");
    error.to_string()
}

fn setting(broker: &Broker, topic: &str, name: &str) -> String {
    let described =
        wait(admin(broker).describe_configs(&[ResourceSpecifier::Topic(topic)], &options())).expect("an answer");
    let topic = described[0].as_ref().expect("the topic exists");
    topic.get(name).and_then(|entry| entry.value.clone()).expect("the setting exists")
}

#[test]
fn topics_are_created_with_the_required_settings() {
    let broker = broker();
    let settings = settings(&broker, 3);
    let bus = prepared(&settings);
    bus.prepare(TIMEOUT).expect("a second time changes nothing");
    let has =
        |topic: Topic, name: &str| setting(&broker, &format!("{}{}", settings.topic_prefix, topic.as_str()), name);
    for topic in Topic::OF_DEPLOYMENT {
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
fn topics_may_be_created_concurrently() {
    let broker = broker();
    let settings = settings(&broker, 2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| prepared(&settings));
        }
    });
}

#[test]
fn another_number_of_partitions_is_refused_even_if_settings_and_topics_agree() {
    let broker = broker();
    let two = settings(&broker, 2);
    prepared(&two);
    let three = two.clone().partitioned(3);
    let remedy = "; set the number of partitions to 2";
    let refused = refusal(&three);
    assert!(refused.contains("laid out for 2 partitions") && refused.contains(remedy), "{refused}");
    for topic in [Topic::Calls, Topic::Signals] {
        add_partition(&broker, &two, topic, 3);
    }
    let refused = refusal(&three);
    assert!(refused.contains("laid out for 2 partitions") && refused.contains(remedy), "{refused}");
}

/// Adds partitions to a topic by hand.
fn add_partition(broker: &Broker, settings: &KafkaSettings, topic: Topic, partitions: usize) {
    let name = format!("{}{}", settings.topic_prefix, topic.as_str());
    let more = [NewPartitions::new(&name, partitions)];
    let added = wait(admin(broker).create_partitions(&more, &options())).expect("an answer");
    assert!(added.iter().all(Result::is_ok), "{added:?}");
    wait_until_it_has(broker, &name, partitions);
}

/// Runs the command that a refusal prints between backticks, and waits until the bus can be used.
fn apply_remedy(broker: &Broker, settings: &KafkaSettings, refused: &str) {
    let command = refused.split('`').find(|text| text.contains("kafka-")).expect("a command");
    broker.run(command);
    let bus = KafkaBus::new(settings.clone()).expect("settings");
    tollgate_servers::wait_for("the remedy", || bus.prepare(TIMEOUT).ok());
}

#[test]
fn the_printed_remedy_for_added_partitions_works_for_each_topic() {
    let broker = broker();
    let two = settings(&broker, 2);
    prepared(&two);
    let of_display = |topics| {
        let mut settings = two.clone();
        settings.topics = topics;
        prepared(&settings);
        settings
    };
    let deployment = Topic::OF_DEPLOYMENT.map(|topic| (topic, two.clone()));
    let display =
        [(Topic::Rollups, of_display(TopicSet::Analytics)), (Topic::Decisions, of_display(TopicSet::Decisions))];
    for (topic, settings) in deployment.into_iter().chain(display) {
        add_partition(&broker, &settings, topic, 5);
        let refused = refusal(&settings);
        assert!(refused.contains(&format!("{}` has 5 partitions", topic.as_str())), "{refused}");
        apply_remedy(&broker, &settings, &refused);
    }
}

#[test]
fn the_printed_remedy_for_a_junk_layout_record_works_and_keeps_the_rules() {
    let broker = broker();
    let two = settings(&broker, 2);
    let bus = prepared(&two);
    append(&mut bus.writer(Topic::Rules), 9..10);
    let name = format!("{}rules", two.topic_prefix);
    broker.run(&format!(
        "echo 'layout:junk' | kafka-console-producer.sh --bootstrap-server {} --topic {name} --property parse.key=true --property key.separator=:",
        broker.brokers()
    ));
    let refused = refusal(&two);
    assert!(refused.contains("layout record") && refused.contains(&name), "{refused}");
    apply_remedy(&broker, &two, &refused);
    assert_eq!(numbers(&read(&mut bus.reader(Topic::Rules, &[0], ReadFrom::Oldest), 1)), [9]);
}

#[test]
fn the_printed_remedy_for_the_timestamps_of_writers_works() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let name = format!("{}calls", settings.topic_prefix);
    let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(1)).set("message.timestamp.type", "CreateTime");
    wait(admin(&broker).create_topics(&[topic], &options())).expect("an answer")[0].as_ref().expect("it is created");
    let refused = refusal(&settings);
    assert!(refused.contains("CreateTime"), "{refused}");
    apply_remedy(&broker, &settings, &refused);
}

#[test]
fn nothing_is_written_or_read_before_the_topics_are_verified() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let bus = KafkaBus::new(settings.clone()).expect("settings");
    let mut log = bus.writer(Topic::Calls);
    assert_eq!(log.append(0, vec![1], 0).expect_err("it is not enqueued").0, [1]);
    assert_eq!(bus.next_offset(Topic::Calls, 0), None);
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Next);
    assert!(reader.poll(std::time::Duration::ZERO, 1).is_empty());
    assert_eq!(bus.log_id(Topic::Calls), 0, "the request created no topic");
    bus.prepare(TIMEOUT).expect("the topics are created");
    assert!(reader.poll(std::time::Duration::ZERO, 1).is_empty(), "the reader is positioned at the end");
    append(&mut log, 2..3);
    assert_eq!(numbers(&read(&mut reader, 1)), [2]);
}

#[test]
fn a_recreated_topic_is_another_log() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let bus = prepared(&settings);
    let first = bus.log_id(Topic::Calls);
    assert_ne!(first, 0);
    assert_eq!(prepared(&settings).log_id(Topic::Calls), first, "all clients see the same log");
    assert_ne!(bus.log_id(Topic::Signals), first);
    append(&mut bus.writer(Topic::Calls), 0..5);
    let name = format!("{}calls", settings.topic_prefix);
    wait(admin(&broker).delete_topics(&[&name], &options())).expect("an answer")[0].as_ref().expect("it is deleted");
    wait_until_it_has(&broker, &name, 0);
    bus.prepare(TIMEOUT).expect("it is recreated");
    assert_ne!(bus.log_id(Topic::Calls), first);
    let mut log = bus.writer(Topic::Calls);
    append(&mut log, 7..8);
    assert_eq!(reports(&mut log)[0].offset, Some(0));
    assert_eq!(numbers(&read(&mut bus.reader(Topic::Calls, &[0], ReadFrom::Oldest), 1)), [7]);
}
