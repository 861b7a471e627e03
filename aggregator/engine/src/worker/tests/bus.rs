//! Workers over a bus in memory, driven in rounds as a shell drives them.

use std::collections::{BTreeMap, VecDeque};

use tollgate_core::counter::CounterId;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, Outcome, Row};
use tollgate_core::messages::signals::{LogEnd, LogId, SignalBatch};
use tollgate_core::messages::texts::Texts;
use tollgate_core::window::Window;

use super::super::*;

pub(super) const ROUND_MS: u64 = 20;
pub(super) const QUOTA: u64 = 100;

pub(super) fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(1_000_000 + ms)
}

/// A batch of one agent that charges a partition's only counter.
pub(super) fn batch(partition: Partition, sequence: u64, units: i64) -> Batch {
    let window = Window::new(60_000, 1).unwrap();
    let row = Row {
        call: sequence,
        counter: Some(0),
        at: at(0),
        sub_window: window.sub_window(at(0)),
        cost: units,
        outcome: Outcome::Admitted,
        shadow_denied: false,
        source: Source::Store,
        home: None,
    };
    Batch {
        traces: Vec::new(),
        name: BatchName { agent: "gw".into(), epoch: 1, partition, sequence },
        region: "r".into(),
        complete_through: at(0),
        counters: vec![CounterEntry {
            id: CounterId::from_u128(partition.into()),
            rule: "per-key".into(),
            label: "k".into(),
            generation: 1,
            quota: QUOTA,
            window,
        }],
        texts: Texts::default(),
        descriptor_sets: Vec::new(),
        rows: vec![row],
    }
}

/// Logs, in which none stands for an undecodable record.
pub(super) struct TestBus {
    pub(super) log: LogId,
    pub(super) calls: Vec<Vec<Option<Batch>>>,
    pub(super) presence: Vec<(Timestamp, Presence)>,
    pub(super) signals: Vec<(Timestamp, SignalBatch)>,
    /// The number of batches of signals for which there is room.
    pub(super) room: usize,
    /// True while batches of signals are lost.
    pub(super) loses: bool,
    /// Partitions whose log ends are not known.
    pub(super) silent: Vec<Partition>,
    /// The number of records before the end of each log that readers do not get yet.
    pub(super) undelivered: u64,
}

pub(super) struct Node {
    pub(super) worker: Worker,
    pub(super) reading: BTreeMap<Partition, usize>,
    pub(super) presence_read: usize,
    pub(super) acknowledges: bool,
    /// Effects of the last round, except for those that the bus took.
    pub(super) effects: Vec<WorkerEffect>,
}

impl TestBus {
    pub(super) fn new(partitions: usize) -> Self {
        let calls = vec![Vec::new(); partitions];
        Self {
            log: 7,
            calls,
            presence: Vec::new(),
            signals: Vec::new(),
            room: usize::MAX,
            loses: false,
            silent: Vec::new(),
            undelivered: 0,
        }
    }

    pub(super) fn append(&mut self, partition: Partition, units: i64) {
        let log = &mut self.calls[partition as usize];
        let sequence = log.len() as u64 + 1;
        log.push(Some(batch(partition, sequence, units)));
    }

    pub(super) fn newest_signal(&self, partition: Partition) -> Option<&(Timestamp, SignalBatch)> {
        self.signals.iter().rev().find(|(_, batch)| batch.partition == partition)
    }
}

impl Node {
    pub(super) fn new(id: &str, shares: bool, bus: &TestBus) -> Self {
        let settings = WorkerSettings { shares, ..WorkerSettings::new(id) };
        let worker = Worker::new(settings, u32::try_from(bus.calls.len()).unwrap());
        let presence_read = bus.presence.len();
        Self { worker, reading: BTreeMap::new(), presence_read, acknowledges: true, effects: Vec::new() }
    }

    pub(super) fn input(&mut self, now: Timestamp, input: WorkerInput<'_>, bus: &mut TestBus) {
        let mut effects = Vec::new();
        self.worker.poll(now, input, &mut effects);
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let mut answers = Vec::new();
            match &effect {
                WorkerEffect::Read { partition, .. } => drop(self.reading.insert(*partition, 0)),
                WorkerEffect::StopReading(partition) => drop(self.reading.remove(partition)),
                WorkerEffect::FindLogEnd(partition) => {
                    let next = bus.calls[*partition as usize].len() as u64 + bus.undelivered;
                    let end = (!bus.silent.contains(partition)).then_some(LogEnd { log: bus.log, next });
                    let answer = WorkerInput::LogEnd { partition: *partition, end };
                    self.worker.poll(now, answer, &mut answers);
                }
                WorkerEffect::Publish { tag, .. } if bus.loses || bus.room == 0 => {
                    self.worker.poll(now, WorkerInput::Reported { tag: *tag, is_lost: true }, &mut answers);
                }
                WorkerEffect::Publish { tag, batch } => {
                    bus.room -= 1;
                    bus.signals.push((now, batch.clone()));
                    if self.acknowledges {
                        self.worker.poll(now, WorkerInput::Reported { tag: *tag, is_lost: false }, &mut answers);
                    }
                }
                WorkerEffect::Announce(presence) => bus.presence.push((now, presence.clone())),
                WorkerEffect::PublishRollups { .. } | WorkerEffect::DeadLetter { .. } | WorkerEffect::Notice(_) => {}
            }
            effects.extend(answers);
            self.effects.push(effect);
        }
    }

    pub(super) fn round(&mut self, now: Timestamp, bus: &mut TestBus) {
        self.effects.clear();
        for partition in self.reading.keys().copied().collect::<Vec<_>>() {
            let read = self.reading[&partition];
            for (offset, batch) in bus.calls[partition as usize].clone().iter().enumerate().skip(read) {
                let (offset, batch) = (offset as u64, batch.as_ref().ok_or_else(|| "torn".to_owned()));
                self.input(now, WorkerInput::Record { partition, offset, appended: at(0), batch }, bus);
            }
            self.reading.insert(partition, bus.calls[partition as usize].len());
        }
        while let Some((appended, presence)) = bus.presence.get(self.presence_read).cloned() {
            self.input(
                now,
                WorkerInput::Presence { presence: Ok(&presence), offset: self.presence_read as u64, appended },
                bus,
            );
            self.presence_read += 1;
        }
        self.input(now, WorkerInput::Tick, bus);
    }

    pub(super) fn owned(&self) -> Vec<Partition> {
        let owned = self.worker.assigned().filter(|(_, assigned)| assigned.is_owned());
        owned.map(|(partition, _)| partition).collect()
    }

    pub(super) fn notices(&self) -> Vec<WorkerNotice> {
        let notice =
            |effect: &WorkerEffect| if let WorkerEffect::Notice(notice) = effect { Some(*notice) } else { None };
        self.effects.iter().filter_map(notice).collect()
    }
}

/// Runs rounds of all nodes from one instant to another, both in ms.
pub(super) fn run(nodes: &mut [&mut Node], bus: &mut TestBus, from_ms: u64, to_ms: u64) {
    for ms in (from_ms..to_ms).step_by(usize::try_from(ROUND_MS).unwrap()) {
        for node in nodes.iter_mut() {
            node.round(at(ms), bus);
        }
    }
}

/// The units in the only signal of a batch.
pub(super) fn used_in(batch: &SignalBatch) -> u64 {
    batch.signals[0].admitted.counts().map(|(_, units)| units).sum()
}

/// The units in the newest signal of a partition; 0 without one.
pub(super) fn used(signal: Option<&(Timestamp, SignalBatch)>) -> u64 {
    signal.map_or(0, |(_, batch)| used_in(batch))
}
