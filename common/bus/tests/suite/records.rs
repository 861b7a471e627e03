//! Records that are rejected, lost or skipped.

use std::collections::HashSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tollgate_bus::{Bus, LogReader, LogWriter, QueueFull, ReadFrom, Topic};

use crate::support::{admin, append, broker, numbers, options, prepared, read, reports, settings, wait, with};

#[test]
fn a_full_queue_returns_the_record_and_loses_nothing() {
    let broker = broker();
    // Records stay in the queue for a moment; otherwise it would never be full.
    let small = [("queue.buffering.max.messages", "5"), ("linger.ms", "200")];
    let bus = prepared(&with(&settings(&broker, 1), &small));
    let mut log = bus.writer(Topic::Calls);
    let mut refused = 0;
    for number in 0..20_u8 {
        let mut payload = vec![number];
        while let Err(QueueFull(back)) = log.append(0, payload, number.into()) {
            assert_eq!(back, [number]);
            refused += 1;
            payload = back;
            std::thread::yield_now();
        }
    }
    assert!(refused > 0);
    assert!(reports(&mut log).iter().map(|report| report.tag).eq(0..20));
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);
    assert!(numbers(&read(&mut reader, 20)).into_iter().eq(0..20));
}

#[test]
fn a_record_that_is_too_large_is_reported_lost_and_others_are_written() {
    let broker = broker();
    let bus = prepared(&settings(&broker, 1));
    let mut log = bus.writer(Topic::Calls);
    log.append(0, vec![0; 2 << 20], 1).expect("the queue has room");
    log.append(0, vec![9], 2).expect("the queue has room");
    let reports = reports(&mut log);
    assert_eq!(reports.iter().map(|report| (report.tag, report.offset)).collect::<Vec<_>>(), [(1, None), (2, Some(0))]);
}

#[test]
fn readers_of_rules_skip_the_layout_record_and_miss_nothing() {
    let broker = broker();
    let bus = prepared(&settings(&broker, 1));
    let mut log = bus.writer(Topic::Rules);
    append(&mut log, 3..5);
    let mut reader = bus.reader(Topic::Rules, &[0], ReadFrom::Oldest);
    assert_eq!(numbers(&read(&mut reader, 2)), [3, 4]);
    assert_eq!(reader.missed(), 0);
}

#[test]
fn records_that_were_deleted_before_they_were_read_are_counted() {
    let broker = broker();
    let settings = settings(&broker, 1);
    // A reader with almost no prefetch.
    let bus = prepared(&with(&settings, &[("queued.min.messages", "1"), ("max.partition.fetch.bytes", "1000")]));
    let mut log = bus.writer(Topic::Calls);
    let mut fill = |from: u64| {
        for tag in from..from + 20 {
            log.append(0, vec![7; 900], tag).expect("the queue has room");
            log.flush(Duration::from_secs(10));
        }
    };
    fill(0);
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);
    assert_eq!(read(&mut reader, 1)[0].offset, 0);
    fill(20);
    let mut before = TopicPartitionList::new();
    let name = format!("{}calls", settings.topic_prefix);
    before.add_partition_offset(&name, 0, Offset::Offset(35)).expect("an offset");
    wait(admin(&broker).delete_records(&before, &options())).expect("records are deleted");
    let mut seen = 1;
    while seen + reader.missed() < 40 {
        seen += read(&mut reader, 1).len() as u64;
    }
    assert!(reader.missed() > 0);
    assert_eq!(seen + reader.missed(), 40);
}

/// F7: each publication has a key of its own, so compaction keeps it until it is deleted, and readers do not see deletions.
#[test]
fn publications_are_kept_under_keys_of_their_own_until_they_are_deleted() {
    let broker = broker();
    let settings = settings(&broker, 1);
    let bus = prepared(&settings);
    let mut log = bus.writer(Topic::Rules);
    append(&mut log, 3..6);
    let mut reader = bus.reader(Topic::Rules, &[0], ReadFrom::Oldest);
    let records = read(&mut reader, 3);
    log.forget(0, records[1].payload.clone()).expect("the queue has room");
    append(&mut log, 6..7);
    assert_eq!(numbers(&read(&mut reader, 1)), [6], "a deletion is no record");
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        .set("group.id", "none")
        .create()
        .expect("settings");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&format!("{}rules", settings.topic_prefix), 0, Offset::Beginning).expect("a partition");
    consumer.assign(&list).expect("assigned");
    let mut rules = Vec::new();
    while rules.len() < 5 {
        let message = consumer.poll(Duration::from_secs(30)).expect("a record").expect("no error");
        let key = String::from_utf8_lossy(message.key().unwrap_or_default()).into_owned();
        if key.starts_with("rules-") {
            rules.push((key, message.payload().is_some()));
        }
    }
    assert_eq!(rules.iter().map(|(_, has_content)| *has_content).collect::<Vec<_>>(), [true, true, true, false, true]);
    assert_eq!(rules[3].0, rules[1].0, "the deletion has the key of its record");
    let distinct: HashSet<_> = rules.iter().map(|(key, _)| key).collect();
    assert_eq!(distinct.len(), 4);
}
