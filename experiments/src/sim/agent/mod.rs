//! An agent of the simulation: a shell over the engine, its exchange with the bus, and its maintenance.
//!
//! It decodes records, wakes the state machines, and executes their effects. The way of a call and of the requests to the
//! store is in [`operations`], the sleep between two ticks in [`sleep`]. After a crash a new engine starts empty, as another
//! life of the same agent.

mod operations;
mod sleep;

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate::RuleSet;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::{Offset, SignalBatch};
use tollgate_core::rules::Generation;
use tollgate_engine::{
    CountsIn, Engine, EngineSettings, Exchange, ExchangeEffect, ExchangeInput, Incoming, Maintenance,
    MaintenanceEffect, MaintenanceInput, MaintenanceSettings,
};
use tollgate_wire::Record;

use super::bus::SimReader;
use super::environment::Environment;
use super::event::{AgentShell, Life, SimEvent, Writer};
use super::faults::StoreState;
use super::observation::{Observation, SimNode, Ticket};
use super::settings::SimSettings;
use operations::SimRequest;
use sleep::Sleep;

pub use operations::Correction;

/// Interval at which the readers poll, in ms.
const READ_MS: u64 = 5;
/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 100;
/// Deadline of the requests of the maintenance, in ms.
const MAINTENANCE_DEADLINE_MS: u64 = 50;
/// Interval at which an agent without a bus ticks its maintenance, in ms. Years may pass between two calls, so a call looks
/// whether the tick is due.
const TICK_MS: u64 = 60_000;

/// An agent.
pub struct SimAgent<'c> {
    index: usize,
    pub(super) life: Life,
    clock_offset_ms: i64,
    owns_table: bool,
    running: Option<AgentLife<'c>>,
}

/// A report on a batch: its partition, its sequence, and its offset unless it is lost.
type Report = (Partition, u64, Option<Offset>);

/// The state of an agent that is lost in a crash.
struct AgentLife<'c> {
    engine: Arc<Engine>,
    exchange: Exchange,
    maintenance: Maintenance,
    exchange_sleep: Sleep,
    maintenance_sleep: Sleep,
    /// Reports that the writer has not fetched yet.
    reports: Vec<Report>,
    ticked_at: Timestamp,
    signals: SimReader,
    presence: SimReader,
    pending: BTreeMap<Ticket, SimRequest<'c>>,
}

impl<'c> SimAgent<'c> {
    pub(super) fn new(index: usize) -> Self {
        Self { index, life: 0, clock_offset_ms: 0, owns_table: false, running: None }
    }

    /// Returns the engine; nothing while the agent is down.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        self.running.as_ref().map(|running| &*running.engine)
    }

    /// Returns the agent's own time at an instant of true time.
    #[must_use]
    pub fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_ms(now.as_ms().saturating_add_signed(self.clock_offset_ms))
    }

    /// Returns true if the agent keeps the counts in its own table.
    #[must_use]
    pub fn owns_table(&self) -> bool {
        self.owns_table
    }

    /// Returns the number of requests with units that wait for the store.
    #[must_use]
    pub fn pending(&self) -> usize {
        let counts = |request: &&SimRequest<'_>| !matches!(request, SimRequest::Ping | SimRequest::Announce);
        self.running.as_ref().map_or(0, |running| running.pending.values().filter(counts).count())
    }

    pub(super) fn start(&mut self, settings: &SimSettings, env: &mut Environment<'c>, rules: RuleSet) {
        if self.running.is_some() {
            return;
        }
        self.life += 1;
        self.clock_offset_ms = settings.agents[self.index].clock_offset_ms;
        self.owns_table = settings.agents[self.index].owns_table;
        let mut engine = EngineSettings::new(&format!("agent-{}", self.index + 1), self.time(env.now()));
        engine.counters_max = settings.counters_max;
        engine.partitions = settings.partitions;
        engine.publishes = settings.has_bus;
        engine.counts = if self.owns_table { CountsIn::OwnTable } else { CountsIn::Store };
        engine.agents_expected = u32::try_from(settings.agents.len()).ok().and_then(std::num::NonZeroU32::new);
        let engine = Arc::new(Engine::new(engine, rules));
        let duties = MaintenanceSettings { announces: settings.has_bus && !self.owns_table, follows_rules: false };
        let (mut exchange, mut maintenance) = (Exchange::new(engine.clone()), Maintenance::new(engine.clone(), duties));
        let (exchange_sleep, maintenance_sleep) = (Sleep::default(), Sleep::default());
        exchange.set_waker(exchange_sleep.waker());
        maintenance.set_waker(maintenance_sleep.waker());
        self.running = Some(AgentLife {
            exchange,
            maintenance,
            exchange_sleep,
            maintenance_sleep,
            reports: Vec::new(),
            ticked_at: Timestamp::default(),
            signals: SimReader::from_next(Topic::Signals, env.bus.partitions(), &env.bus),
            presence: SimReader::from_next(Topic::Presence, 1, &env.bus),
            pending: BTreeMap::new(),
            engine,
        });
        env.observe(Observation::Started(self.node()));
        self.maintain(env, MaintenanceInput::Tick);
        if settings.has_bus {
            self.wake(env, AgentShell::Exchange);
            env.scheduler.after(0, self.next_read());
        }
    }

    /// Ends the agent at once. Its state is lost, and so are the calls that it has not answered.
    pub(super) fn crash(&mut self, env: &mut Environment<'c>) {
        if self.running.take().is_some() {
            self.life += 1;
            env.forget_queue(self.node());
            env.observe(Observation::Ended(self.node()));
        }
    }

    /// Lets the agent publish what is left, leave, and end.
    pub(super) fn leave(&mut self, env: &mut Environment<'c>) {
        self.exchange(env, ExchangeInput::Stop);
        if env.store.state() == StoreState::Up {
            env.store.forget(self.index);
        }
        self.crash(env);
    }

    pub(super) fn set_rules(&self, rules: RuleSet) -> Result<(), Generation> {
        self.engine().map_or(Ok(()), |engine| engine.set_rules(rules))
    }

    /// The readers poll.
    pub(super) fn read(&mut self, env: &mut Environment<'c>) {
        self.receive(env);
        self.follow_wakers(env);
        env.scheduler.after(READ_MS, self.next_read());
    }

    /// The report on a batch arrives. Nothing tells the writer, which fetches it when it wakes.
    pub(super) fn acknowledged(
        &mut self,
        env: &mut Environment<'c>,
        partition: Partition,
        sequence: u64,
        offset: Option<Offset>,
    ) {
        let end = env.bus.end(Topic::Calls, partition);
        let offset = env.bug.map_or(offset, |bug| bug.reported(offset, end));
        if let Some(running) = &mut self.running {
            running.reports.push((partition, sequence, offset));
        }
    }

    fn receive(&mut self, env: &mut Environment<'c>) {
        let own_now = self.time(env.now());
        let Some(running) = &mut self.running else { return };
        let mut lags = Vec::new();
        for record in env.poll(&mut running.signals, RECORDS_MAX) {
            let incoming = SignalBatch::decode(&record.payload);
            let incoming = incoming.as_ref().map(|batch| Incoming::Signals(record.appended, batch));
            running.engine.receive(own_now, incoming.unwrap_or(Incoming::Undecodable), &mut lags);
        }
        for record in env.poll(&mut running.presence, RECORDS_MAX) {
            let incoming = Presence::decode(&record.payload);
            let incoming = incoming.as_ref().map(Incoming::Presence);
            running.engine.receive(own_now, incoming.unwrap_or(Incoming::Undecodable), &mut lags);
        }
    }

    fn exchange(&mut self, env: &mut Environment<'c>, input: ExchangeInput) {
        let own_now = self.time(env.now());
        let Some(running) = &mut self.running else { return };
        let mut effects = Vec::new();
        running.exchange.poll(own_now, input, &mut effects);
        for effect in effects {
            match effect {
                ExchangeEffect::Append(batch) => {
                    let (partition, sequence) = (batch.name.partition, batch.name.sequence);
                    let payload = batch.clone().encode();
                    let is_taken = env.produce(self.writer(), (Topic::Calls, partition, sequence), payload);
                    let answer =
                        if is_taken { ExchangeInput::Accepted { partition } } else { ExchangeInput::Refused(batch) };
                    self.exchange(env, answer);
                }
                ExchangeEffect::Announce(presence) => {
                    env.produce(self.writer(), (Topic::Presence, 0, 0), presence.encode());
                }
            }
        }
    }

    fn maintain(&mut self, env: &mut Environment<'c>, input: MaintenanceInput) {
        let own_now = self.time(env.now());
        let Some(running) = &mut self.running else { return };
        running.ticked_at = own_now;
        let mut effects = Vec::new();
        running.maintenance.poll(own_now, input, &mut effects);
        for effect in effects {
            match effect {
                MaintenanceEffect::Send(request) => self.request_for_maintenance(env, request),
                MaintenanceEffect::SaveFleetSize(agents) => {
                    env.observe(Observation::FleetSizeSaved { agent: self.index, agents });
                }
                MaintenanceEffect::Notify(notice) => env.observe(Observation::Notified { agent: self.index, notice }),
            }
        }
        self.sleep(env, AgentShell::Maintenance);
    }

    /// Ticks the maintenance of an agent without a bus, which does not sleep, when that is due.
    fn maintain_without_sleep(&mut self, env: &mut Environment<'c>) {
        let own_now = self.time(env.now());
        let is_due = |running: &AgentLife<'_>| {
            !running.engine.settings().publishes && own_now.ms_since(running.ticked_at) >= TICK_MS
        };
        if self.running.as_ref().is_some_and(is_due) {
            self.maintain(env, MaintenanceInput::Tick);
        }
    }

    fn node(&self) -> SimNode {
        SimNode::Agent(self.index)
    }

    fn writer(&self) -> Writer {
        Writer { node: self.node(), life: self.life }
    }

    fn next_read(&self) -> SimEvent {
        SimEvent::AgentReads { agent: self.index, life: self.life }
    }
}
