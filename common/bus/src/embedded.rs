//! The bus inside one process: logs in memory, with a cap.
//!
//! A log keeps its newest bytes; a reader that falls behind what is kept goes on at the oldest record, and the number of
//! records it missed is counted. Appends are visible at once, and reports come with the next look at them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Bus, Delivered, From, Full, Log, Reader, Report, Topic};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

/// How many bytes of records a partition keeps.
pub const PARTITION_BYTES_MAX: usize = 16 << 20;
/// How many reports wait for their writer; older ones are forgotten, which reads as "unknown".
const REPORTS_LEN_MAX: usize = 65_536;

/// An embedded bus; clones are the same bus.
#[derive(Clone)]
pub struct Embedded {
    clock: Arc<dyn Clock>,
    log_id: LogId,
    calls: Arc<Shared>,
    signals: Arc<Shared>,
    presence: Arc<Shared>,
    rules: Arc<Shared>,
}

/// Writes a topic of an [`Embedded`] bus.
pub struct EmbeddedLog {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    reports: VecDeque<Report>,
}

/// Reads a topic of an [`Embedded`] bus.
pub struct EmbeddedReader {
    shared: Arc<Shared>,
    places: Vec<(Partition, Offset)>,
    missed: u64,
}

struct Shared {
    partitions: Mutex<Vec<Kept>>,
    appended: Condvar,
}

/// The records of one partition that are kept.
#[derive(Default)]
struct Kept {
    first: Offset,
    bytes: usize,
    records: VecDeque<(Timestamp, Vec<u8>)>,
}

impl Embedded {
    /// A bus whose `calls` and `signals` have so many partitions.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, partitions: u32) -> Self {
        let log_id = clock.now().as_ms();
        let shared = |partitions: u32| {
            let partitions = Mutex::new((0..partitions.max(1)).map(|_| Kept::default()).collect());
            Arc::new(Shared { partitions, appended: Condvar::new() })
        };
        Self {
            clock,
            log_id,
            calls: shared(partitions),
            signals: shared(partitions),
            presence: shared(1),
            rules: shared(1),
        }
    }

    fn shared(&self, topic: Topic) -> &Arc<Shared> {
        match topic {
            Topic::Calls => &self.calls,
            Topic::Signals => &self.signals,
            Topic::Presence => &self.presence,
            Topic::Rules => &self.rules,
        }
    }
}

impl Bus for Embedded {
    type Log = EmbeddedLog;
    type Reader = EmbeddedReader;

    fn partitions(&self, topic: Topic) -> u32 {
        u32::try_from(self.shared(topic).partitions.lock().len()).unwrap_or(u32::MAX)
    }

    fn log_id(&self, _: Topic) -> LogId {
        self.log_id
    }

    fn log(&self, topic: Topic) -> EmbeddedLog {
        EmbeddedLog { clock: self.clock.clone(), shared: self.shared(topic).clone(), reports: VecDeque::new() }
    }

    fn read(&self, topic: Topic, partitions: &[Partition], from: From) -> EmbeddedReader {
        let mut reader = EmbeddedReader { shared: self.shared(topic).clone(), places: Vec::new(), missed: 0 };
        for partition in partitions {
            reader.add(*partition, from);
        }
        reader
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        self.shared(topic).partitions.lock().get(partition as usize).map(Kept::next)
    }
}

impl Log for EmbeddedLog {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), Full> {
        let now = self.clock.now();
        let mut partitions = self.shared.partitions.lock();
        let kept = &mut partitions[partition as usize];
        let offset = kept.next();
        kept.bytes += payload.len();
        kept.records.push_back((now, payload));
        while kept.bytes > PARTITION_BYTES_MAX && kept.records.len() > 1 {
            let dropped = kept.records.pop_front().map_or(0, |(_, payload)| payload.len());
            kept.bytes -= dropped;
            kept.first += 1;
        }
        drop(partitions);
        self.shared.appended.notify_all();
        self.reports.push_back(Report { partition, tag, offset: Some(offset) });
        if self.reports.len() > REPORTS_LEN_MAX {
            self.reports.pop_front();
        }
        Ok(())
    }

    fn reports(&mut self) -> Vec<Report> {
        self.reports.drain(..).collect()
    }

    fn flush(&mut self, _: Duration) {}
}

impl EmbeddedReader {
    fn take(places: &mut [(Partition, Offset)], missed: &mut u64, partitions: &[Kept], max: usize) -> Vec<Delivered> {
        let mut taken = Vec::new();
        for (partition, place) in places {
            let kept = &partitions[*partition as usize];
            *missed += kept.first.saturating_sub(*place);
            *place = kept.first.max(*place);
            let skip = usize::try_from(*place - kept.first).unwrap_or(usize::MAX);
            for (appended, payload) in kept.records.iter().skip(skip).take(max - taken.len()) {
                taken.push(Delivered {
                    partition: *partition,
                    offset: *place,
                    appended: *appended,
                    payload: payload.clone(),
                });
                *place += 1;
            }
        }
        taken
    }
}

impl Reader for EmbeddedReader {
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<Delivered> {
        let mut partitions = self.shared.partitions.lock();
        let taken = Self::take(&mut self.places, &mut self.missed, &partitions, records_max);
        if !taken.is_empty() || wait.is_zero() {
            return taken;
        }
        self.shared.appended.wait_for(&mut partitions, wait);
        Self::take(&mut self.places, &mut self.missed, &partitions, records_max)
    }

    fn add(&mut self, partition: Partition, from: From) {
        self.remove(partition);
        let place = self.shared.partitions.lock()[partition as usize].place(from);
        self.places.push((partition, place));
    }

    fn remove(&mut self, partition: Partition) {
        self.places.retain(|(read, _)| *read != partition);
    }

    fn next(&self, partition: Partition) -> Option<Offset> {
        self.places.iter().find(|(read, _)| *read == partition).map(|(_, place)| *place)
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

impl Kept {
    fn next(&self) -> Offset {
        self.first + self.records.len() as u64
    }

    fn place(&self, from: From) -> Offset {
        match from {
            From::Oldest => self.first,
            From::Next => self.next(),
            From::Offset(offset) => offset.max(self.first),
            From::Time(time) => self.first + self.records.partition_point(|(appended, _)| *appended < time) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::clock::SystemClock;

    fn bus(partitions: u32) -> Embedded {
        Embedded::new(Arc::new(SystemClock::start()), partitions)
    }

    #[test]
    fn it_is_a_bus() {
        super::super::conformance::run(bus);
    }

    #[test]
    fn a_reader_that_falls_behind_goes_on_and_counts_what_it_missed() {
        let bus = bus(1);
        let mut reader = bus.read(Topic::Calls, &[0], From::Oldest);
        let mut log = bus.log(Topic::Calls);
        let record = vec![7; PARTITION_BYTES_MAX / 4];
        for tag in 0..10 {
            log.append(0, record.clone(), tag).unwrap();
        }
        let read = reader.poll(Duration::ZERO, 100);
        assert_eq!(read.len() as u64 + reader.missed(), 10);
        assert_eq!(read.last().unwrap().offset, 9);
    }
}
