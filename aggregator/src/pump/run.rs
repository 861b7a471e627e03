//! The loop itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_common::bus::{Bus, Delivered, From, Full, Log, Reader, Topic, keep_prepared};
use tollgate_common::charge::Batch;
use tollgate_common::clock::{Clock, Timestamp};
use tollgate_common::counter::Partition;
use tollgate_common::presence::{Presence, Role};
use tollgate_common::signal::LogId;
use tollgate_common::wire::Record;

use super::Settings;
use super::aside::Asides;
use super::metrics::Metrics;
use super::part::Part;
use super::view::{Filter, PartStatus, Question, Shown, Status, View};
use crate::counting::{Counting, Input, Outbox, Scope};
use crate::ownership::{HEARTBEAT_MS, Ownership};

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
    bus: B,
    settings: Settings,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    calls: B::Reader,
    signals: B::Log,
    others: Option<Others<B>>,
    parts: BTreeMap<Partition, Part>,
    out: Outbox,
    unsent: VecDeque<(Partition, Vec<u8>)>,
    /// How many records that were said are not known to be in the log.
    unheard: usize,
    spoke_at: Timestamp,
    asides: Asides,
    questions: Receiver<Question>,
    bus_error: Arc<Mutex<Option<String>>>,
    shown_at: Timestamp,
    measured_at: Timestamp,
}

/// How it shares partitions with others.
struct Others<B: Bus> {
    log: B::Log,
    reader: B::Reader,
    ownership: Ownership,
    shown_at: Timestamp,
}

impl<B: Bus> Run<B> {
    pub(super) fn new(
        bus: B,
        settings: Settings,
        clock: Arc<dyn Clock>,
        registry: &mut Registry,
        questions: Receiver<Question>,
    ) -> Self {
        let others = settings.shares.then(|| Others {
            log: bus.log(Topic::Presence),
            reader: bus.read(Topic::Presence, &[0], From::Next),
            ownership: Ownership::new((settings.id.clone(), settings.epoch.as_ms())),
            shown_at: Timestamp::default(),
        });
        let mut run = Self {
            metrics: Metrics::register(registry),
            calls: bus.read(Topic::Calls, &[], From::Oldest),
            signals: bus.log(Topic::Signals),
            others,
            parts: BTreeMap::new(),
            out: Outbox::new(),
            unsent: VecDeque::new(),
            unheard: 0,
            spoke_at: Timestamp::default(),
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
        keep_prepared(self.bus.clone(), stop, move |prepared| {
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

    fn take_in(&mut self, record: &Delivered) {
        let Some(part) = self.parts.get_mut(&record.partition) else { return };
        let (now, offset, appended) = (self.clock.now(), record.offset, record.appended);
        part.came(now);
        match Batch::decode(&record.payload) {
            Ok(batch) => {
                let input = Input::Batch { offset, appended, batch: &batch };
                part.counting.step(now, input, &mut self.out);
            }
            Err(error) => {
                self.asides.set_aside(record, &error);
                part.counting.step(now, Input::Poison { offset, appended }, &mut self.out);
            }
        }
    }

    /// Shows itself to the other aggregators and hears who is there.
    fn meet(&mut self, leaving: bool) {
        let now = self.clock.now();
        let Some(others) = &mut self.others else { return };
        if leaving || now.ms_since(others.shown_at) >= HEARTBEAT_MS {
            others.shown_at = now;
            let presence = Presence {
                id: self.settings.id.clone(),
                epoch: self.settings.epoch.as_ms(),
                region: self.settings.region.clone(),
                role: Role::Aggregator,
                generation: 0,
                clock: now,
                open_breakers: Vec::new(),
                dropped_rows: 0,
                leaving,
            };
            // One that finds no room is followed by the next.
            let _ = others.log.append(0, presence.encode(), 0);
            others.log.reports();
        }
        for record in others.reader.poll(Duration::ZERO, POLL_RECORDS_MAX) {
            if let Ok(presence) = Presence::decode(&record.payload) {
                others.ownership.heard(&presence, record.appended);
            }
        }
        if leaving {
            others.log.flush(FLUSH_WAIT);
        }
    }

    /// Takes up the partitions that are its own now, and leaves those that are not.
    fn divide(&mut self) {
        let now = self.clock.now();
        for partition in 0..self.bus.partitions(Topic::Calls) {
            let owned = self.others.as_ref().is_none_or(|others| others.ownership.owns(partition));
            match self.parts.get_mut(&partition).map(|part| part.is_kept(owned, now)) {
                None if owned => self.take_up(partition, now),
                Some(false) => self.leave(partition),
                _ => {}
            }
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
        self.parts.insert(partition, Part::new(Counting::new(scope), target, now));
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
            for part in self.parts.values_mut() {
                part.restore(now, &mut self.out);
                part.counting.step(now, Input::Tick, &mut self.out);
            }
            self.unsent.extend(self.out.drain(..).map(|batch| (batch.partition, batch.encode())));
        }
        while let Some((partition, payload)) = self.unsent.pop_front() {
            if let Err(Full(payload)) = self.signals.append(partition, payload, 0) {
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
        self.metrics.members.set(self.others.as_ref().map_or(1, |others| others.ownership.members()) as u64);
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

    fn answer(&mut self) {
        while let Ok(question) = self.questions.try_recv() {
            // Who asked may have left.
            match question {
                Question::Counters(filter, reply) => drop(reply.send(self.view(&filter))),
                Question::Status(reply) => drop(reply.send(self.status())),
                Question::Asides(reply) => drop(reply.send(self.asides.newest().cloned().collect())),
            }
        }
    }

    fn view(&self, filter: &Filter) -> View {
        let now = self.clock.now();
        let mut matching = Vec::new();
        for (partition, part) in &self.parts {
            let of_rule = |rule: &str| filter.rule.as_ref().is_none_or(|wanted| wanted == rule);
            let labelled = |label: &str| filter.label.as_ref().is_none_or(|wanted| label.contains(&**wanted));
            let entries = part.counting.counters();
            let entries = entries.filter(|entry| of_rule(&entry.rule) && labelled(&entry.label));
            matching.extend(entries.map(|entry| (entry.permille(now), *partition, entry)));
        }
        let matched = matching.len();
        matching.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2.rule, a.2.id).cmp(&(&b.2.rule, b.2.id))));
        matching.truncate(filter.limit);
        let counters = matching.into_iter().map(|(_, partition, entry)| Shown { partition, entry: entry.clone() });
        View { now, matched, counters: counters.collect(), partitions: self.part_statuses() }
    }

    fn status(&self) -> Status {
        let ownership = self.others.as_ref().map(|others| &others.ownership);
        Status {
            settled: ownership.is_none_or(Ownership::is_settled),
            members: ownership.map_or(1, Ownership::members),
            partitions: self.part_statuses(),
            bus_error: self.bus_error.lock().clone(),
        }
    }

    fn part_statuses(&self) -> Vec<PartStatus> {
        let status = |(partition, part): (&Partition, &Part)| PartStatus {
            partition: *partition,
            read: part.counting.read(),
            watermark: part.counting.watermark(),
            restored: part.counting.is_restored(),
            owned: part.is_owned(),
        };
        self.parts.iter().map(status).collect()
    }
}
