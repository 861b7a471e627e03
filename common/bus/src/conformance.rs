//! What every bus must do, as a suite that each backend's tests run.

use std::time::Duration;

use super::{Bus, Delivered, From, Log, Reader, Topic};

const WAIT: Duration = Duration::from_secs(10);

/// Runs the suite; `make` gives a fresh bus with so many partitions.
///
/// # Panics
/// Panics if the backend does not conform.
pub fn run<B: Bus>(make: impl Fn(u32) -> B) {
    records_come_in_order_with_offsets(&make(2));
    reports_tell_where_records_lie(&make(2));
    readers_start_where_they_are_told(&make(1));
    topics_and_partitions_are_apart(&make(3));
    a_reader_wakes_when_something_comes(&make(1));
    a_reader_takes_partitions_up_and_leaves_them(&make(2));
    the_next_offset_is_that_of_the_next_record(&make(2));
}

fn read<R: Reader>(reader: &mut R, records: usize) -> Vec<Delivered> {
    let mut all = Vec::new();
    while all.len() < records {
        let some = reader.poll(WAIT, records - all.len());
        assert!(!some.is_empty(), "{} of {records} records came", all.len());
        all.extend(some);
    }
    all
}

fn records_come_in_order_with_offsets<B: Bus>(bus: &B) {
    let mut log = bus.log(Topic::Calls);
    for number in 0..100_u8 {
        log.append(u32::from(number % 2), vec![number], 0).expect("there is room");
    }
    let mut reader = bus.read(Topic::Calls, &[0, 1], From::Oldest);
    let all = read(&mut reader, 100);
    for partition in [0, 1] {
        let mine: Vec<_> = all.iter().filter(|record| record.partition == partition).collect();
        assert!(mine.windows(2).all(|two| two[0].offset + 1 == two[1].offset && two[0].payload < two[1].payload));
        assert!(mine.windows(2).all(|two| two[0].appended <= two[1].appended));
        assert_eq!(mine.len(), 50);
    }
}

fn reports_tell_where_records_lie<B: Bus>(bus: &B) {
    let mut log = bus.log(Topic::Calls);
    for tag in 0..20 {
        log.append(1, vec![1, 2, 3], tag).expect("there is room");
    }
    let all = read(&mut bus.read(Topic::Calls, &[1], From::Oldest), 20);
    let mut reports = Vec::new();
    while reports.len() < 20 {
        reports.extend(log.reports());
        std::thread::yield_now();
    }
    for (report, tag) in reports.iter().zip(0..) {
        assert_eq!((report.partition, report.tag), (1, tag));
        assert!(all.iter().any(|record| Some(record.offset) == report.offset));
    }
    assert!(log.reports().is_empty(), "a report comes once");
}

fn readers_start_where_they_are_told<B: Bus>(bus: &B) {
    let mut log = bus.log(Topic::Signals);
    for number in 0..10_u8 {
        log.append(0, vec![number], 0).expect("there is room");
    }
    let all = read(&mut bus.read(Topic::Signals, &[0], From::Oldest), 10);
    let seventh = all[7].offset;
    assert_eq!(read(&mut bus.read(Topic::Signals, &[0], From::Offset(seventh)), 3)[0].payload, [7]);
    let eighth = all[8].appended;
    let since = read(&mut bus.read(Topic::Signals, &[0], From::Time(eighth)), 1);
    assert!(since[0].appended == eighth && since[0].offset <= all[8].offset);
    let mut next = bus.read(Topic::Signals, &[0], From::Next);
    log.append(0, vec![99], 0).expect("there is room");
    assert_eq!(read(&mut next, 1)[0].payload, [99]);
}

fn topics_and_partitions_are_apart<B: Bus>(bus: &B) {
    assert_eq!(bus.partitions(Topic::Calls), 3);
    assert_eq!(bus.partitions(Topic::Signals), 3);
    assert_eq!(bus.partitions(Topic::Presence), 1);
    assert_eq!(bus.partitions(Topic::Rules), 1);
    bus.log(Topic::Calls).append(2, vec![1], 0).expect("there is room");
    bus.log(Topic::Presence).append(0, vec![2], 0).expect("there is room");
    assert_eq!(read(&mut bus.read(Topic::Calls, &[2], From::Oldest), 1)[0].payload, [1]);
    assert_eq!(read(&mut bus.read(Topic::Presence, &[0], From::Oldest), 1)[0].payload, [2]);
    assert!(bus.read(Topic::Calls, &[0, 1], From::Oldest).poll(Duration::ZERO, 10).is_empty());
}

fn a_reader_wakes_when_something_comes<B: Bus>(bus: &B) {
    let mut reader = bus.read(Topic::Calls, &[0], From::Oldest);
    let waiting = std::thread::spawn(move || read(&mut reader, 1));
    bus.log(Topic::Calls).append(0, vec![5], 0).expect("there is room");
    assert_eq!(waiting.join().expect("the reader wakes")[0].payload, [5]);
}

fn a_reader_takes_partitions_up_and_leaves_them<B: Bus>(bus: &B) {
    let mut log = bus.log(Topic::Calls);
    for partition in [0, 1, 0, 1] {
        log.append(partition, vec![1], 0).expect("there is room");
    }
    log.flush(WAIT);
    let mut reader = bus.read(Topic::Calls, &[0], From::Oldest);
    assert!(read(&mut reader, 2).iter().all(|record| record.partition == 0));
    reader.add(1, From::Offset(1));
    assert_eq!((reader.next(0), reader.next(1)), (Some(2), Some(1)));
    let added = read(&mut reader, 1);
    assert_eq!(reader.next(1), Some(2));
    assert_eq!((added[0].partition, added[0].offset), (1, 1), "and partition 0 goes on where it was");
    reader.remove(1);
    assert_eq!(reader.next(1), None);
    log.append(1, vec![2], 0).expect("there is room");
    log.append(0, vec![3], 0).expect("there is room");
    assert_eq!(read(&mut reader, 1)[0].payload, [3]);
}

fn the_next_offset_is_that_of_the_next_record<B: Bus>(bus: &B) {
    assert_eq!(bus.next_offset(Topic::Calls, 1), Some(0));
    let mut log = bus.log(Topic::Calls);
    for _ in 0..3 {
        log.append(1, vec![1], 0).expect("there is room");
    }
    log.flush(WAIT);
    assert_eq!(bus.next_offset(Topic::Calls, 1), Some(3));
}
