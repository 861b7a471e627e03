//! The loop itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_bus::{Bus, BusRecord, LogReader, LogWriter, QueueFull, ReadFrom, Topic, supervise};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::signals::LogId;
use tollgate_wire::Record;

use super::Settings;
use super::aside::Asides;
use super::metrics::Metrics;
use super::others::Others;
use super::part::{Owner, Part};
use super::view::Question;
use crate::counting::{Counting, Input, Outbox, Scope};

/// How long a poll waits; every time it ends, signals that are due go out.
const POLL_WAIT: Duration = Duration::from_millis(20);
const POLL_RECORDS_MAX: usize = 1_000;
/// How long a poll waits while there is something to say.
const UNSAID_WAIT: Duration = Duration::from_millis(1);
/// How long at most what is to be said waits until what was said before is in the log, in ms.
const WORD_MS_MAX: u64 = 100;
/// How often metrics are brought up to date, in ms.
const SHOW_MS: u64 = 250;
/// How often the ends of the logs are looked at, in ms; that may wait for the bus.
const MEASURE_MS: u64 = 5_000;
/// What a bus says that does not know yet which log it holds.
const UNKNOWN_LOG: LogId = 0;
/// How long the last signals may take on their way.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

pub(super) struct Run<B: Bus> {
    pub(super) bus: B,
    settings: Settings,
    pub(super) clock: Arc<dyn Clock>,
    metrics: Metrics,
    calls: B::Reader,
    signals: B::Writer,
    pub(super) others: Option<Others<B>>,
    pub(super) parts: BTreeMap<Partition, Part>,
    out: Outbox,
    unsent: VecDeque<(Partition, Vec<u8>)>,
    /// How many records that were said are not known to be in the log.
    unheard: usize,
    spoke_at: Timestamp,
    turn: u32,
    pub(super) asides: Asides,
    pub(super) questions: Receiver<Question>,
    pub(super) bus_error: Arc<Mutex<Option<String>>>,
    shown_at: Timestamp,
    measured_at: Timestamp,
}

impl<B: Bus> Run<B> {
    pub(super) fn new(
        bus: B,
        settings: Settings,
        clock: Arc<dyn Clock>,
        registry: &mut Registry,
        questions: Receiver<Question>,
    ) -> Self {
        let others = settings.shares.then(|| Others::new(&bus, &settings));
        let mut run = Self {
            metrics: Metrics::register(registry),
            calls: bus.reader(Topic::Calls, &[], ReadFrom::Oldest),
            signals: bus.writer(Topic::Signals),
            others,
            parts: BTreeMap::new(),
            out: Outbox::new(),
            unsent: VecDeque::new(),
            unheard: 0,
            spoke_at: Timestamp::default(),
            turn: 0,
            asides: Asides::new(settings.asides.clone()),
            questions,
            bus_error: Arc::default(),
            shown_at: Timestamp::default(),
            measured_at: clock.now(),
            bus,
            settings,
            clock,
        };
        run.divide();
        run
    }

    /// Waits for a bus that is away, on another thread.
    pub(super) fn keep_bus(&self, stop: Arc<AtomicBool>) -> std::io::Result<JoinHandle<()>> {
        let (bus_error, id) = (self.bus_error.clone(), self.settings.id.clone());
        supervise(self.bus.clone(), stop, move |prepared| {
            *bus_error.lock() = prepared.as_ref().err().map(ToString::to_string);
            match prepared {
                Ok(()) => tracing::info!(aggregator = %id, "the bus is there, counting"),
                Err(why) if why.transient => tracing::warn!(aggregator = %id, "waiting for the bus: {why}"),
                Err(why) => tracing::error!(aggregator = %id, "nothing is counted: {why}"),
            }
        })
    }

    pub(super) fn until(&mut self, stop: &AtomicBool) {
        let (mut last_round, mut unsaid) = (false, false);
        loop {
            let wait = if unsaid { UNSAID_WAIT } else { POLL_WAIT };
            let records = self.calls.poll(if last_round { Duration::ZERO } else { wait }, POLL_RECORDS_MAX);
            for record in &records {
                self.take_in(record);
            }
            self.meet(false);
            self.divide();
            if last_round || self.may_speak() {
                self.speak();
                unsaid = false;
            } else {
                unsaid |= !records.is_empty();
            }
            self.show();
            self.answer();
            if last_round && records.is_empty() {
                self.meet(true);
                self.signals.flush(FLUSH_WAIT);
                return;
            }
            last_round = stop.load(Ordering::Relaxed);
        }
    }

    fn meet(&mut self, leaving: bool) {
        let restored = |part: &Part| part.is_owned() && part.counting.is_restored();
        if let Some(others) = &mut self.others {
            let own = self.parts.iter().filter(|(_, part)| restored(part)).map(|(partition, _)| *partition);
            others.meet(self.clock.now(), own.collect(), leaving);
        }
    }

    fn take_in(&mut self, record: &BusRecord) {
        let Some(part) = self.parts.get_mut(&record.partition) else { return };
        let (now, offset, appended) = (self.clock.now(), record.offset, record.appended);
        match Batch::decode(&record.payload) {
            Ok(batch) => {
                let input = Input::Batch { offset, appended, batch: &batch };
                part.counting.step(now, input, &mut self.out);
            }
            Err(error) => {
                self.asides.set_aside(now, record, &error);
                part.counting.step(now, Input::Poison { offset, appended }, &mut self.out);
            }
        }
    }

    /// Takes up a partition that is its own now, and leaves those that others count. One at a time: each waits for the bus,
    /// and heartbeats must not wait for all of them.
    fn divide(&mut self) {
        let now = self.clock.now();
        let mut may_take_up = true;
        let partitions = self.bus.partitions(Topic::Calls);
        // Each round begins with another one, so that one of which the bus says nothing holds up no other.
        self.turn = (self.turn + 1) % partitions;
        for partition in (self.turn..partitions).chain(0..self.turn) {
            let owner = self.owner(partition);
            match self.parts.get_mut(&partition).map(|part| part.is_kept(owner, now)) {
                None if owner == Owner::Own && may_take_up => {
                    self.take_up(partition, now);
                    may_take_up = self.others.is_none();
                }
                Some(false) => {
                    tracing::info!(partition, "a partition is another aggregator's now");
                    self.leave(partition);
                }
                _ => {}
            }
        }
    }

    pub(super) fn owner(&self, partition: Partition) -> Owner {
        let Some(ownership) = self.others.as_ref().map(Others::ownership) else { return Owner::Own };
        if ownership.owns(partition) {
            Owner::Own
        } else if ownership.is_counted_elsewhere(partition) {
            Owner::Elsewhere
        } else {
            Owner::Coming
        }
    }

    fn take_up(&mut self, partition: Partition, now: Timestamp) {
        let Some(target) = self.bus.next_offset(Topic::Calls, partition) else { return };
        let log = self.bus.log_id(Topic::Calls);
        if log == UNKNOWN_LOG {
            return;
        }
        let scope = Scope {
            aggregator: self.settings.id.clone(),
            partition,
            log,
            threshold_permille: self.settings.threshold_permille,
            counters_max: self.settings.counters_max.div_ceil(self.bus.partitions(Topic::Calls).max(1) as usize),
        };
        self.parts.insert(partition, Part::new(Counting::new(scope), target));
        self.calls.add(partition, self.settings.reach.from(now));
    }

    /// Whether what was said before is in the log. When Kafka is slow, more is said at once and not more often: each record
    /// is a request there, and one more fetch for every agent.
    fn may_speak(&mut self) -> bool {
        self.unheard = self.unheard.saturating_sub(self.signals.reports().len());
        self.unheard == 0 || self.clock.now().ms_since(self.spoke_at) >= WORD_MS_MAX
    }

    /// Says what changed. While the bus has no room nothing more is said: a later heartbeat would promise what was never
    /// sent.
    fn speak(&mut self) {
        let now = self.clock.now();
        // Those of which nothing was heard for so long are not waited for any more.
        (self.spoke_at, self.unheard) = (now, 0);
        if self.unsent.is_empty() {
            for (partition, part) in &mut self.parts {
                if part.restore(now, self.calls.next(*partition), &mut self.out) && self.others.is_some() {
                    let counters = part.counting.tally().counters;
                    tracing::info!(partition, counters, "a partition is restored and signalled");
                }
                part.counting.step(now, Input::Tick, &mut self.out);
            }
            self.unsent.extend(self.out.drain(..).map(|batch| (batch.partition, batch.encode())));
        }
        while let Some((partition, payload)) = self.unsent.pop_front() {
            if let Err(QueueFull(payload)) = self.signals.append(partition, payload, 0) {
                self.unsent.push_front((partition, payload));
                break;
            }
            self.unheard += 1;
        }
    }

    fn show(&mut self) {
        let now = self.clock.now();
        if now.ms_since(self.shown_at) < SHOW_MS {
            return;
        }
        self.shown_at = now;
        self.metrics.missed(self.calls.missed());
        self.metrics.members.set(self.others.as_ref().map_or(1, |others| others.ownership().members()) as u64);
        for (partition, part) in &mut self.parts {
            self.metrics.show(now, *partition, &part.counting, &mut part.shown);
        }
        if now.ms_since(self.measured_at) < MEASURE_MS {
            return;
        }
        self.measured_at = now;
        let mut made_anew = Vec::new();
        for (partition, part) in &self.parts {
            let Some(end) = self.bus.next_offset(Topic::Calls, *partition) else { break };
            let next = part.counting.read().map_or(0, |(offset, _)| offset + 1);
            self.metrics.lags_behind(*partition, end.saturating_sub(next));
            if end < next {
                made_anew.push(*partition);
            }
        }
        for partition in made_anew {
            tracing::warn!(
                partition,
                "the log ends before what was read of it: it was made anew, and is counted from its beginning"
            );
            self.leave(partition);
        }
    }

    fn leave(&mut self, partition: Partition) {
        self.calls.remove(partition);
        self.parts.remove(&partition);
        self.metrics.forget(partition);
    }
}
