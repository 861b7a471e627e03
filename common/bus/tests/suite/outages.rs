//! Brokers that are unavailable, crash and recover.

use std::time::Duration;

use tollgate_bus::kafka::KafkaBus;
use tollgate_bus::{Bus, LogWriter, ReadFrom, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{TIMEOUT, append, numbers, read, reports, settings};

#[test]
fn a_bus_starts_without_its_broker_and_survives_a_crash_of_it() {
    let mut broker = Broker::start();
    broker.kill();
    let bus = KafkaBus::new(settings(&broker, 1)).expect("settings");
    let unavailable = bus.prepare(Duration::from_millis(300)).expect_err("the broker is unavailable");
    assert!(unavailable.is_transient() && unavailable.to_string().contains(&broker.brokers()), "{unavailable}");
    let mut log = bus.writer(Topic::Calls);
    log.append(0, vec![0], 0).expect_err("the bus is not prepared");
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);

    broker.restart();
    bus.prepare(TIMEOUT).expect("the broker is available");
    append(&mut log, 0..10);
    assert!(numbers(&read(&mut reader, 10)).into_iter().eq(0..10));
    let id = bus.log_id(Topic::Calls);

    broker.kill();
    append(&mut log, 10..60);
    assert_eq!(bus.next_offset(Topic::Calls, 0), None);
    assert_eq!(bus.log_id(Topic::Calls), id, "the last known id");
    let mut late = bus.reader(Topic::Calls, &[0], ReadFrom::Next);
    broker.restart();
    let read_on = read(&mut reader, 50);
    assert!(numbers(&read_on).into_iter().eq(10..60));
    assert!(read_on.iter().map(|record| record.offset).eq(10..60));
    let reports = reports(&mut log);
    assert!(reports.iter().map(|report| report.tag).eq(0..60));
    assert!(reports.iter().all(|report| report.offset.is_none_or(|offset| offset == report.tag)));

    // The start of the late reader depends on when it found the end; from there on it reads every record.
    let mut received = Vec::new();
    for number in 60.. {
        append(&mut log, number..number + 1);
        log.flush(TIMEOUT);
        received = numbers(&tollgate_bus::LogReader::poll(&mut late, Duration::from_millis(500), 100));
        if !received.is_empty() {
            break;
        }
    }
    assert!(received.is_sorted());
}
