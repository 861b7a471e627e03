//! The pump: the only loop of the aggregator. Poll, step, publish, on one thread for a group of partitions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tollgate_common::bus::{Bus, Delivered, From, Full, Log, Reader, Topic};
use tollgate_common::charge::Batch;
use tollgate_common::clock::Clock;
use tollgate_common::counter::Partition;
use tollgate_common::wire::Record;

use crate::counting::{Counting, Input, Outbox, Scope, Tally};

/// How long a poll waits; every time it ends, signals that are due go out.
const POLL_WAIT: Duration = Duration::from_millis(20);
const POLL_RECORDS_MAX: usize = 1_000;
/// How many counters are held unless told otherwise.
const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
/// From which part of its quota on a counter is signalled unless told otherwise, in thousandths.
const THRESHOLD_PERMILLE_DEFAULT: u32 = 500;

/// What an aggregator is, and its caps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name by which it is told apart.
    pub id: Arc<str>,
    /// From which part of its quota on a counter is signalled, in thousandths.
    pub threshold_permille: u32,
    /// How many counters it holds at most, in all partitions together.
    pub counters_max: usize,
}

/// A running aggregator; dropped, it stops.
pub struct Pump {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPartition {
    partition: Partition,
}

type Counters = Family<OfPartition, Counter>;

/// What the pump counts, by partition.
#[derive(Clone, Default)]
struct Metrics {
    batches: Counters,
    rows: Counters,
    duplicates: Counters,
    poisoned: Counters,
    late: Counters,
    from_the_future: Counters,
    uncounted: Counters,
    signals: Counters,
    counters: Family<OfPartition, Gauge<u64, AtomicU64>>,
    missed: Counter,
}

impl Settings {
    /// An aggregator of this name, with the default threshold and cap.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), threshold_permille: THRESHOLD_PERMILLE_DEFAULT, counters_max: COUNTERS_MAX_DEFAULT }
    }
}

impl Pump {
    /// Starts counting all partitions of the bus.
    ///
    /// # Errors
    /// When the system gives it no thread.
    pub fn start<B: Bus>(
        bus: &B,
        settings: &Settings,
        clock: Arc<dyn Clock>,
        registry: &mut Registry,
    ) -> std::io::Result<Self> {
        let metrics = Metrics::register(registry);
        let partitions: Vec<Partition> = (0..bus.partitions(Topic::Calls)).collect();
        let log = bus.log_id(Topic::Calls);
        let share = settings.counters_max.div_ceil(partitions.len().max(1));
        let counting = |partition: &Partition| {
            let scope = Scope {
                aggregator: settings.id.clone(),
                partition: *partition,
                log,
                threshold_permille: settings.threshold_permille,
                counters_max: share,
            };
            (*partition, Counting::new(scope))
        };
        let counts: HashMap<Partition, Counting> = partitions.iter().map(counting).collect();
        let (calls, signals) = (bus.read(Topic::Calls, &partitions, From::Oldest), bus.log(Topic::Signals));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || run(counts, calls, signals, &*clock, &metrics, &stopped);
        let thread = std::thread::Builder::new().name("tollgate-pump".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Counts what is there, says it, and stops.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the pump had died; its counts start anew with the log");
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run<R: Reader, L: Log>(
    mut counts: HashMap<Partition, Counting>,
    mut calls: R,
    mut signals: L,
    clock: &dyn Clock,
    metrics: &Metrics,
    stop: &AtomicBool,
) {
    let mut out = Outbox::new();
    let mut unsent = VecDeque::new();
    let mut restored = false;
    let mut last_round = false;
    loop {
        let records = calls.poll(if last_round { Duration::ZERO } else { POLL_WAIT }, POLL_RECORDS_MAX);
        let now = clock.now();
        if !restored && records.len() < POLL_RECORDS_MAX {
            restored = true;
            for counting in counts.values_mut() {
                counting.step(now, Input::Restored, &mut out);
            }
        }
        for record in &records {
            if let Some(counting) = counts.get_mut(&record.partition) {
                take_in(counting, record, clock, &mut out);
            }
        }
        // While the bus has no room nothing more is said: a later heartbeat would promise what was never sent.
        if unsent.is_empty() {
            for counting in counts.values_mut() {
                counting.step(now, Input::Tick, &mut out);
            }
            unsent.extend(out.drain(..).map(|batch| (batch.partition, batch.encode())));
        }
        while let Some((partition, payload)) = unsent.pop_front() {
            if let Err(Full(payload)) = signals.append(partition, payload, 0) {
                unsent.push_front((partition, payload));
                break;
            }
        }
        signals.reports();
        metrics.show(&counts, calls.missed());
        if last_round && records.is_empty() {
            return;
        }
        last_round = stop.load(Ordering::Relaxed);
    }
}

fn take_in(counting: &mut Counting, record: &Delivered, clock: &dyn Clock, out: &mut Outbox) {
    let (offset, appended) = (record.offset, record.appended);
    match Batch::decode(&record.payload) {
        Ok(batch) => counting.step(clock.now(), Input::Batch { offset, appended, batch: &batch }, out),
        Err(error) => {
            tracing::error!(partition = record.partition, offset, %error, "a record of `calls` cannot be read and is passed over; find its writer");
            counting.step(clock.now(), Input::Poison { offset, appended }, out);
        }
    }
}

impl Metrics {
    fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let m = &metrics;
        let r = registry.sub_registry_with_prefix("tollgate_aggregator");
        r.register("batches", "Batches of calls counted", m.batches.clone());
        r.register("rows", "Charges counted", m.rows.clone());
        r.register("duplicates", "Batches that had been counted before", m.duplicates.clone());
        r.register("poisoned", "Records that could not be read", m.poisoned.clone());
        r.register("late", "Charges whose sub-window had left the window", m.late.clone());
        r.register("from_the_future", "Charges of a time after that of their record", m.from_the_future.clone());
        r.register("uncounted", "Charges of counters past the cap", m.uncounted.clone());
        r.register("signals", "Signals sent", m.signals.clone());
        r.register("counters", "Counters held", m.counters.clone());
        r.register("missed_records", "Records that the bus dropped before they were read", m.missed.clone());
        metrics
    }

    fn show(&self, counts: &HashMap<Partition, Counting>, missed: u64) {
        let raise = |counter: &Counter, to: u64| {
            counter.inc_by(to - counter.get().min(to));
        };
        raise(&self.missed, missed);
        for (partition, counting) in counts {
            let of = OfPartition { partition: *partition };
            let tally: Tally = counting.tally();
            raise(&self.batches.get_or_create(&of), tally.batches);
            raise(&self.rows.get_or_create(&of), tally.rows);
            raise(&self.duplicates.get_or_create(&of), tally.duplicates);
            raise(&self.poisoned.get_or_create(&of), tally.poisoned);
            raise(&self.late.get_or_create(&of), tally.late);
            raise(&self.from_the_future.get_or_create(&of), tally.from_the_future);
            raise(&self.uncounted.get_or_create(&of), tally.uncounted);
            raise(&self.signals.get_or_create(&of), tally.signals);
            self.counters.get_or_create(&of).set(tally.counters as u64);
        }
    }
}
