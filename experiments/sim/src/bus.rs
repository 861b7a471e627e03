//! The bus of a simulation: the logs of `calls`, `signals` and `presence`, and readers of them.
//!
//! Delays, losses and acknowledgements are not here but in [`super::environment`]: a record that gets here is in its
//! log. Records carry the time of the bus's own clock, which may be set. A topic that is recreated is empty and has another log id. Records that all agents read are decoded once, when they
//! are appended, and the agents share what was decoded: each of a thousand agents reads the heartbeats of all others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::{LogEnd, LogId, Offset, SignalBatch};
use tollgate_engine::Incoming;
use tollgate_wire::Record;

/// The logs.
#[derive(Debug)]
pub struct SimBus {
    /// The number of partitions of `calls` and `signals`.
    pub partitions: u32,
    /// The identity of the log `calls`.
    pub log_id: LogId,
    logs: BTreeMap<(&'static str, Partition), SimLog>,
    /// Difference of the bus's clock from true time, in ms.
    clock_offset_ms: i64,
    /// Records that neither an agent nor an aggregator wrote.
    forged: BTreeSet<(&'static str, Partition, Offset)>,
}

#[derive(Debug, Default)]
struct SimLog {
    records: Vec<BusRecord>,
    /// True times at which the records were appended.
    appended_at: Vec<Timestamp>,
    /// Decoded records, as agents read them; none of `calls`, which agents do not read.
    decoded: Vec<Arc<DecodedRecord>>,
    /// Number of the first records whose contents are gone.
    forgotten: usize,
}

/// A record that was decoded for all agents.
#[derive(Debug)]
pub(super) struct DecodedRecord {
    pub(super) partition: Partition,
    pub(super) offset: Offset,
    appended: Timestamp,
    content: DecodedContent,
}

#[derive(Debug)]
enum DecodedContent {
    Signals(SignalBatch),
    Presence(Presence),
    Undecodable(Topic),
}

/// The positions of a reader of one topic.
#[derive(Clone, Debug)]
pub(super) struct SimReader {
    topic: Topic,
    positions: BTreeMap<Partition, Offset>,
}

impl SimBus {
    pub(super) fn new(partitions: u32) -> Self {
        Self { partitions, log_id: 1, logs: BTreeMap::new(), clock_offset_ms: 0, forged: BTreeSet::new() }
    }

    /// Returns the records of a log.
    #[must_use]
    pub fn records(&self, topic: Topic, partition: Partition) -> &[BusRecord] {
        self.logs.get(&(topic.as_str(), partition)).map_or(&[], |log| &log.records)
    }

    /// Returns the offset of the record that will be appended next.
    #[must_use]
    pub fn end(&self, topic: Topic, partition: Partition) -> Offset {
        self.records(topic, partition).len() as Offset
    }

    pub(super) fn append(&mut self, topic: Topic, partition: Partition, now: Timestamp, payload: &[u8]) -> Offset {
        let appended = Timestamp::from_ms(now.as_ms().saturating_add_signed(self.clock_offset_ms));
        let log = self.logs.entry((topic.as_str(), partition)).or_default();
        let offset = log.records.len() as Offset;
        let content = match topic {
            Topic::Signals => Some(SignalBatch::decode(payload).map(DecodedContent::Signals)),
            Topic::Presence => Some(Presence::decode(payload).map(DecodedContent::Presence)),
            _ => None,
        };
        log.decoded.extend(content.map(|content| {
            let content = content.unwrap_or(DecodedContent::Undecodable(topic));
            Arc::new(DecodedRecord { partition, offset, appended, content })
        }));
        log.records.push(BusRecord { partition, offset, appended, payload: payload.to_vec() });
        log.appended_at.push(now);
        offset
    }

    /// Returns true if neither an agent nor an aggregator wrote a record.
    #[must_use]
    pub fn is_forged(&self, topic: Topic, partition: Partition, offset: Offset) -> bool {
        self.forged.contains(&(topic.as_str(), partition, offset))
    }

    pub(super) fn mark_forged(&mut self, topic: Topic, partition: Partition, offset: Offset) {
        self.forged.insert((topic.as_str(), partition, offset));
    }

    /// Drops the contents of records that were appended before an instant. Nobody may read them any more.
    pub(super) fn forget_before(&mut self, instant: Timestamp) {
        for log in self.logs.values_mut() {
            let until = log.appended_at.partition_point(|appended| *appended < instant);
            log.records[log.forgotten..until].iter_mut().for_each(|record| record.payload = Vec::new());
            for decoded in log.decoded.iter_mut().take(until).skip(log.forgotten) {
                let content = DecodedContent::Undecodable(Topic::Signals);
                let DecodedRecord { partition, offset, appended, .. } = **decoded;
                *decoded = Arc::new(DecodedRecord { partition, offset, appended, content });
            }
            log.forgotten = until;
        }
    }

    pub(super) fn step_clock(&mut self, by_ms: i64) {
        self.clock_offset_ms += by_ms;
    }

    pub(super) fn recreate_calls(&mut self) {
        self.log_id += 1;
        self.logs.retain(|(topic, _), _| *topic != Topic::Calls.as_str());
        self.forged.retain(|(topic, ..)| *topic != Topic::Calls.as_str());
    }
}

impl DecodedRecord {
    /// Returns what an agent receives, with the end of the counted log if the agent needs it.
    pub(super) fn incoming(&self, end: Option<LogEnd>) -> Incoming<'_> {
        let appended = self.appended;
        match &self.content {
            DecodedContent::Signals(batch) => Incoming::Signals { appended, batch, end },
            DecodedContent::Presence(presence) => Incoming::Presence { appended, presence },
            DecodedContent::Undecodable(topic) => Incoming::Undecodable(*topic, "garbage"),
        }
    }
}

impl SimReader {
    pub(super) fn new(topic: Topic) -> Self {
        Self { topic, positions: BTreeMap::new() }
    }

    /// Returns a reader of all partitions that begins with the next record of each.
    pub(super) fn from_next(topic: Topic, partitions: u32, bus: &SimBus) -> Self {
        let positions = (0..partitions).map(|partition| (partition, bus.end(topic, partition))).collect();
        Self { topic, positions }
    }

    /// Starts to read a partition at the first record that was appended at a time or later.
    pub(super) fn add(&mut self, partition: Partition, since: Option<Timestamp>, bus: &SimBus) {
        let since = since.unwrap_or_default();
        let records = bus.records(self.topic, partition);
        let position = records.iter().position(|record| record.appended >= since);
        self.positions.insert(partition, position.unwrap_or(records.len()) as Offset);
    }

    pub(super) fn remove(&mut self, partition: Partition) {
        self.positions.remove(&partition);
    }

    /// Returns the offset of the record that is read next.
    pub(super) fn position(&self, partition: Partition) -> Option<Offset> {
        self.positions.get(&partition).copied()
    }

    /// Returns the next records that were appended until an instant.
    pub(super) fn poll(&mut self, bus: &SimBus, until: Timestamp, records_max: usize) -> Vec<BusRecord> {
        let unread = self.unread(bus, until, records_max);
        unread.into_iter().flat_map(|(log, places)| &log.records[places]).cloned().collect()
    }

    /// Returns the next records of a topic that agents read, as [`SimReader::poll`] does.
    pub(super) fn poll_decoded(
        &mut self,
        bus: &SimBus,
        until: Timestamp,
        records_max: usize,
    ) -> Vec<Arc<DecodedRecord>> {
        let unread = self.unread(bus, until, records_max);
        unread.into_iter().flat_map(|(log, places)| &log.decoded[places]).cloned().collect()
    }

    /// Returns the places of the next records in their logs, and moves the positions behind them. A position behind the end of
    /// its log, as after the topic was recreated, goes back to the beginning, as `auto.offset.reset` does.
    fn unread<'b>(&mut self, bus: &'b SimBus, until: Timestamp, records_max: usize) -> Vec<(&'b SimLog, Range<usize>)> {
        let (mut unread, mut left) = (Vec::new(), records_max);
        for (partition, position) in &mut self.positions {
            let Some(log) = bus.logs.get(&(self.topic.as_str(), *partition)) else {
                *position = 0;
                continue;
            };
            if *position > log.records.len() as Offset {
                *position = 0;
            }
            let begin = usize::try_from(*position).unwrap_or(usize::MAX);
            let len = log.appended_at[begin..].iter().take(left).take_while(|appended| **appended <= until).count();
            if len > 0 {
                unread.push((log, begin..begin + len));
            }
            left -= len;
            *position += len as Offset;
        }
        unread
    }
}
