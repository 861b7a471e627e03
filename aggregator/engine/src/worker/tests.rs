//! Workers over a bus in memory, driven in rounds as a shell drives them.

use std::collections::{BTreeMap, VecDeque};

use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{BatchName, CounterEntry, Outcome, Row};
use tollgate_core::window::Window;

use super::*;

const ROUND_MS: u64 = 20;
const QUOTA: u64 = 100;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(1_000_000 + ms)
}

/// A batch of one agent that charges a partition's only counter.
fn batch(partition: Partition, sequence: u64, units: i64) -> Batch {
    let window = Window::new(60_000, 1).unwrap();
    let row = Row {
        call: sequence,
        counter: Some(0),
        at: at(0),
        sub_window: window.sub_window(at(0)),
        cost: units,
        outcome: Outcome::Admitted,
        home: None,
    };
    Batch {
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
        texts: Vec::new(),
        descriptor_sets: Vec::new(),
        rows: vec![row],
    }
}

/// The logs; nothing stands for an undecodable record.
struct TestBus {
    log: LogId,
    calls: Vec<Vec<Option<Batch>>>,
    presence: Vec<(Timestamp, Presence)>,
    signals: Vec<(Timestamp, SignalBatch)>,
    /// The number of batches of signals for which there is room.
    room: usize,
    /// Partitions whose log ends are not known.
    silent: Vec<Partition>,
}

struct Node {
    worker: Worker,
    reading: BTreeMap<Partition, usize>,
    presence_read: usize,
    acknowledges: bool,
    /// Effects of the last round, except for those that the bus took.
    effects: Vec<WorkerEffect>,
}

impl TestBus {
    fn new(partitions: usize) -> Self {
        let calls = vec![Vec::new(); partitions];
        Self { log: 7, calls, presence: Vec::new(), signals: Vec::new(), room: usize::MAX, silent: Vec::new() }
    }

    fn append(&mut self, partition: Partition, units: i64) {
        let log = &mut self.calls[partition as usize];
        let sequence = log.len() as u64 + 1;
        log.push(Some(batch(partition, sequence, units)));
    }

    fn newest_signal(&self, partition: Partition) -> Option<&(Timestamp, SignalBatch)> {
        self.signals.iter().rev().find(|(_, batch)| batch.partition == partition)
    }
}

impl Node {
    fn new(id: &str, shares: bool, bus: &TestBus) -> Self {
        let settings = WorkerSettings { shares, ..WorkerSettings::new(id) };
        let worker = Worker::new(settings, u32::try_from(bus.calls.len()).unwrap());
        let presence_read = bus.presence.len();
        Self { worker, reading: BTreeMap::new(), presence_read, acknowledges: true, effects: Vec::new() }
    }

    fn input(&mut self, now: Timestamp, input: WorkerInput<'_>, bus: &mut TestBus) {
        let mut effects = Vec::new();
        self.worker.poll(now, input, &mut effects);
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let mut answers = Vec::new();
            match &effect {
                WorkerEffect::Read { partition, .. } => drop(self.reading.insert(*partition, 0)),
                WorkerEffect::StopReading { partition } => drop(self.reading.remove(partition)),
                WorkerEffect::FindLogEnd { partition } => {
                    let next = bus.calls[*partition as usize].len() as u64;
                    let end = (!bus.silent.contains(partition)).then_some(LogEnd { log: bus.log, next });
                    let answer = WorkerInput::LogEnd { partition: *partition, end };
                    self.worker.poll(now, answer, &mut answers);
                }
                WorkerEffect::Publish(batch) if bus.room == 0 => {
                    self.worker.poll(now, WorkerInput::Refused(batch.clone()), &mut answers);
                }
                WorkerEffect::Publish(batch) => {
                    bus.room -= 1;
                    bus.signals.push((now, batch.clone()));
                    if self.acknowledges {
                        self.worker.poll(now, WorkerInput::Acknowledged { batches: 1 }, &mut answers);
                    }
                }
                WorkerEffect::Announce(presence) => bus.presence.push((now, presence.clone())),
                WorkerEffect::DeadLetter { .. } | WorkerEffect::Notice(_) => {}
            }
            effects.extend(answers);
            self.effects.push(effect);
        }
    }

    fn round(&mut self, now: Timestamp, bus: &mut TestBus) {
        self.effects.clear();
        for partition in self.reading.keys().copied().collect::<Vec<_>>() {
            let read = self.reading[&partition];
            for (offset, batch) in bus.calls[partition as usize].clone().iter().enumerate().skip(read) {
                let (offset, batch) = (offset as u64, batch.as_ref().ok_or_else(|| "torn".to_owned()));
                self.input(now, WorkerInput::Record { partition, offset, appended: at(0), batch }, bus);
            }
            self.reading.insert(partition, bus.calls[partition as usize].len());
        }
        for (appended, presence) in bus.presence[self.presence_read..].to_vec() {
            self.input(now, WorkerInput::Presence { presence: &presence, appended }, bus);
            self.presence_read += 1;
        }
        self.input(now, WorkerInput::Tick, bus);
    }

    fn owned(&self) -> Vec<Partition> {
        let owned = self.worker.assigned().filter(|(_, assigned)| assigned.is_owned());
        owned.map(|(partition, _)| partition).collect()
    }

    fn notices(&self) -> Vec<Notice> {
        let notice =
            |effect: &WorkerEffect| if let WorkerEffect::Notice(notice) = effect { Some(*notice) } else { None };
        self.effects.iter().filter_map(notice).collect()
    }
}

/// Runs rounds of all nodes from one instant to another, both in ms.
fn run(nodes: &mut [&mut Node], bus: &mut TestBus, from_ms: u64, to_ms: u64) {
    for ms in (from_ms..to_ms).step_by(usize::try_from(ROUND_MS).unwrap()) {
        nodes.iter_mut().for_each(|node| node.round(at(ms), bus));
    }
}

fn used(signal: Option<&(Timestamp, SignalBatch)>) -> u64 {
    signal.map_or(0, |(_, batch)| batch.signals[0].admitted.counts().map(|(_, units)| units).sum())
}

#[test]
fn a_record_over_the_threshold_is_signalled_with_the_tick_after_it() {
    let mut bus = TestBus::new(2);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    assert_eq!(node.owned(), [0, 1], "alone, it assigns all partitions at once");
    bus.append(1, 60);
    node.round(at(20), &mut bus);
    assert_eq!((bus.signals.len(), used(bus.newest_signal(1))), (1, 60));
    assert!(bus.presence.is_empty(), "nobody is there to read its heartbeats");
}

#[test]
fn nothing_is_signalled_before_the_log_is_read_to_the_end_that_it_had() {
    let mut bus = TestBus::new(1);
    (0..3).for_each(|_| bus.append(0, 20));
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    let (first, rest) = (bus.calls[0][..2].to_vec(), bus.calls[0][2].clone());
    bus.calls[0] = first;
    node.round(at(20), &mut bus);
    assert!(bus.signals.is_empty() && node.worker.restoring().eq([0]));
    bus.calls[0].push(rest);
    node.round(at(40), &mut bus);
    assert_eq!((used(bus.newest_signal(0)), node.worker.restoring().count()), (60, 0));
}

#[test]
fn a_position_past_the_end_restores_a_partition_whose_records_are_gone() {
    let mut bus = TestBus::new(1);
    bus.append(0, 60);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    node.input(at(20), WorkerInput::Position { partition: 0, next: 1 }, &mut bus);
    node.input(at(20), WorkerInput::Tick, &mut bus);
    assert_eq!(node.worker.restoring().count(), 0);
}

/// E3, E6: partitions are handed over without a gap in their signals, and with the same counts.
#[test]
fn a_partition_is_kept_until_its_new_owner_counts_it() {
    let mut bus = TestBus::new(8);
    (0..8).for_each(|partition| bus.append(partition, 60));
    let mut first = Node::new("a", true, &bus);
    run(&mut [&mut first], &mut bus, 0, 3_000);
    assert_eq!(first.owned(), (0..8).collect::<Vec<_>>());
    let mut second = Node::new("b", true, &bus);
    let mut assigned_in_round = 0;
    for ms in (3_000..6_000).step_by(20) {
        run(&mut [&mut first, &mut second], &mut bus, ms, ms + 20);
        let held = second.worker.assigned().count();
        assert!(held <= assigned_in_round + 1, "one assignment in each round");
        assigned_in_round = held;
        for partition in 0..8 {
            let (published, signal) = bus.newest_signal(partition).unwrap();
            assert!(at(ms).ms_since(*published) <= 220, "partition {partition} is silent at {ms}");
            assert_eq!(signal.as_of, 0);
        }
    }
    let (kept, taken) = (first.owned(), second.owned());
    assert!(!kept.is_empty() && !taken.is_empty());
    assert!((0..8).all(|partition| kept.contains(&partition) != taken.contains(&partition)), "{kept:?} {taken:?}");
    assert_eq!(first.worker.assigned().count(), kept.len(), "what is handed over is revoked");
    for (_, assigned) in first.worker.assigned().chain(second.worker.assigned()) {
        assert_eq!(assigned.counting().counters().next().map(|counter| counter.used(at(6_000))), Some(60));
    }
}

/// E7: the partitions of a dead aggregator are assigned again within two seconds; those of one that leaves, at once.
#[test]
fn partitions_of_an_aggregator_that_is_gone_are_assigned_to_the_others() {
    for (leaves, gone_within_ms) in [(false, 2_000), (true, 300)] {
        let mut bus = TestBus::new(8);
        let (mut first, mut second) = (Node::new("a", true, &bus), Node::new("b", true, &bus));
        run(&mut [&mut first, &mut second], &mut bus, 0, 3_000);
        assert!(!second.owned().is_empty());
        if leaves {
            second.input(at(3_000), WorkerInput::Stop, &mut bus);
            let (_, last) = bus.presence.last().unwrap();
            assert!(last.leaving && last.partitions.is_empty());
        }
        run(&mut [&mut first], &mut bus, 3_000, 3_000 + gone_within_ms);
        assert_eq!(first.owned().len(), 8, "leaves: {leaves}");
        assert_eq!(first.worker.unassigned(), 0);
    }
}

#[test]
fn a_partition_whose_log_end_is_unknown_does_not_delay_the_others() {
    let mut bus = TestBus::new(4);
    bus.silent = vec![1];
    let mut node = Node::new("a", true, &bus);
    run(&mut [&mut node], &mut bus, 0, 2_000);
    assert_eq!((node.owned(), node.worker.unassigned()), (vec![0, 2, 3], 1));
    bus.silent.clear();
    run(&mut [&mut node], &mut bus, 2_000, 2_200);
    assert_eq!(node.owned(), [0, 1, 2, 3]);
}

#[test]
fn while_the_queue_is_full_no_new_signals_are_produced() {
    let mut bus = TestBus::new(3);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    (0..3).for_each(|partition| bus.append(partition, 60));
    bus.room = 1;
    node.round(at(20), &mut bus);
    (0..3).for_each(|partition| bus.append(partition, 10));
    node.round(at(40), &mut bus);
    assert_eq!(bus.signals.len(), 1);
    assert_eq!(node.worker.wait_ms(), 20, "it does not spin");
    bus.room = usize::MAX;
    node.round(at(60), &mut bus);
    let partitions: Vec<_> = bus.signals.iter().map(|(_, batch)| (batch.partition, used_in(batch))).collect();
    assert_eq!(partitions, [(0, 60), (1, 60), (2, 60)], "the refused batches are sent first, as they were");
    node.round(at(80), &mut bus);
    assert!((0..3).all(|partition| used(bus.newest_signal(partition)) == 70));
}

fn used_in(batch: &SignalBatch) -> u64 {
    batch.signals[0].admitted.counts().map(|(_, units)| units).sum()
}

#[test]
fn signals_wait_for_acknowledgements_of_earlier_ones_for_at_most_100_ms() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.acknowledges = false;
    node.round(at(0), &mut bus);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    bus.append(0, 10);
    node.round(at(40), &mut bus);
    assert_eq!((used(bus.newest_signal(0)), node.worker.wait_ms()), (60, 1), "in flight; the next tick follows soon");
    node.round(at(119), &mut bus);
    assert_eq!(used(bus.newest_signal(0)), 60);
    node.round(at(120), &mut bus);
    assert_eq!((used(bus.newest_signal(0)), node.worker.wait_ms()), (70, 20));
}

#[test]
fn an_undecodable_record_is_a_dead_letter_and_stops_nothing() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    bus.calls[0].push(None);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    let letter = DeadLetter { partition: 0, offset: 0, appended: at(0), reason: "torn".into() };
    assert!(node.effects.contains(&WorkerEffect::DeadLetter { letter, unlogged: Some(0) }));
    assert_eq!(used(bus.newest_signal(0)), 60);
}

#[test]
fn a_recreated_log_is_counted_from_its_beginning() {
    // The log after its topic was recreated, or after it lost records: its identity, and the units of its records.
    for (log, records) in [(7, vec![]), (7, vec![80]), (8, vec![80, 1, 1])] {
        let mut bus = TestBus::new(1);
        let mut node = Node::new("a", false, &bus);
        node.round(at(0), &mut bus);
        (0..2).for_each(|_| bus.append(0, 30));
        node.round(at(20), &mut bus);
        assert_eq!(used(bus.newest_signal(0)), 60);
        (bus.log, bus.calls) = (log, vec![Vec::new()]);
        records.iter().for_each(|units| bus.append(0, *units));
        node.round(at(6_000), &mut bus);
        assert_eq!(node.notices(), [Notice::Recreated { partition: 0 }]);
        run(&mut [&mut node], &mut bus, 6_020, 6_080);
        let counted = node.worker.assigned().map(|(_, assigned)| assigned.counting().log()).collect::<Vec<_>>();
        assert_eq!(counted, [log]);
        if !records.is_empty() {
            let (_, signal) = bus.newest_signal(0).unwrap();
            assert_eq!((signal.log, used_in(signal)), (log, records.iter().sum::<i64>().unsigned_abs()));
        }
    }
}

#[test]
fn a_late_answer_about_the_end_of_a_log_is_no_sign_of_a_recreated_one() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    let mut effects = Vec::new();
    node.worker.poll(at(6_000), WorkerInput::Tick, &mut effects);
    assert!(effects.contains(&WorkerEffect::FindLogEnd { partition: 0 }));
    bus.append(0, 5);
    node.round(at(6_020), &mut bus);
    let end = Some(LogEnd { log: 7, next: 1 });
    node.input(at(6_040), WorkerInput::LogEnd { partition: 0, end }, &mut bus);
    assert_eq!((node.owned(), node.notices()), (vec![0], vec![]));
}
