//! Bus inside one process: logs in memory, bounded in bytes and in age.
//!
//! Each partition keeps its newest records; those of `rules` and `ledger` are kept without a time limit, as on every bus.
//! A reader that falls behind the oldest record continues there, and the skipped records are counted
//! ([`LogReader::missed`]). Records are visible to readers at once; delivery reports are returned by the next
//! [`LogWriter::reports`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::logs::partitions_of;
use super::reports::ReportQueue;
use super::{Bus, BusRecord, DeliveryReport, LogReader, LogWriter, QueueFull, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

/// Maximum size of the records of one partition, in bytes.
pub const PARTITION_BYTES_MAX: usize = 16 << 20;
/// Maximum age of a record when the next one is appended, in ms. The readers are in the same process and read at once.
const RECORD_AGE_MAX_MS: u64 = 60_000;

/// Number of records for which a partition keeps space.
const RECORDS_LEN_KEPT: usize = 1_000;

/// In-memory bus; clones share its logs.
#[derive(Clone)]
pub struct EmbeddedBus {
    clock: Arc<dyn Clock>,
    log_id: LogId,
    /// All topics, in the order of [`Topic::ALL`].
    topics: [Arc<EmbeddedTopic>; Topic::ALL.len()],
}

/// Writer of a topic of an [`EmbeddedBus`].
pub struct EmbeddedWriter {
    clock: Arc<dyn Clock>,
    topic: Arc<EmbeddedTopic>,
    reports: ReportQueue,
}

/// Reader of a topic of an [`EmbeddedBus`].
pub struct EmbeddedReader {
    topic: Arc<EmbeddedTopic>,
    /// Offset of the next record to be read from each partition.
    positions: BTreeMap<Partition, Offset>,
    missed: u64,
}

struct EmbeddedTopic {
    age_max_ms: u64,
    partitions: Mutex<Vec<PartitionRecords>>,
    appended: Condvar,
}

/// Records of one partition, from offset `first` on.
#[derive(Default)]
struct PartitionRecords {
    first: Offset,
    bytes: usize,
    records: VecDeque<(Timestamp, Vec<u8>)>,
}

impl EmbeddedBus {
    /// Creates a bus whose topics `calls` and `signals` have `partitions` partitions.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, partitions: u32) -> Self {
        let log_id = clock.now().as_ms();
        let topics = Topic::ALL.map(|topic| {
            let partitions = 0..partitions_of(topic, partitions.max(1));
            let partitions = Mutex::new(partitions.map(|_| PartitionRecords::default()).collect());
            let is_kept = matches!(topic, Topic::Rules | Topic::Ledger);
            let age_max_ms = if is_kept { u64::MAX } else { RECORD_AGE_MAX_MS };
            Arc::new(EmbeddedTopic { age_max_ms, partitions, appended: Condvar::new() })
        });
        Self { clock, log_id, topics }
    }

    fn topic(&self, topic: Topic) -> &Arc<EmbeddedTopic> {
        &self.topics[topic as usize]
    }
}

impl Bus for EmbeddedBus {
    type Writer = EmbeddedWriter;
    type Reader = EmbeddedReader;

    fn is_shared(&self) -> bool {
        false
    }

    fn partitions(&self, topic: Topic) -> u32 {
        u32::try_from(self.topic(topic).partitions.lock().len()).unwrap_or(u32::MAX)
    }

    fn log_id(&self, _: Topic) -> LogId {
        self.log_id
    }

    fn writer(&self, topic: Topic) -> EmbeddedWriter {
        EmbeddedWriter { clock: self.clock.clone(), topic: self.topic(topic).clone(), reports: ReportQueue::default() }
    }

    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> EmbeddedReader {
        let mut reader = EmbeddedReader { topic: self.topic(topic).clone(), positions: BTreeMap::new(), missed: 0 };
        for partition in partitions {
            reader.add(*partition, from);
        }
        reader
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        self.topic(topic).partitions.lock().get(partition as usize).map(PartitionRecords::next)
    }
}

impl LogWriter for EmbeddedWriter {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), QueueFull> {
        let now = self.clock.now();
        let mut partitions = self.topic.partitions.lock();
        let log = &mut partitions[partition as usize];
        let offset = log.next();
        log.bytes += payload.len();
        log.records.push_back((now, payload));
        while log.records.len() > 1
            && (log.bytes > PARTITION_BYTES_MAX || log.oldest_age_ms(now) > self.topic.age_max_ms)
        {
            log.bytes -= log.records.pop_front().map_or(0, |(_, payload)| payload.len());
            log.first += 1;
        }
        if log.records.capacity() > 4 * log.records.len() + RECORDS_LEN_KEPT {
            log.records.shrink_to_fit();
        }
        drop(partitions);
        self.topic.appended.notify_all();
        self.reports.push(DeliveryReport { partition, tag, offset: Some(offset) });
        Ok(())
    }

    fn reports(&mut self) -> Vec<DeliveryReport> {
        self.reports.take()
    }

    fn flush(&mut self, _: Duration) {}
}

impl EmbeddedReader {
    fn take(&mut self, partitions: &[PartitionRecords], records_max: usize) -> Vec<BusRecord> {
        let mut taken = Vec::new();
        for (&partition, offset) in &mut self.positions {
            let log = &partitions[partition as usize];
            self.missed += log.first.saturating_sub(*offset);
            *offset = log.first.max(*offset);
            let skip = usize::try_from(*offset - log.first).unwrap_or(usize::MAX);
            for (appended, payload) in log.records.iter().skip(skip).take(records_max - taken.len()) {
                taken.push(BusRecord { partition, offset: *offset, appended: *appended, payload: payload.clone() });
                *offset += 1;
            }
        }
        taken
    }
}

impl LogReader for EmbeddedReader {
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<BusRecord> {
        let topic = self.topic.clone();
        let mut partitions = topic.partitions.lock();
        let taken = self.take(&partitions, records_max);
        if !taken.is_empty() || wait.is_zero() {
            return taken;
        }
        topic.appended.wait_for(&mut partitions, wait);
        self.take(&partitions, records_max)
    }

    fn add(&mut self, partition: Partition, from: ReadFrom) {
        let offset = self.topic.partitions.lock()[partition as usize].start_offset(from);
        self.positions.insert(partition, offset);
    }

    fn remove(&mut self, partition: Partition) {
        self.positions.remove(&partition);
    }

    fn next(&self, partition: Partition) -> Option<Offset> {
        self.positions.get(&partition).copied()
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

impl PartitionRecords {
    fn next(&self) -> Offset {
        self.first + self.records.len() as u64
    }

    fn oldest_age_ms(&self, now: Timestamp) -> u64 {
        self.records.front().map_or(0, |(appended, _)| now.ms_since(*appended))
    }

    fn start_offset(&self, from: ReadFrom) -> Offset {
        match from {
            ReadFrom::Oldest => self.first,
            ReadFrom::Next => self.next(),
            ReadFrom::Offset(offset) => offset.max(self.first),
            ReadFrom::Time(time) => self.first + self.records.partition_point(|(appended, _)| *appended < time) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use tollgate_core::clock::SystemClock;

    /// Clock that a test sets, in ms.
    #[derive(Debug, Default)]
    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_ms(self.0.load(Ordering::Relaxed))
        }
    }

    fn bus(partitions: u32) -> EmbeddedBus {
        EmbeddedBus::new(Arc::new(SystemClock::start()), partitions)
    }

    #[test]
    fn it_conforms() {
        super::super::conformance::run(bus);
        super::super::conformance::run_ledger(|| bus(1));
    }

    #[test]
    fn a_reader_that_falls_behind_continues_and_counts_the_missed_records() {
        let bus = bus(1);
        let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);
        let mut log = bus.writer(Topic::Calls);
        let record = vec![7; PARTITION_BYTES_MAX / 4];
        for tag in 0..10 {
            log.append(0, record.clone(), tag).unwrap();
        }
        let read = reader.poll(Duration::ZERO, 100);
        assert_eq!(read.len() as u64 + reader.missed(), 10);
        assert_eq!(read.last().unwrap().offset, 9);
    }
    /// capped: the records of a flood leave with the heartbeats that follow it, and rules stay.
    #[test]
    fn records_leave_a_minute_later_except_rules() {
        let clock = Arc::new(SetClock::default());
        let bus = EmbeddedBus::new(clock.clone(), 1);
        let (mut calls, mut rules) = (bus.writer(Topic::Calls), bus.writer(Topic::Rules));
        for _ in 0..10_000 {
            calls.append(0, vec![7; 100], 0).unwrap();
            rules.append(0, vec![7], 0).unwrap();
        }
        let held = |topic| {
            let log = &bus.topic(topic).partitions.lock()[0];
            (log.records.len(), log.bytes, log.records.capacity() < 2 * RECORDS_LEN_KEPT)
        };
        for (ms, expected) in [(RECORD_AGE_MAX_MS, (10_001, 1_000_001, false)), (RECORD_AGE_MAX_MS + 1, (2, 2, true))] {
            clock.0.store(ms, Ordering::Relaxed);
            calls.append(0, vec![8], 0).unwrap();
            rules.append(0, vec![8], 0).unwrap();
            assert_eq!(held(Topic::Calls), expected, "at {ms}");
        }
        assert_eq!(held(Topic::Rules).0, 10_002);
    }
}
