//! Content of the log, read from its beginning independently of the aggregator.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, BusRecord, LogReader, ReadFrom, Topic};
use tollgate_core::messages::calls::{Batch, Outcome};
use tollgate_core::messages::signals::SignalBatch;
use tollgate_wire::Record;

use crate::support::wait_for;

/// Units by counter id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
}

/// Content of `calls`.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) counters: HashMap<String, Units>,
    pub(crate) by_agent: HashMap<String, u64>,
    pub(crate) batches: usize,
    pub(crate) duplicates: usize,
}

pub(crate) fn bus(brokers: &str) -> KafkaBus {
    let bus = KafkaBus::new(KafkaSettings::new(brokers)).expect("settings");
    wait_for("Kafka", || bus.prepare(Duration::from_secs(5)).ok());
    bus
}

/// Returns the offset of the next record in each partition of `calls`.
pub(crate) fn ends(bus: &KafkaBus) -> Vec<u64> {
    let end = |partition| wait_for("the end of the log", || bus.next_offset(Topic::Calls, partition));
    (0..bus.partitions(Topic::Calls)).map(end).collect()
}

/// Counts `calls` from offset 0 to its present end, each batch once.
pub(crate) fn count(bus: &KafkaBus) -> Counted {
    let (mut counted, mut seen) = (Counted::default(), HashSet::new());
    for record in all(bus, Topic::Calls, &ends(bus)) {
        let Ok(batch) = Batch::decode(&record.payload) else { continue };
        let name = &batch.name;
        if !seen.insert((name.agent.clone(), name.epoch, name.partition, name.sequence)) {
            counted.duplicates += 1;
            continue;
        }
        counted.batches += 1;
        for row in &batch.rows {
            *counted.by_agent.entry(name.agent.to_string()).or_default() += u64::from(row.home.is_some());
            let Some(index) = row.counter else { continue };
            let id = batch.counters[index as usize].id.to_string();
            let units = counted.counters.entry(id).or_default();
            match row.outcome {
                Outcome::Admitted | Outcome::Charged | Outcome::Corrected => units.admitted += row.cost.unsigned_abs(),
                Outcome::Denied(_) => units.denied += row.cost.unsigned_abs(),
                Outcome::Spared | Outcome::Reset => {}
            }
        }
    }
    counted
}

/// Returns the number of calls of an agent in `calls`, each batch once.
pub(crate) fn calls_of(bus: &KafkaBus, agent: &str) -> u64 {
    count(bus).by_agent.get(agent).copied().unwrap_or_default()
}

/// Returns the last batch with counters in a partition of `calls`.
pub(crate) fn last_batch(bus: &KafkaBus, partition: u32) -> Option<Batch> {
    let mut ends = vec![0; partition as usize];
    ends.push(bus.next_offset(Topic::Calls, partition)?);
    let batches = all(bus, Topic::Calls, &ends).into_iter().rev();
    batches.filter_map(|record| Batch::decode(&record.payload).ok()).find(|batch| !batch.counters.is_empty())
}

/// Returns all retained records of `signals`, up to its present end, with their append times.
pub(crate) fn signals(bus: &KafkaBus) -> Vec<(BusRecord, SignalBatch)> {
    let end = |partition| wait_for("the end of the log", || bus.next_offset(Topic::Signals, partition));
    let ends: Vec<_> = (0..bus.partitions(Topic::Signals)).map(end).collect();
    let decoded = |record: BusRecord| {
        let batch = SignalBatch::decode(&record.payload).expect("a signal");
        (record, batch)
    };
    all(bus, Topic::Signals, &ends).into_iter().map(decoded).collect()
}

/// Returns the beginnings of the ids of the calls with a home row in `calls`, with its partition.
pub(crate) fn homes(bus: &KafkaBus) -> HashSet<String> {
    let mut homes = HashSet::new();
    for record in all(bus, Topic::Calls, &ends(bus)) {
        let Ok(batch) = Batch::decode(&record.payload) else { continue };
        let (name, partition) = (&batch.name, record.partition);
        let id = |call: u64| format!("{}-{:x}-{call:x}.{partition:x}-", name.agent, name.epoch);
        homes.extend(batch.rows.iter().filter(|row| row.home.is_some()).map(|row| id(row.call)));
    }
    homes
}

/// Returns the traces in `calls`, as the identifiers of trace and span in hexadecimal digits.
pub(crate) fn traces(bus: &KafkaBus) -> HashSet<String> {
    let records = all(bus, Topic::Calls, &ends(bus));
    let batches = records.iter().filter_map(|record| Batch::decode(&record.payload).ok());
    let digits = |byte: &u8| format!("{byte:02x}");
    batches.flat_map(|batch| batch.traces).map(|(_, trace)| trace.bytes().iter().map(digits).collect()).collect()
}

pub(super) fn all(bus: &impl Bus, topic: Topic, ends: &[u64]) -> Vec<BusRecord> {
    let mut records = Vec::new();
    for (partition, end) in (0..).zip(ends).filter(|(_, end)| **end > 0) {
        let mut reader = bus.reader(topic, &[partition], ReadFrom::Oldest);
        wait_for("the whole log", || {
            records.extend(reader.poll(Duration::from_millis(100), 10_000));
            let last = records.last().filter(|last: &&BusRecord| last.partition == partition);
            last.filter(|last| last.offset + 1 >= *end).map(|_| ())
        });
    }
    records
}
