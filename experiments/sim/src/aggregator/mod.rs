//! An aggregator of the simulation: a shell over [`Worker`], as `aggregator/src/event_loop.rs` is one over a real bus.
//!
//! It decodes records, passes them on in rounds, and executes the worker's effects. After a crash a new worker starts empty. Its part
//! in the budgets of regions is in [`budgets`].

mod life;
mod budgets;

use tollgate_aggregator_engine::budget::region::RegionBudgets;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_aggregator_engine::worker::{DeadLetter, Worker, WorkerEffect, WorkerInput, WorkerSettings};
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::{LogEnd, Offset};
use tollgate_wire::Record;

use super::budget_member::BudgetMember;
use super::bus::SimReader;
use super::environment::Environment;
use super::event::{AggregatorEvent, LedgerMemberEvent, Life};
use super::observation::{Observation, RecordName};
use super::planted_bugs::{NewestUnits, PlantedBug};
use super::settings::SimSettings;
use life::AggregatorLife;

/// Maximum number of records that one poll takes; small, so that a restore takes several rounds.
const RECORDS_MAX: usize = 40;

/// An aggregator.
pub struct SimAggregator {
    index: usize,
    /// The number of its starts.
    lives: Life,
    running: Option<AggregatorLife>,
}

impl SimAggregator {
    pub(super) fn new(index: usize) -> Self {
        Self { index, lives: 0, running: None }
    }

    /// Returns the worker; nothing while the aggregator is down.
    #[must_use]
    pub fn worker(&self) -> Option<&Worker> {
        self.running.as_ref().map(|running| &running.worker)
    }

    /// Returns the budgets of the region as it knows them; nothing while it is down, and in a world of one region.
    #[must_use]
    pub fn budgets(&self) -> Option<&RegionBudgets> {
        self.running.as_ref()?.member.as_ref().map(|member| &member.budgets)
    }

    /// Returns the number of records of the mirror that it has read.
    pub(super) fn mirror_read(&self) -> usize {
        let member = self.running.as_ref().and_then(|running| running.member.as_ref());
        member.map_or(0, |member| member.read)
    }

    /// Lets it read the mirror.
    pub(super) fn read_mirror(&self, env: &mut Environment<'_>) {
        if let Some(running) = self.running.as_ref().filter(|running| running.member.is_some()) {
            running.later(env, 0, AggregatorEvent::Budget(LedgerMemberEvent::Reads));
        }
    }

    /// Applies an event if the aggregator still lives the life that it was meant for.
    pub(super) fn apply(&mut self, env: &mut Environment<'_>, life: Life, event: AggregatorEvent) {
        if let Some(running) = self.running.as_mut().filter(|running| running.life == life) {
            running.apply(env, event);
        }
    }

    /// The aggregator goes on with the state that it has.
    pub(super) fn pause(&mut self, env: &Environment<'_>, until: Timestamp) {
        if let Some(running) = &mut self.running {
            running.pause(env.now(), until, env.mistake);
        }
    }

    pub(super) fn start(&mut self, settings: &SimSettings, env: &mut Environment<'_>) {
        if self.running.is_some() {
            return;
        }
        self.lives += 1;
        let mut worker = WorkerSettings::new(&format!("aggregator-{}", self.index + 1));
        worker.epoch = env.now();
        worker.threshold_permille = settings.threshold_permille;
        worker.counters_max = settings.counters_max.saturating_mul(settings.partitions as usize);
        worker.shares = settings.aggregators > 1;
        worker.region = settings.region.into();
        worker.coordinates = settings.budgets.is_some_and(|budgets| budgets.is_home);
        let running = self.running.insert(AggregatorLife {
            index: self.index,
            life: self.lives,
            worker: Worker::new(worker, settings.partitions),
            member: BudgetMember::new(settings, self.index, self.lives),
            calls: SimReader::new(Topic::Calls),
            presence: SimReader::from_next(Topic::Presence, 1, &env.bus),
            newest: NewestUnits::default(),
            is_prompt: settings.is_prompt,
            paused_until: Timestamp::default(),
        });
        env.observe(Observation::Started(running.node()));
        running.poll(env, WorkerInput::Tick);
        running.later(env, 0, AggregatorEvent::Round);
        if running.member.is_some() {
            running.later(env, 0, AggregatorEvent::Budget(LedgerMemberEvent::Tick));
        }
    }

    /// Ends the aggregator at once; its state is lost.
    pub(super) fn crash(&mut self, env: &mut Environment<'_>) {
        if let Some(running) = self.running.take() {
            env.end(running.node());
        }
    }

    /// Lets the aggregator publish what is due, leave, and end.
    pub(super) fn leave(&mut self, env: &mut Environment<'_>) {
        if let Some(running) = &mut self.running {
            running.poll(env, WorkerInput::Stop);
        }
        self.crash(env);
    }
}

impl AggregatorLife {
    fn apply(&mut self, env: &mut Environment<'_>, event: AggregatorEvent) {
        match event {
            AggregatorEvent::Reported(name, offset) => self.reported(env, name, offset),
            AggregatorEvent::Round => self.round(env),
            AggregatorEvent::Budget(event) => self.handle_budget(env, event),
            AggregatorEvent::LogEnd(partition) => {
                let next = if env.has(PlantedBug::RestoredTooEarly) { 0 } else { env.bus.end(Topic::Calls, partition) };
                let end = env.bus_is_up.then_some(LogEnd { log: env.bus.log_id, next });
                self.poll(env, WorkerInput::LogEnd { partition, end });
            }
        }
    }

    /// The report on a record arrives.
    fn reported(&mut self, env: &mut Environment<'_>, name: RecordName, offset: Option<Offset>) {
        env.report(self.node(), name, offset);
        if name.topic == Topic::Signals {
            let (tag, is_lost) = (name.tag, offset.is_none());
            self.poll(env, WorkerInput::Reported { tag, is_lost });
            if env.has(PlantedBug::NextReported) {
                self.poll(env, WorkerInput::Reported { tag: tag + 1, is_lost });
            }
        }
    }

    /// A round: records, positions, presence, and a tick.
    fn round(&mut self, env: &mut Environment<'_>) {
        let now = env.now();
        if now < self.paused_until {
            return self.later(env, self.paused_until.ms_since(now), AggregatorEvent::Round);
        }
        if !env.bug.is_some_and(|bug| bug.starves(self.index)) {
            for record in env.poll(&mut self.calls, RECORDS_MAX) {
                self.pass_on(env, &record);
            }
            for partition in self.worker.restoring().collect::<Vec<_>>() {
                if let Some(next) = self.calls.position(partition) {
                    self.poll(env, WorkerInput::Position { partition, next });
                }
            }
        }
        let is_heard = !env.unheard.contains(&self.index);
        let presence = if is_heard { env.poll(&mut self.presence, RECORDS_MAX) } else { Vec::new() };
        for record in presence {
            let mut decoded = Presence::decode(&record.payload).map_err(|error| error.to_string());
            if let Ok(presence) = &mut decoded
                && env.has(PlantedBug::RevokedBeforeRestored)
                && self.worker.membership().is_some_and(|it| it.has_peer(&(presence.id.clone(), presence.epoch)))
            {
                presence.partitions = (0..env.bus.partitions).collect();
            }
            let presence = decoded.as_ref().map_err(Clone::clone);
            let BusRecord { offset, appended, .. } = record;
            self.poll(env, WorkerInput::Presence { presence, offset, appended });
        }
        self.poll(env, WorkerInput::Tick);
        let wait_ms = if self.is_prompt { 1 } else { self.worker.wait_ms().max(1) };
        self.later(env, wait_ms, AggregatorEvent::Round);
    }

    fn pass_on(&mut self, env: &mut Environment<'_>, record: &BusRecord) {
        let BusRecord { partition, offset, appended, ref payload } = *record;
        let mut decoded = Batch::decode(payload).map_err(|error| error.to_string());
        if let (Some(bug), Ok(batch)) = (env.bug, &mut decoded) {
            bug.alter_batch(&mut self.newest, partition, offset, batch);
        }
        let batch = decoded.as_ref().map_err(Clone::clone);
        let counted = self.worker.batches_counted(partition);
        self.poll(env, WorkerInput::Record { partition, offset, appended, batch });
        // Rows of a restore, and those of a repetition, are no demand.
        if let (Some(member), Some(_), Ok(batch)) = (&mut self.member, counted, &decoded)
            && self.worker.batches_counted(partition) > counted
        {
            member.count(batch);
        }
    }

    fn poll(&mut self, env: &mut Environment<'_>, input: WorkerInput<'_>) {
        let mut effects = Vec::new();
        self.worker.poll(env.now(), input, &mut effects);
        for effect in effects {
            self.execute(env, effect);
        }
    }

    fn execute(&mut self, env: &mut Environment<'_>, effect: WorkerEffect) {
        match effect {
            WorkerEffect::Read { partition, since } => self.calls.add(partition, since, &env.bus),
            WorkerEffect::StopReading(partition) => self.calls.remove(partition),
            WorkerEffect::FindLogEnd(partition) => {
                let delay_ms = env.delay_ms(env.faults.bus_ms_max);
                self.later(env, delay_ms, AggregatorEvent::LogEnd(partition));
            }
            WorkerEffect::Publish { tag, batch } => {
                let name = RecordName { topic: Topic::Signals, partition: batch.partition, tag };
                if env.produce(self.writer(), name, batch.clone().encode()) {
                    env.observe(Observation::Published(self.index, batch));
                } else {
                    self.poll(env, WorkerInput::Reported { tag, is_lost: true });
                }
            }
            // Pages need no simulated delays; a minute must reach its log.
            WorkerEffect::PublishRollups { topic: Topic::Rollups, tag, batch } => {
                if env.bus_is_up {
                    let now = env.now();
                    env.bus.append(Topic::Rollups, 0, now, &batch.encode());
                }
                self.poll(env, WorkerInput::RollupsReported { tag, is_lost: !env.bus_is_up });
            }
            WorkerEffect::Announce(mut presence) => {
                let is_known = self.worker.membership().is_some_and(Membership::is_known);
                if !presence.leaving && is_known && env.bug.is_some_and(|bug| bug.starves(self.index)) {
                    presence.partitions = (0..env.bus.partitions).collect();
                }
                env.produce(self.writer(), RecordName::PRESENCE, presence.encode());
            }
            WorkerEffect::DeadLetter { letter, .. } => {
                let DeadLetter { topic, partition, offset, reason, .. } = letter;
                env.observe(Observation::DeadLetter { node: self.node(), topic, partition, offset, reason });
            }
            WorkerEffect::PublishRollups { .. } | WorkerEffect::Notice(_) => {}
        }
    }
}
