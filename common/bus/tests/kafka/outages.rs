//! Brokers that are away, die and come back.

use std::time::Duration;

use tollgate_bus::kafka::Kafka;
use tollgate_bus::{Bus, From, Log, Topic};
use tollgate_servers::Kafka as Broker;

use crate::support::{PATIENCE, append, numbers, read, reports, settings};

#[test]
fn a_bus_that_starts_without_its_broker_works_once_that_is_there_and_outlives_its_death() {
    let mut broker = Broker::start();
    broker.kill();
    let bus = Kafka::new(settings(&broker, 1)).expect("settings");
    let away = bus.prepare(Duration::from_millis(300)).expect_err("nobody is there");
    assert!(away.is_transient() && away.to_string().contains(&broker.brokers()), "{away}");
    let mut log = bus.log(Topic::Calls);
    log.append(0, vec![0], 0).expect_err("nothing is taken");
    let mut reader = bus.read(Topic::Calls, &[0], From::Oldest);

    broker.restart();
    bus.prepare(PATIENCE).expect("it is there");
    append(&mut log, 0..10);
    assert!(numbers(&read(&mut reader, 10)).into_iter().eq(0..10));
    let id = bus.log_id(Topic::Calls);

    broker.kill();
    append(&mut log, 10..60);
    assert_eq!(bus.next_offset(Topic::Calls, 0), None);
    assert_eq!(bus.log_id(Topic::Calls), id, "the one that was heard last");
    let mut late = bus.read(Topic::Calls, &[0], From::Next);
    broker.restart();
    let read_on = read(&mut reader, 50);
    assert!(numbers(&read_on).into_iter().eq(10..60));
    assert!(read_on.iter().map(|record| record.offset).eq(10..60));
    let reports = reports(&mut log);
    assert!(reports.iter().map(|report| report.tag).eq(0..60));
    assert!(reports.iter().all(|report| report.offset.is_none_or(|offset| offset == report.tag)));

    // Whenever it found the end, it reads on from there.
    let mut came = Vec::new();
    for number in 60.. {
        append(&mut log, number..number + 1);
        log.flush(PATIENCE);
        came = numbers(&tollgate_bus::Reader::poll(&mut late, Duration::from_millis(500), 100));
        if !came.is_empty() {
            break;
        }
    }
    assert!(came.is_sorted());
}
