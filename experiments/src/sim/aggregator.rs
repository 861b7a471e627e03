//! An aggregator of the simulation: a shell over [`Worker`], as `aggregator/src/event_loop.rs` is one over a real bus.
//!
//! It decodes records, passes them on in rounds, and executes the worker's effects. After a crash a new worker starts empty.

use tollgate_aggregator_engine::worker::{LogEnd, Worker, WorkerEffect, WorkerInput, WorkerSettings};
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::Presence;
use tollgate_wire::Record;

use super::bus::SimReader;
use super::environment::Environment;
use super::event::{Life, SimEvent, Writer};
use super::observation::{Observation, SimNode};
use super::planted_bugs::{NewestUnits, PlantedBug};
use super::settings::SimSettings;

/// Maximum number of records that one poll takes; small, so that a restore takes several rounds.
const RECORDS_MAX: usize = 40;

/// An aggregator.
pub struct SimAggregator {
    index: usize,
    pub(super) life: Life,
    running: Option<AggregatorLife>,
    paused_until: Timestamp,
}

/// The state of an aggregator that is lost in a crash.
struct AggregatorLife {
    worker: Worker,
    calls: SimReader,
    presence: SimReader,
    newest: NewestUnits,
}

impl SimAggregator {
    pub(super) fn new(index: usize) -> Self {
        Self { index, life: 0, running: None, paused_until: Timestamp::default() }
    }

    /// Returns the worker; nothing while the aggregator is down.
    #[must_use]
    pub fn worker(&self) -> Option<&Worker> {
        self.running.as_ref().map(|running| &running.worker)
    }

    /// Returns true while the aggregator does nothing, as one whose process is suspended.
    #[must_use]
    pub fn is_paused(&self, now: Timestamp) -> bool {
        now < self.paused_until
    }

    /// Suspends the aggregator; it goes on with the state that it has.
    pub(super) fn pause(&mut self, until: Timestamp) {
        self.paused_until = until;
    }

    pub(super) fn start(&mut self, settings: &SimSettings, env: &mut Environment<'_>) {
        if self.running.is_some() {
            return;
        }
        self.life += 1;
        self.paused_until = Timestamp::default();
        let mut worker = WorkerSettings::new(&format!("aggregator-{}", self.index + 1));
        worker.epoch = env.now();
        worker.threshold_permille = settings.threshold_permille;
        worker.counters_max = settings.counters_max.saturating_mul(settings.partitions as usize);
        worker.shares = settings.aggregators > 1;
        self.running = Some(AggregatorLife {
            worker: Worker::new(worker, settings.partitions),
            calls: SimReader::new(Topic::Calls),
            presence: SimReader::from_next(Topic::Presence, 1, &env.bus),
            newest: NewestUnits::default(),
        });
        env.observe(Observation::Started(self.node()));
        self.poll(env, WorkerInput::Tick);
        env.scheduler.after(0, self.next_round());
    }

    /// Ends the aggregator at once; its state is lost.
    pub(super) fn crash(&mut self, env: &mut Environment<'_>) {
        if self.running.take().is_some() {
            self.life += 1;
            env.forget_queue(self.node());
            env.observe(Observation::Ended(self.node()));
        }
    }

    /// Lets the aggregator publish what is due, leave, and end.
    pub(super) fn leave(&mut self, env: &mut Environment<'_>) {
        self.poll(env, WorkerInput::Stop);
        self.crash(env);
    }

    /// A round: records, positions, presence, and a tick.
    pub(super) fn round(&mut self, env: &mut Environment<'_>) {
        let now = env.now();
        if self.is_paused(now) {
            return env.scheduler.after(self.paused_until.ms_since(now), self.next_round());
        }
        let Some(running) = &mut self.running else { return };
        let starves = env.bug.is_some_and(|bug| bug.starves(self.index));
        let records = if starves { Vec::new() } else { env.poll(&mut running.calls, RECORDS_MAX) };
        for record in records {
            self.pass_on(env, &record);
        }
        self.pass_on_positions(env, starves);
        self.pass_on_presence(env);
        self.poll(env, WorkerInput::Tick);
        let wait_ms = self.worker().map_or(0, Worker::wait_ms);
        env.scheduler.after(wait_ms.max(1), self.next_round());
    }

    /// The bus tells the end of a log.
    pub(super) fn log_end(&mut self, env: &mut Environment<'_>, partition: Partition) {
        let end = env.bus.end(Topic::Calls, partition);
        let next = env.bug.map_or(end, |bug| bug.log_end(end));
        let end = env.network.bus_is_up.then_some(LogEnd { log: env.bus.log_id(), next });
        self.poll(env, WorkerInput::LogEnd { partition, end });
    }

    /// The report on a batch of signals arrives.
    pub(super) fn reported(&mut self, env: &mut Environment<'_>, tag: u64, is_lost: bool) {
        self.poll(env, WorkerInput::Reported { tag, is_lost });
        if env.bug == Some(PlantedBug::NextReported) {
            self.poll(env, WorkerInput::Reported { tag: tag + 1, is_lost });
        }
    }

    fn pass_on(&mut self, env: &mut Environment<'_>, record: &BusRecord) {
        let BusRecord { partition, offset, appended, ref payload } = *record;
        let mut decoded = Batch::decode(payload).map_err(|error| error.to_string());
        if let (Some(bug), Ok(batch), Some(running)) = (env.bug, &mut decoded, &mut self.running) {
            bug.alter_batch(&mut running.newest, partition, offset, batch);
        }
        let batch = decoded.as_ref().map_err(Clone::clone);
        self.poll(env, WorkerInput::Record { partition, offset, appended, batch });
    }

    fn pass_on_positions(&mut self, env: &mut Environment<'_>, starves: bool) {
        let Some(running) = self.running.as_ref().filter(|_| !starves) else { return };
        let restoring: Vec<Partition> = running.worker.restoring().collect();
        for partition in restoring {
            let position = self.running.as_ref().and_then(|running| running.calls.position(partition));
            if let Some(next) = position {
                self.poll(env, WorkerInput::Position { partition, next });
            }
        }
    }

    fn pass_on_presence(&mut self, env: &mut Environment<'_>) {
        let Some(running) = &mut self.running else { return };
        let records = env.poll(&mut running.presence, RECORDS_MAX);
        for record in records {
            let Ok(mut presence) = Presence::decode(&record.payload) else { continue };
            if let Some(bug) = env.bug.filter(|_| *presence.id != *self.name()) {
                bug.alter_peer(&mut presence, env.bus.partitions());
            }
            let input = WorkerInput::Presence { presence: &presence, appended: record.appended };
            self.poll(env, input);
        }
    }

    fn poll(&mut self, env: &mut Environment<'_>, input: WorkerInput<'_>) {
        let Some(running) = &mut self.running else { return };
        let mut effects = Vec::new();
        running.worker.poll(env.now(), input, &mut effects);
        for effect in effects {
            self.execute(env, effect);
        }
    }

    fn execute(&mut self, env: &mut Environment<'_>, effect: WorkerEffect) {
        let Some(running) = &mut self.running else { return };
        match effect {
            WorkerEffect::Read { partition, since } => running.calls.add(partition, since, &env.bus),
            WorkerEffect::StopReading { partition } => running.calls.remove(partition),
            WorkerEffect::FindLogEnd { partition } => {
                let delay_ms = env.network.read_delay_ms();
                let event = SimEvent::LogEnd { aggregator: self.index, life: self.life, partition };
                env.scheduler.after(delay_ms, event);
            }
            WorkerEffect::Publish { tag, batch } => {
                let payload = batch.clone().encode();
                if env.produce(self.writer(), (Topic::Signals, batch.partition, tag), payload) {
                    env.observe(Observation::Published { aggregator: self.index, batch });
                } else {
                    self.poll(env, WorkerInput::Refused { tag, batch });
                }
            }
            WorkerEffect::Announce(mut presence) => {
                if let Some(bug) = env.bug {
                    bug.alter_own(&mut presence, self.index, env.bus.partitions());
                }
                env.produce(self.writer(), (Topic::Presence, 0, 0), presence.encode());
            }
            WorkerEffect::DeadLetter { .. } | WorkerEffect::Notice(_) => {}
        }
    }

    fn name(&self) -> String {
        format!("aggregator-{}", self.index + 1)
    }

    fn node(&self) -> SimNode {
        SimNode::Aggregator(self.index)
    }

    fn writer(&self) -> Writer {
        Writer { node: self.node(), life: self.life }
    }

    fn next_round(&self) -> SimEvent {
        SimEvent::AggregatorRound { aggregator: self.index, life: self.life }
    }
}
