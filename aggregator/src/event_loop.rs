//! The event loop: the one thread that drives the engine's worker over a bus.
//!
//! Each round polls records, passes them on, executes the worker's effects, and answers queries. All decisions are in
//! [`Worker`]; this file encodes, decodes and calls the bus.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tollgate_aggregator_engine::budget::region::RegionPartitions;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_aggregator_engine::worker::{Worker, WorkerEffect, WorkerInput, WorkerNotice};
use tollgate_bus::{Bus, BusRecord, DeliveryReport, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::Presence;
use tollgate_wire::Record;

use crate::analytics::PassedOver;
use crate::dead_letters::DeadLetters;
use crate::fault::{Fault, FaultState};
use crate::metrics::AggregatorMetrics;
use crate::queries::{AggregatorState, Query};
use crate::regions::RegionFeed;

/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 1_000;
const METRICS_INTERVAL_MS: u64 = 250;
/// Interval at which the budgets of regions get to know the partitions, in ms. It is short, because a demand that is not counted must
/// not look like none.
const PART_INTERVAL_MS: u64 = 100;
/// Maximum time for which the last records are awaited at the end.
const FLUSH_WAIT: Duration = Duration::from_secs(2);
/// Error of the bus until it is prepared for the first time.
const NO_ANSWER_YET: &str = "Kafka has not answered yet; check that it runs, and --kafka";

pub(crate) struct EventLoop<B: Bus> {
    pub(crate) id: Arc<str>,
    pub(crate) bus: B,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) worker: Worker,
    pub(crate) calls: B::Reader,
    pub(crate) signals: B::Writer,
    /// Writers of `rollups` and `live`.
    pub(crate) rollups: B::Writer,
    pub(crate) live: B::Writer,
    /// Records of these topics that were passed over.
    pub(crate) passed_over: Receiver<PassedOver>,
    pub(crate) presence: B::Reader,
    /// Writer of `presence`; nothing if no other aggregator can be on the bus.
    pub(crate) announcements: Option<B::Writer>,
    pub(crate) metrics: AggregatorMetrics,
    pub(crate) metrics_updated_at: Timestamp,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) queries: Receiver<Query>,
    pub(crate) regions: Option<RegionFeed>,
    pub(crate) part_assigned_at: Timestamp,
    /// True if it takes care of the counters of all partitions, because it does not know the other aggregators.
    pub(crate) has_all_counters: bool,
    /// State of the bus, as the thread that prepares it reports it.
    pub(crate) bus_state: FaultState,
    pub(crate) started_at: Timestamp,
}

impl<B: Bus> EventLoop<B> {
    /// Runs until `stop` is set. Then it counts the records that are there, publishes their signals, and leaves.
    pub(crate) fn run(&mut self, stop: &AtomicBool) {
        self.poll_worker(self.clock.now(), WorkerInput::Tick);
        let mut stopping = false;
        loop {
            let wait_ms = if stopping { 0 } else { self.worker.wait_ms() };
            let records = self.calls.poll(Duration::from_millis(wait_ms), RECORDS_MAX);
            self.round(&records);
            if stopping && records.is_empty() {
                self.leave();
                return;
            }
            stopping = stop.load(Ordering::Relaxed);
        }
    }

    fn round(&mut self, records: &[BusRecord]) {
        let now = self.clock.now();
        for record in records {
            self.pass_on(now, record);
        }
        for DeliveryReport { tag, offset, .. } in self.signals.reports() {
            self.poll_worker(now, WorkerInput::Reported { tag, is_lost: offset.is_none() });
        }
        for DeliveryReport { tag, offset, .. } in self.rollups.reports() {
            self.poll_worker(now, WorkerInput::RollupsReported { tag, is_lost: offset.is_none() });
        }
        self.live.reports();
        while let Ok((letter, unlogged, record)) = self.passed_over.try_recv() {
            self.execute(now, WorkerEffect::DeadLetter { letter, unlogged }, &record);
        }
        for partition in self.worker.restoring().collect::<Vec<_>>() {
            if let Some(next) = self.calls.next(partition) {
                self.poll_worker(now, WorkerInput::Position { partition, next });
            }
        }
        self.pass_on_presence(now);
        self.poll_worker(now, WorkerInput::Tick);
        if now.ms_since(self.metrics_updated_at) >= METRICS_INTERVAL_MS {
            self.metrics_updated_at = now;
            self.metrics.update(now, &self.worker, self.calls.missed());
        }
        if let Some(regions) = &self.regions
            && now.ms_since(self.part_assigned_at) >= PART_INTERVAL_MS
        {
            self.part_assigned_at = now;
            let regions = regions.clone();
            regions.assign(self.region_part(now), self.worker.coordinator().cloned());
        }
        while let Ok(query) = self.queries.try_recv() {
            query(&AggregatorState {
                now: self.clock.now(),
                worker: &self.worker,
                dead_letters: &self.dead_letters,
                bus_fault: self.bus_fault(),
            });
        }
    }

    fn bus_fault(&self) -> Option<Fault> {
        let is_connected = self.metrics.bus_connected.get() == 1;
        let no_answer = || Fault { why: NO_ANSWER_YET.to_owned(), since: self.started_at };
        self.bus_state.fault().or_else(|| (!is_connected).then(no_answer))
    }

    /// Returns the counters of which this aggregator takes care for its region. If it starts while the bus is
    /// unavailable, it takes care of all until it knows the others. Two aggregators that renew the same grants are
    /// harmless, and none at all would lose them.
    fn region_part(&mut self, now: Timestamp) -> RegionPartitions {
        let is_away = self.bus_state.fault().is_some();
        let knows_others = self.worker.membership().is_none_or(Membership::is_settled);
        self.has_all_counters = !knows_others && (is_away || self.has_all_counters);
        let all = 0..self.bus.partitions(Topic::Calls);
        RegionPartitions {
            partitions: all.end,
            own: all.clone().filter(|partition| self.has_all_counters || self.worker.owns(*partition)).collect(),
            counted: all.filter(|partition| !is_away && self.worker.counts_all(now, *partition)).collect(),
        }
    }

    fn pass_on(&mut self, now: Timestamp, record: &BusRecord) {
        let BusRecord { partition, offset, appended, ref payload } = *record;
        let decoded = Batch::decode(payload);
        let batch = decoded.as_ref().map_err(ToString::to_string);
        let counted = self.worker.batches_counted(partition);
        self.poll_worker_for(now, WorkerInput::Record { partition, offset, appended, batch }, payload);
        // Rows of a restore, and those of a repetition, are no demand.
        if let (Some(regions), Some(_), Ok(batch)) = (&self.regions, counted, &decoded)
            && self.worker.batches_counted(partition) > counted
        {
            regions.count(batch);
        }
    }

    fn pass_on_presence(&mut self, now: Timestamp) {
        for BusRecord { offset, appended, payload, .. } in self.presence.poll(Duration::ZERO, RECORDS_MAX) {
            let decoded = Presence::decode(&payload);
            let presence = decoded.as_ref().map_err(ToString::to_string);
            self.poll_worker_for(now, WorkerInput::Presence { presence, offset, appended }, &payload);
        }
    }

    fn poll_worker(&mut self, now: Timestamp, input: WorkerInput<'_>) {
        self.poll_worker_for(now, input, &[]);
    }

    /// Passes an input on and executes the effects; `record` holds the bytes of the record that the input was decoded from.
    fn poll_worker_for(&mut self, now: Timestamp, input: WorkerInput<'_>, record: &[u8]) {
        let mut effects = Vec::new();
        self.worker.poll(now, input, &mut effects);
        for effect in effects {
            self.execute(now, effect, record);
        }
    }

    fn execute(&mut self, now: Timestamp, effect: WorkerEffect, record: &[u8]) {
        match effect {
            WorkerEffect::Read { partition, since } => {
                self.calls.add(partition, since.map_or(ReadFrom::Oldest, ReadFrom::Time));
            }
            WorkerEffect::StopReading(partition) => {
                self.calls.remove(partition);
                self.metrics.forget(partition);
            }
            WorkerEffect::FindLogEnd(partition) => {
                let end = self.bus.log_end(Topic::Calls, partition);
                self.poll_worker(now, WorkerInput::LogEnd { partition, end });
            }
            WorkerEffect::Publish { tag, batch } => {
                if self.signals.append(batch.partition, batch.encode(), tag).is_err() {
                    self.poll_worker(now, WorkerInput::Reported { tag, is_lost: true });
                }
            }
            WorkerEffect::PublishRollups { topic, tag, batch } => {
                let log = if topic == Topic::Live { &mut self.live } else { &mut self.rollups };
                if log.append(0, batch.encode(), tag).is_err() && topic == Topic::Rollups {
                    self.poll_worker(now, WorkerInput::RollupsReported { tag, is_lost: true });
                }
            }
            WorkerEffect::Announce(presence) => {
                if let Some(log) = &mut self.announcements {
                    let _ = log.append(0, presence.encode(), 0);
                    log.reports();
                }
            }
            WorkerEffect::DeadLetter { letter, unlogged } => {
                self.metrics.dead_letters.count(letter.topic);
                self.dead_letters.keep(letter, unlogged, record);
            }
            WorkerEffect::Notice(notice @ WorkerNotice::Recreated(_)) => {
                tracing::warn!(aggregator = %self.id, "{notice}");
            }
            WorkerEffect::Notice(notice) => tracing::info!(aggregator = %self.id, "{notice}"),
        }
    }

    fn leave(&mut self) {
        self.poll_worker(self.clock.now(), WorkerInput::Stop);
        if let Some(log) = &mut self.announcements {
            log.flush(FLUSH_WAIT);
        }
        self.signals.flush(FLUSH_WAIT);
        self.rollups.flush(FLUSH_WAIT);
    }
}
