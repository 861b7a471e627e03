//! Conformance suite of the [`Bus`] trait. The tests of every backend run it.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

use super::{Bus, BusRecord, LogReader, LogWriter, ReadFrom, Topic};

const READ_WAIT: Duration = Duration::from_secs(10);
const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// Runs the suite of a deployment's bus; `make` creates a new bus with the given number of partitions.
///
/// # Panics
/// Panics if the backend does not conform.
pub fn run<B: Bus>(make: impl Fn(u32) -> B) {
    records_come_in_order_with_offsets(&make(2));
    reports_contain_the_offsets_of_records(&make(2));
    readers_start_at_the_given_position(&make(1));
    topics_and_partitions_are_separate(&make(3));
    a_waiting_reader_wakes_for_a_new_record(&make(1));
    partitions_can_be_added_to_and_removed_from_a_reader(&make(2));
    next_offset_is_the_offset_of_the_next_record(&make(2));
}

/// Runs the suite of a bus that carries the ledger; `make` creates a new one.
///
/// # Panics
/// Panics if the backend does not conform.
pub fn run_ledger<B: Bus>(make: impl Fn() -> B) {
    all_readers_of_the_ledger_read_the_same_records_in_order(&make());
}

fn read<R: LogReader>(reader: &mut R, records: usize) -> Vec<BusRecord> {
    let mut all = Vec::new();
    while all.len() < records {
        let some = reader.poll(READ_WAIT, records - all.len());
        assert!(!some.is_empty(), "{} of {records} records arrived", all.len());
        all.extend(some);
    }
    all
}

fn records_come_in_order_with_offsets<B: Bus>(bus: &B) {
    let mut log = bus.writer(Topic::Calls);
    for number in 0..100_u8 {
        log.append(u32::from(number % 2), vec![number], 0).expect("the queue has room");
    }
    let mut reader = bus.reader(Topic::Calls, &[0, 1], ReadFrom::Oldest);
    let all = read(&mut reader, 100);
    for partition in [0, 1] {
        let mine: Vec<_> = all.iter().filter(|record| record.partition == partition).collect();
        assert!(mine.windows(2).all(|two| two[0].offset + 1 == two[1].offset && two[0].payload < two[1].payload));
        assert!(mine.windows(2).all(|two| two[0].appended <= two[1].appended));
        assert_eq!(mine.len(), 50);
    }
}

fn reports_contain_the_offsets_of_records<B: Bus>(bus: &B) {
    let mut log = bus.writer(Topic::Calls);
    for tag in 0..20 {
        log.append(1, vec![1, 2, 3], tag).expect("the queue has room");
    }
    let all = read(&mut bus.reader(Topic::Calls, &[1], ReadFrom::Oldest), 20);
    let mut reports = Vec::new();
    while reports.len() < 20 {
        reports.extend(log.reports());
        std::thread::yield_now();
    }
    for (report, tag) in reports.iter().zip(0..) {
        assert_eq!((report.partition, report.tag), (1, tag));
        assert!(all.iter().any(|record| Some(record.offset) == report.offset));
    }
    assert!(log.reports().is_empty(), "a report is returned once");
}

fn readers_start_at_the_given_position<B: Bus>(bus: &B) {
    let mut log = bus.writer(Topic::Signals);
    for number in 0..10_u8 {
        log.append(0, vec![number], 0).expect("the queue has room");
    }
    let all = read(&mut bus.reader(Topic::Signals, &[0], ReadFrom::Oldest), 10);
    let seventh = all[7].offset;
    assert_eq!(read(&mut bus.reader(Topic::Signals, &[0], ReadFrom::Offset(seventh)), 3)[0].payload, [7]);
    let eighth = all[8].appended;
    let since = read(&mut bus.reader(Topic::Signals, &[0], ReadFrom::Time(eighth)), 1);
    assert!(since[0].appended == eighth && since[0].offset <= all[8].offset);
    let mut next = bus.reader(Topic::Signals, &[0], ReadFrom::Next);
    log.append(0, vec![99], 0).expect("the queue has room");
    assert_eq!(read(&mut next, 1)[0].payload, [99]);
}

fn topics_and_partitions_are_separate<B: Bus>(bus: &B) {
    assert_eq!(Topic::OF_DEPLOYMENT.map(|topic| bus.partitions(topic)), [3, 3, 1, 1]);
    bus.writer(Topic::Calls).append(2, vec![1], 0).expect("the queue has room");
    bus.writer(Topic::Presence).append(0, vec![2], 0).expect("the queue has room");
    assert_eq!(read(&mut bus.reader(Topic::Calls, &[2], ReadFrom::Oldest), 1)[0].payload, [1]);
    assert_eq!(read(&mut bus.reader(Topic::Presence, &[0], ReadFrom::Oldest), 1)[0].payload, [2]);
    assert!(bus.reader(Topic::Calls, &[0, 1], ReadFrom::Oldest).poll(Duration::ZERO, 10).is_empty());
}

fn a_waiting_reader_wakes_for_a_new_record<B: Bus>(bus: &B) {
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);
    let waiting = std::thread::spawn(move || read(&mut reader, 1));
    bus.writer(Topic::Calls).append(0, vec![5], 0).expect("the queue has room");
    assert_eq!(waiting.join().expect("the reader wakes")[0].payload, [5]);
}

fn partitions_can_be_added_to_and_removed_from_a_reader<B: Bus>(bus: &B) {
    let mut log = bus.writer(Topic::Calls);
    for partition in [0, 1, 0, 1] {
        log.append(partition, vec![1], 0).expect("the queue has room");
    }
    log.flush(READ_WAIT);
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);
    assert!(read(&mut reader, 2).iter().all(|record| record.partition == 0));
    reader.add(1, ReadFrom::Offset(1));
    assert_eq!((reader.next(0), reader.next(1)), (Some(2), Some(1)));
    let added = read(&mut reader, 1);
    assert_eq!(reader.next(1), Some(2));
    assert_eq!((added[0].partition, added[0].offset), (1, 1), "partition 0 keeps its position");
    reader.remove(1);
    assert_eq!(reader.next(1), None);
    log.append(1, vec![2], 0).expect("the queue has room");
    log.append(0, vec![3], 0).expect("the queue has room");
    assert_eq!(read(&mut reader, 1)[0].payload, [3]);
}

/// Returns the offset of the next record, as soon as the bus knows it.
fn next_offset<B: Bus>(bus: &B, topic: Topic, partition: Partition) -> Offset {
    let waited = Stopwatch::start();
    loop {
        if let Some(next) = bus.next_offset(topic, partition) {
            return next;
        }
        assert!(waited.elapsed() < READ_WAIT, "the bus does not tell the next offset");
        std::thread::sleep(PROBE_PAUSE);
    }
}

fn next_offset_is_the_offset_of_the_next_record<B: Bus>(bus: &B) {
    assert_eq!(next_offset(bus, Topic::Calls, 1), 0);
    let mut log = bus.writer(Topic::Calls);
    for _ in 0..3 {
        log.append(1, vec![1], 0).expect("the queue has room");
    }
    log.flush(READ_WAIT);
    assert_eq!(next_offset(bus, Topic::Calls, 1), 3);
}

fn all_readers_of_the_ledger_read_the_same_records_in_order<B: Bus>(bus: &B) {
    assert_eq!((bus.partitions(Topic::Ledger), next_offset(bus, Topic::Ledger, 0)), (1, 0));
    assert_ne!(bus.log_id(Topic::Ledger), 0);
    let mut early = bus.reader(Topic::Ledger, &[0], ReadFrom::Oldest);
    let mut writers = [bus.writer(Topic::Ledger), bus.writer(Topic::Ledger)];
    for number in 0..40_u8 {
        writers[usize::from(number % 2)].append(0, vec![number], number.into()).expect("the queue has room");
    }
    for writer in &mut writers {
        writer.flush(READ_WAIT);
        assert_eq!(writer.reports().len(), 20);
    }
    let all = read(&mut early, 40);
    assert_eq!(read(&mut bus.reader(Topic::Ledger, &[0], ReadFrom::Oldest), 40), all);
    for odd in [0, 1] {
        let of_writer: Vec<u8> =
            all.iter().map(|record| record.payload[0]).filter(|number| number % 2 == odd).collect();
        assert!(of_writer.is_sorted() && of_writer.len() == 20, "{of_writer:?}");
    }
}
