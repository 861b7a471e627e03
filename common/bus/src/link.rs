//! Link to a bus in another region: it has a delay, and can be cut.
//!
//! A [`LinkedBus`] is the far bus as one region sees it. Records reach its readers after the delay of a round trip, so that a
//! writer sees its own record as late as it would over the real link. While the link is cut, readers receive nothing, and
//! writers have no room. After it is healed, readers continue where they stopped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

use super::{Bus, BusError, BusRecord, DeliveryReport, LogReader, LogWriter, QueueFull, ReadFrom, Topic};

/// Maximum time for which a reader waits before it looks again if the link was healed.
const CUT_WAIT: Duration = Duration::from_millis(20);

/// Link between a region and a bus; clones are the same link.
#[derive(Clone, Debug)]
pub struct Link {
    /// Time of one way.
    delay: Duration,
    is_cut: Arc<AtomicBool>,
}

/// Bus behind a link.
#[derive(Clone)]
pub struct LinkedBus<B> {
    bus: B,
    link: Link,
    clock: Arc<dyn Clock>,
}

/// Writer behind a link.
pub struct LinkedWriter<W> {
    writer: W,
    link: Link,
}

/// Reader behind a link.
pub struct LinkedReader<R> {
    reader: R,
    link: Link,
    clock: Arc<dyn Clock>,
    /// Records on their way, each with the time of its arrival.
    in_flight: VecDeque<(Timestamp, BusRecord)>,
}

impl Link {
    /// Creates a link; `delay` is the time of one way.
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self { delay, is_cut: Arc::default() }
    }

    /// Cuts the link, or heals it.
    pub fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Returns true while the link is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    fn round_trip_ms(&self) -> u64 {
        u64::try_from(2 * self.delay.as_millis()).unwrap_or(u64::MAX)
    }
}

impl<B: Bus> LinkedBus<B> {
    /// Creates the bus as it is seen over a link.
    #[must_use]
    pub fn new(bus: B, link: Link, clock: Arc<dyn Clock>) -> Self {
        Self { bus, link, clock }
    }
}

impl<B: Bus> Bus for LinkedBus<B> {
    type Writer = LinkedWriter<B::Writer>;
    type Reader = LinkedReader<B::Reader>;

    fn prepare(&self, wait: Duration) -> Result<(), BusError> {
        if self.link.is_cut() {
            return Err(BusError::Unreachable { brokers: "the far region".into(), reason: "the link is cut".into() });
        }
        self.bus.prepare(wait)
    }

    fn is_shared(&self) -> bool {
        self.bus.is_shared()
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.bus.partitions(topic)
    }

    fn log_id(&self, topic: Topic) -> LogId {
        self.bus.log_id(topic)
    }

    fn writer(&self, topic: Topic) -> Self::Writer {
        LinkedWriter { writer: self.bus.writer(topic), link: self.link.clone() }
    }

    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> Self::Reader {
        let (reader, link, clock) = (self.bus.reader(topic, partitions, from), self.link.clone(), self.clock.clone());
        LinkedReader { reader, link, clock, in_flight: VecDeque::new() }
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        if self.link.is_cut() { None } else { self.bus.next_offset(topic, partition) }
    }
}

impl<W: LogWriter> LogWriter for LinkedWriter<W> {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), QueueFull> {
        if self.link.is_cut() { Err(QueueFull(payload)) } else { self.writer.append(partition, payload, tag) }
    }

    fn reports(&mut self) -> Vec<DeliveryReport> {
        self.writer.reports()
    }

    fn flush(&mut self, wait: Duration) {
        if !self.link.is_cut() {
            self.writer.flush(wait);
        }
    }
}

impl<R: LogReader> LogReader for LinkedReader<R> {
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<BusRecord> {
        if self.link.is_cut() {
            std::thread::sleep(wait.min(CUT_WAIT));
            return Vec::new();
        }
        let delay_ms = self.link.round_trip_ms();
        let now = self.clock.now();
        let due_in = self.in_flight.front().map(|(due, _)| Duration::from_millis(due.ms_since(now)));
        let records = self.reader.poll(due_in.map_or(wait, |due_in| due_in.min(wait)), records_max);
        let now = self.clock.now();
        self.in_flight.extend(records.into_iter().map(|record| (now.plus_ms(delay_ms), record)));
        let arrived = self.in_flight.iter().take(records_max).take_while(|(due, _)| *due <= now).count();
        self.in_flight.drain(..arrived).map(|(_, record)| record).collect()
    }

    fn add(&mut self, partition: Partition, from: ReadFrom) {
        self.reader.add(partition, from);
    }

    fn remove(&mut self, partition: Partition) {
        self.in_flight.retain(|(_, record)| record.partition != partition);
        self.reader.remove(partition);
    }

    fn next(&self, partition: Partition) -> Option<Offset> {
        let on_its_way = self.in_flight.iter().find(|(_, record)| record.partition == partition);
        on_its_way.map(|(_, record)| record.offset).or_else(|| self.reader.next(partition))
    }

    fn missed(&self) -> u64 {
        self.reader.missed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use tollgate_core::clock::SystemClock;

    use super::*;
    use crate::embedded::EmbeddedBus;

    /// Clock that a test sets, in ms.
    #[derive(Debug, Default)]
    struct LinkClock(AtomicU64);

    impl Clock for LinkClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_ms(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_bus_behind_a_link_conforms() {
        let link = Link::new(Duration::ZERO);
        super::super::conformance::run(|partitions| {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
            LinkedBus::new(EmbeddedBus::new(clock.clone(), partitions), link.clone(), clock)
        });
    }

    #[test]
    fn records_arrive_after_a_round_trip_and_none_while_the_link_is_cut() {
        let clock = Arc::new(LinkClock::default());
        let link = Link::new(Duration::from_millis(40));
        let bus = LinkedBus::new(EmbeddedBus::new(clock.clone(), 1), link.clone(), clock.clone());
        let (mut log, mut reader) = (bus.writer(Topic::Calls), bus.reader(Topic::Calls, &[0], ReadFrom::Oldest));
        let mut read = |ms| {
            clock.0.store(ms, Ordering::Relaxed);
            let records = reader.poll(Duration::ZERO, 10);
            (records.into_iter().map(|record| record.payload[0]).collect::<Vec<_>>(), reader.next(0))
        };
        log.append(0, vec![1], 0).expect("the link is whole");
        assert_eq!(read(0), (vec![], Some(0)));
        log.append(0, vec![2], 0).expect("the link is whole");
        assert_eq!(read(79), (vec![], Some(0)));
        link.set_cut(true);
        assert_eq!(log.append(0, vec![3], 0), Err(QueueFull(vec![3])));
        assert_eq!(read(1_000), (vec![], Some(0)));
        assert_eq!(bus.next_offset(Topic::Calls, 0), None);
        assert!(bus.prepare(Duration::ZERO).is_err_and(|error| error.is_transient()));
        link.set_cut(false);
        assert_eq!(bus.prepare(Duration::ZERO), Ok(()));
        assert_eq!(read(1_000), (vec![1, 2], Some(2)));
        log.append(0, vec![3], 0).expect("the link is whole again");
        assert_eq!((read(1_000), read(1_079), read(1_080)), ((vec![], Some(2)), (vec![], Some(2)), (vec![3], Some(3))));
    }
}
