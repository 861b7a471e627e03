//! Readers over a real broker that restarts.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_servers::{Kafka as Broker, scaled, wait_for};

const TIMEOUT: Duration = Duration::from_mins(1);
const PARTITIONS: u32 = 32;
const READERS: u8 = 24;

/// Ends the readers, also if the test fails.
struct EndReaders<'a>(&'a AtomicBool);

impl Drop for EndReaders<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// N7: readers of many partitions go on after each restart of a broker, and miss nothing. Without the correction, the process
/// crashes at one of the first restarts, or a reader stops.
#[test]
fn readers_go_on_after_each_restart_of_a_broker() {
    tollgate_librdkafka::link();
    let restarts = u8::try_from(scaled(40)).expect("few");
    let mut broker = Broker::start();
    let bus = KafkaBus::new(KafkaSettings::new(&broker.brokers()).partitioned(PARTITIONS)).expect("settings");
    bus.prepare(TIMEOUT).expect("a broker");
    let partitions: Vec<_> = (0..PARTITIONS).collect();
    let mut log = bus.writer(Topic::Calls);
    let read: Vec<AtomicU8> = (0..READERS).map(|_| AtomicU8::new(0)).collect();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = EndReaders(&ended);
        for read in &read {
            let (ended, mut reader) = (&ended, bus.reader(Topic::Calls, &partitions, ReadFrom::Oldest));
            scope.spawn(move || {
                let mut next = 0;
                while next <= restarts && !ended.load(Ordering::Relaxed) {
                    for record in reader.poll(Duration::from_millis(100), 100) {
                        assert_eq!((record.payload[0], record.offset), (next, next.into()));
                        next += 1;
                        read.store(next, Ordering::Release);
                    }
                }
            });
        }
        for restart in 0..=restarts {
            log.append(0, vec![restart], restart.into()).expect("the queue has room");
            log.flush(TIMEOUT);
            let all = || read.iter().all(|read| read.load(Ordering::Acquire) == restart + 1).then_some(());
            wait_for(&format!("all readers after {restart} restarts"), all);
            if restart < restarts {
                broker.kill();
                broker.restart();
            }
        }
    });
}
