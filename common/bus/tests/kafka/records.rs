//! What becomes of records: refused, lost, passed over.

use std::time::Duration;

use rdkafka::{Offset, TopicPartitionList};
use tollgate_bus::{Bus, From, Full, Log, Reader, Topic};

use crate::support::{admin, append, broker, numbers, options, prepared, read, reports, settings, wait, with};

#[test]
fn a_full_queue_gives_the_record_back_and_loses_nothing() {
    let broker = broker();
    // Records wait in the queue for a moment, or it would never be full.
    let small = [("queue.buffering.max.messages", "5"), ("linger.ms", "200")];
    let bus = prepared(&with(&settings(&broker, 1), &small));
    let mut log = bus.log(Topic::Calls);
    let mut refused = 0;
    for number in 0..20_u8 {
        let mut payload = vec![number];
        while let Err(Full(back)) = log.append(0, payload, number.into()) {
            assert_eq!(back, [number]);
            refused += 1;
            payload = back;
            std::thread::yield_now();
        }
    }
    assert!(refused > 0);
    assert!(reports(&mut log).iter().map(|report| report.tag).eq(0..20));
    let mut reader = bus.read(Topic::Calls, &[0], From::Oldest);
    assert!(numbers(&read(&mut reader, 20)).into_iter().eq(0..20));
}

#[test]
fn a_record_that_can_never_be_taken_is_reported_lost_and_others_go_on() {
    let broker = broker();
    let bus = prepared(&settings(&broker, 1));
    let mut log = bus.log(Topic::Calls);
    log.append(0, vec![0; 2 << 20], 1).expect("a queue with room");
    log.append(0, vec![9], 2).expect("there is room");
    let reports = reports(&mut log);
    assert_eq!(reports.iter().map(|report| (report.tag, report.offset)).collect::<Vec<_>>(), [(1, None), (2, Some(0))]);
}

#[test]
fn readers_of_rules_see_rules_alone_and_miss_nothing() {
    let broker = broker();
    let bus = prepared(&settings(&broker, 1));
    let mut log = bus.log(Topic::Rules);
    append(&mut log, 3..5);
    let mut reader = bus.read(Topic::Rules, &[0], From::Oldest);
    assert_eq!(numbers(&read(&mut reader, 2)), [3, 4]);
    assert_eq!(reader.missed(), 0);
}

#[test]
fn records_that_were_deleted_before_they_were_read_are_counted() {
    let broker = broker();
    let settings = settings(&broker, 1);
    // A reader that reads hardly ahead.
    let bus = prepared(&with(&settings, &[("queued.min.messages", "1"), ("max.partition.fetch.bytes", "1000")]));
    let mut log = bus.log(Topic::Calls);
    let mut fill = |from: u64| {
        for tag in from..from + 20 {
            log.append(0, vec![7; 900], tag).expect("there is room");
            log.flush(Duration::from_secs(10));
        }
    };
    fill(0);
    let mut reader = bus.read(Topic::Calls, &[0], From::Oldest);
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
