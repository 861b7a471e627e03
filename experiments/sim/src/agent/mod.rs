//! An agent of the simulation: a shell over the engine, its exchange with the bus, and its maintenance.
//!
//! It passes records on, wakes the state machines, and executes their effects. The way of a call and of the requests to the
//! store is in [`operations`], the sleep between two ticks in [`sleep`]. After a crash a new engine starts empty.

mod requests;
mod waker;
mod life;
mod time;
mod operations;
mod store_requests;
mod maintenance;
mod pause;
mod sleep;

use std::sync::Arc;

use tollgate::RuleSet;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::{LogEnd, Offset};
use tollgate_engine::{
    Engine, EngineSettings, Exchange, ExchangeEffect, ExchangeInput, Incoming, Maintenance, MaintenanceInput,
    MaintenanceSettings, Receipt, StoreShape,
};
use tollgate_wire::Record;

use super::bus::{DecodedRecord, SimReader};
use super::environment::Environment;
use super::event::{AgentEvent, AgentShell, Life, Writer};
use super::faults::StoreState;
use super::late_parts::OwnAdmissions;
use super::mutants::MutantMemory;
use super::observation::{Observation, RecordName, SimNode};
use super::planted_bugs::{LateRows, PlantedBug};
use super::presence_set::agent_id;
use super::scheduler::DriftingClock;
use super::settings::{SimAgentSettings, SimSettings};
use life::AgentLife;
use requests::StoreRequests;
use waker::Sleep;

pub use life::SimAgent;
pub use requests::Correction;

/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 100;
/// Minimum number of stripes whose rows are collected in a ms, so that calls run between those of one round.
const STRIPES_PER_TICK_MIN: usize = 4;
impl<'c> SimAgent<'c> {
    pub(super) fn new(index: usize, settings: SimAgentSettings, since: Timestamp) -> Self {
        let SimAgentSettings { clock_offset_ms: offset_ms, clock_drift_ppm: drift_ppm, .. } = settings;
        let clock = DriftingClock { offset_ms, drift_ppm, since };
        Self { index, settings, clock, lives: 0, running: None }
    }

    /// Returns the engine; nothing while the agent is down.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.running.as_ref().map(|running| &*running.engine)
    }

    /// Returns the agent's own time at an instant of true time.
    #[must_use]
    pub fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.at(now)
    }

    /// Sets the offset of the clock for the next life. A running agent keeps its clock.
    pub(super) fn set_clock_offset(&mut self, offset_ms: i64) {
        if self.running.is_none() {
            self.clock.offset_ms = offset_ms;
        }
    }

    /// Applies an event if the agent still lives the life that it was meant for.
    pub(super) fn apply(&mut self, env: &mut Environment<'c>, life: Life, event: AgentEvent) {
        if let Some(running) = self.running.as_mut().filter(|running| running.life == life) {
            running.apply(env, event);
        }
    }

    pub(super) fn start(&mut self, settings: &SimSettings, env: &mut Environment<'c>, rules: RuleSet) {
        if self.running.is_some() {
            return;
        }
        self.lives += 1;
        let mut engine = EngineSettings::new(&agent_id(self.index), self.time(env.now()));
        (engine.counters_max, engine.sketch_bytes) = (settings.counters_max, settings.sketch_bytes);
        (engine.partitions, engine.publishes) = (settings.partitions, settings.has_bus);
        (engine.owns_table, engine.lacks_store) = (self.settings.owns_table, !settings.has_store);
        engine.region = settings.region.into();
        engine.saved_agents = env.saved_agents.get(&self.index).map(|agents| agents.to_vec());
        engine.agents_expected = u32::try_from(settings.agents.len()).ok().and_then(std::num::NonZeroU32::new);
        if env.primaries.are_several() {
            engine.store = StoreShape::Primaries;
        }
        let engine = Arc::new(Engine::new(engine, rules));
        engine.follow_slots(env.primaries.owners());
        if let Some(switch) = env.saved_emergencies.get(&self.index) {
            engine.learn_emergency(self.time(env.now()), *switch);
        }
        let announces = settings.has_bus && settings.has_store && !self.settings.owns_table;
        let duties = MaintenanceSettings { announces, witnesses: announces, follows_rules: false };
        let (mut exchange, mut maintenance) = (Exchange::new(engine.clone()), Maintenance::new(engine.clone(), duties));
        let sleeps = <[Sleep; 2]>::default();
        if !settings.is_prompt {
            exchange.collect_per_tick(STRIPES_PER_TICK_MIN + env.stripe());
        }
        exchange.set_waker(sleeps[AgentShell::Exchange as usize].waker());
        maintenance.set_waker(sleeps[AgentShell::Maintenance as usize].waker());
        let running = self.running.insert(AgentLife {
            index: self.index,
            life: self.lives,
            clock: self.clock,
            engine,
            exchange,
            maintenance,
            sleeps,
            reports: Vec::new(),
            ticked_at: Timestamp::default(),
            signals: SimReader::from_next(Topic::Signals, env.bus.partitions, &env.bus),
            presence: SimReader::from_next(Topic::Presence, 1, &env.bus),
            requests: StoreRequests::default(),
            is_pinged: false,
            has_late_ping: false,
            paused_until: Timestamp::default(),
            held: Vec::new(),
            late_rows: LateRows::new(),
            memory: MutantMemory::default(),
            own: OwnAdmissions::default(),
        });
        env.observe(Observation::Started(running.node()));
        running.maintain(env, MaintenanceInput::Tick);
        if settings.has_bus {
            running.apply(env, AgentEvent::Wakes(AgentShell::Exchange));
            running.later(env, 0, AgentEvent::Reads);
        }
    }

    /// Ends the agent at once. Its state is lost, and so are the calls that it has not answered.
    pub(super) fn crash(&mut self, env: &mut Environment<'c>) {
        if let Some(running) = self.running.take() {
            env.end(running.node());
        }
    }

    /// Lets the agent publish what is left, leave, and end.
    pub(super) fn leave(&mut self, env: &mut Environment<'c>) {
        if let Some(running) = &mut self.running {
            running.exchange(env, ExchangeInput::Stop);
            if env.store().state == StoreState::Up {
                let now = env.now();
                env.store().forget(now, self.index);
            }
        }
        self.crash(env);
    }
}

impl<'c> AgentLife<'c> {
    fn apply(&mut self, env: &mut Environment<'c>, event: AgentEvent) {
        if env.now() < self.paused_until {
            return self.held.push(event);
        }
        match event {
            AgentEvent::Reported(name, offset) => return self.reported(env, name, offset),
            AgentEvent::Reads => {
                self.receive(env);
                let read_ms = env.read_ms;
                self.later(env, read_ms, AgentEvent::Reads);
            }
            AgentEvent::Wakes(shell) => self.wake(env, shell),
            AgentEvent::StoreReplies(ticket, answer) => self.store_replies(env, ticket, answer),
            AgentEvent::StepReplies(pipeline, step, answer) => self.step_replies(env, pipeline, step, &answer),
            AgentEvent::PartReplies(ticket, place, answer) => self.part_replies(env, ticket, place, answer),
            AgentEvent::PipelineOverdue(pipeline) => self.pipeline_overdue(env, pipeline),
            AgentEvent::DeadlinePasses(ticket) => self.deadline_passes(env, ticket),
            AgentEvent::Resumes => self.resume(env),
        }
        self.follow_wakers(env);
    }

    /// The report on a batch arrives. Nothing tells the writer, which fetches it when it wakes.
    fn reported(&mut self, env: &mut Environment<'c>, name: RecordName, offset: Option<Offset>) {
        env.report(self.node(), name, offset);
        let RecordName { topic, partition, tag: sequence } = name;
        if topic == Topic::Calls {
            let is_altered = env.has(PlantedBug::LostReportedDelivered);
            let offset = offset.or(is_altered.then(|| env.bus.end(topic, partition)));
            self.reports.push(ExchangeInput::Delivered { partition, sequence, offset });
        }
    }

    fn receive(&mut self, env: &mut Environment<'c>) {
        if env.cut(self.index).bus_reads {
            return;
        }
        let (own_now, mut lags) = (self.now(env), Vec::new());
        for record in env.poll_decoded(&mut self.signals, RECORDS_MAX) {
            let mut receipt = self.engine.receive(own_now, record.incoming(None), &mut lags);
            if let (Receipt::NeedsLogEnd(partition), true) = (&receipt, env.bus_is_up) {
                let next = env.bus.end(Topic::Calls, *partition);
                let end = LogEnd { log: env.bus.log_id, next };
                receipt = self.engine.receive(own_now, record.incoming(Some(end)), &mut lags);
            }
            self.received(env, &record, Topic::Signals, &receipt);
            env.observe(Observation::SignalsRead(self.index, record.partition, record.offset));
        }
        for record in env.poll_decoded(&mut self.presence, RECORDS_MAX) {
            let receipt = self.engine.receive(own_now, record.incoming(None), &mut lags);
            self.received(env, &record, Topic::Presence, &receipt);
        }
    }

    fn received(&self, env: &mut Environment<'c>, record: &DecodedRecord, topic: Topic, receipt: &Receipt) {
        if let Receipt::DeadLetter(ignored) = receipt {
            let (node, reason) = (self.node(), ignored.reason.clone());
            env.observe(Observation::DeadLetter {
                node,
                topic,
                partition: record.partition,
                offset: record.offset,
                reason,
            });
        }
    }

    fn exchange(&mut self, env: &mut Environment<'c>, input: ExchangeInput) {
        let mut effects = Vec::new();
        self.exchange.poll(self.now(env), input, &mut effects);
        for effect in effects {
            match effect {
                ExchangeEffect::Append(batch) => {
                    let partition = batch.name.partition;
                    let name = RecordName { topic: Topic::Calls, partition, tag: batch.name.sequence };
                    let written = env.bug.map(|bug| bug.written(&mut self.late_rows, batch.clone()));
                    let is_taken = env.produce(self.writer(), name, written.as_ref().unwrap_or(&batch).encode());
                    let answer =
                        if is_taken { ExchangeInput::Accepted { partition } } else { ExchangeInput::Refused(batch) };
                    self.exchange(env, answer);
                }
                ExchangeEffect::Announce(presence) => {
                    if env.has(PlantedBug::OwnHeartbeatWhenSent) {
                        let incoming = Incoming::Presence { appended: env.now(), presence: &presence };
                        let _ = self.engine.receive(self.now(env), incoming, &mut Vec::new());
                    }
                    if !env.produce(self.writer(), RecordName::PRESENCE, presence.encode()) {
                        self.exchange(env, ExchangeInput::Unannounced);
                    }
                }
            }
        }
    }

    fn node(&self) -> SimNode {
        SimNode::Agent(self.index)
    }

    fn writer(&self) -> Writer {
        Writer { node: self.node(), life: self.life }
    }
}
