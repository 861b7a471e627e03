//! The world in virtual time: agents, store, bus and aggregator, driven by one queue of events.
//!
//! The parts are the real ones ([`Limiter`], [`MemoryStore`], [`Counting`], and every record encoded and decoded); what is
//! simulated is what lies between them: time, delays, loss. One seed decides everything, so a run can be repeated. Whoever
//! drives a world lets calls [arrive](World::arrive), moves time [forward](World::run_until) and collects what was
//! [decided](World::decided).

mod event;
mod network;
mod agents;
mod bus;
mod planted;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use tollgate::enforce::Take;
use tollgate::limiter::{Begun, Limiter, Outgoing, Pending};
use tollgate::store::{Answers, MemoryStore, Store, StoreError};
use tollgate::{Call, Decision, RuleSet};
use tollgate_aggregator::counting::{Counting, Input, Scope};
use tollgate_common::bus::Report;
use tollgate_common::charge::Batch;
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::Partition;
use tollgate_common::presence;
use tollgate_common::signal::SignalBatch;
use tollgate_common::wire::Record;

pub use agents::SimAgent;
pub use bus::{SimBus, Stored};
pub use event::VirtualClock;
pub use network::{Delay, Faults, Network};
pub use planted::Bug;

use event::{Event, Scheduled, Ticket};
use planted::Planted;

/// How often the aggregator looks at its partitions when nothing comes, and an agent does its housekeeping, in ms.
const TICK_MS: u64 = 20;
/// How often an agent in debt looks whether the store is back, in ms.
const PROBE_MS: u64 = 10;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When it begins.
    pub start: Timestamp,
    /// How many agents there are, and how far their clocks are off, in ms.
    pub skews_ms: Vec<i64>,
    /// How many partitions the bus has.
    pub partitions: u32,
    /// How many counters an agent, the store and a partition hold at most.
    pub counters_max: usize,
    /// What lies between the parts.
    pub network: Network,
    /// Whether agents and aggregator give signs of life. Without, time can jump over years in which nothing happens.
    pub heartbeats: bool,
    /// From which part of its quota on a counter is signalled, in thousandths.
    pub threshold_permille: u32,
}

/// A call that was decided.
#[derive(Clone, Debug)]
pub struct Decided<'c> {
    /// By which agent.
    pub agent: usize,
    /// What was asked.
    pub call: Call<'c>,
    /// When it arrived, in true time.
    pub arrived: Timestamp,
    /// When it was answered, in true time.
    pub answered: Timestamp,
    /// The answer.
    pub decision: Decision,
}

/// A world in virtual time.
pub struct World<'c> {
    settings: Settings,
    clock: Arc<VirtualClock>,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    agents: Vec<SimAgent>,
    store: MemoryStore,
    store_is_up: bool,
    unread: Vec<(Ticket, Vec<Take>)>,
    bus: SimBus,
    counts: Vec<Counting>,
    planted: Planted,
    in_flight: BTreeMap<Ticket, InFlight<'c>>,
    tickets: Ticket,
    decided: Vec<Decided<'c>>,
}

struct InFlight<'c> {
    agent: usize,
    call: Call<'c>,
    pending: Pending,
    arrived: Timestamp,
}

impl Settings {
    /// One agent, no delays, no faults, no signs of life: what a replay needs.
    #[must_use]
    pub fn instant(start: Timestamp) -> Self {
        Self {
            start,
            skews_ms: vec![0],
            partitions: 1,
            counters_max: 4_000_000,
            network: Network::instant(),
            heartbeats: false,
            threshold_permille: 500,
        }
    }
}

impl<'c> World<'c> {
    /// A world whose agents enforce these rules.
    #[must_use]
    pub fn new(settings: Settings, rules: &RuleSet) -> Self {
        let clock = Arc::new(VirtualClock::at(settings.start));
        let agents = (0_usize..)
            .zip(&settings.skews_ms)
            .map(|(index, skew_ms)| SimAgent::new(index, *skew_ms, &settings, rules.clone()))
            .collect();
        let mut world = Self {
            store: MemoryStore::with_counters_max(clock.clone(), settings.counters_max),
            store_is_up: true,
            unread: Vec::new(),
            bus: SimBus::new(settings.partitions),
            counts: (0..settings.partitions).map(|partition| Counting::new(scope(&settings, partition))).collect(),
            planted: Planted::default(),
            in_flight: BTreeMap::new(),
            tickets: 0,
            decided: Vec::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
            agents,
            clock,
            settings,
        };
        world.restored();
        if world.settings.heartbeats {
            for agent in 0..world.agents.len() {
                world.after(agent as u64 % 7, Event::Wake { agent });
                world.after(agent as u64 * 31 % presence::INTERVAL_MS, Event::Show { agent });
            }
            for partition in 0..world.settings.partitions {
                world.after(u64::from(partition) % TICK_MS, Event::Count { partition, again: true });
            }
        }
        world
    }

    /// True time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now_ms()
    }

    /// The agents.
    #[must_use]
    pub fn agents(&self) -> &[SimAgent] {
        &self.agents
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// The bus.
    #[must_use]
    pub fn bus(&self) -> &SimBus {
        &self.bus
    }

    /// The counts, by partition.
    #[must_use]
    pub fn counts(&self) -> &[Counting] {
        &self.counts
    }

    /// Calls that wait for the store.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What was decided since this was asked the last time, in order.
    pub fn decided(&mut self) -> std::vec::Drain<'_, Decided<'c>> {
        self.decided.drain(..)
    }

    /// A call arrives at an agent, now.
    pub fn arrive(&mut self, agent: usize, call: Call<'c>) {
        let (limiter, own_now) = self.agents[agent].at(self.now());
        let arrived = self.now();
        match limiter.begin(own_now, &call) {
            Begun::Decided(decision) => self.decide(agent, call, arrived, decision),
            Begun::Ask(pending) if self.settings.network.is_instant() && self.store_is_up => {
                let answer = self.ask_store(pending.takes());
                let (limiter, own_now) = self.agents[agent].at(self.now());
                let decision = limiter.finish(own_now, &call, pending, answer);
                self.decide(agent, call, arrived, decision);
            }
            Begun::Ask(pending) => {
                self.tickets += 1;
                let ticket = self.tickets;
                let deadline_ms = u64::try_from(pending.deadline().as_millis()).unwrap_or(u64::MAX);
                let takes = pending.takes().to_vec();
                self.in_flight.insert(ticket, InFlight { agent, call, pending, arrived });
                let there = self.settings.network.way_to_store();
                self.after(there, Event::StoreReads { ticket, takes });
                self.after(deadline_ms, Event::Deadline { ticket });
            }
        }
        if !self.settings.heartbeats {
            self.wake_soon(agent);
        }
    }

    /// Moves time forward and does all that happens until then.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.step_until(until) {}
    }

    /// Does the next thing that happens until then; false when nothing is left to do, and it is `until`.
    pub fn step_until(&mut self, until: Timestamp) -> bool {
        match self.queue.peek() {
            Some(Reverse(next)) if next.at <= until => {}
            _ => {
                self.clock.set(until.max(self.now()));
                return false;
            }
        }
        if let Some(Reverse(next)) = self.queue.pop() {
            self.clock.set(next.at);
            self.happen(next.event);
        }
        true
    }

    /// The store goes away: it answers nobody and keeps what it has. Or it comes back and reads what was sent meanwhile.
    pub fn set_store_up(&mut self, up: bool) {
        self.store_is_up = up;
        if up {
            for (ticket, takes) in std::mem::take(&mut self.unread) {
                self.store_reads(ticket, takes);
            }
        }
    }

    /// The aggregator dies and starts anew from the beginning of its log.
    pub fn crash_aggregator(&mut self) {
        for partition in 0..self.settings.partitions {
            self.counts[partition as usize] = Counting::new(scope(&self.settings, partition));
            self.count(partition);
        }
        self.restored();
    }

    /// Cuts the bus: from now on every batch and every record is lost on its way. Or mends it.
    pub fn set_bus_up(&mut self, up: bool) {
        self.settings.network.set_bus_up(up);
    }

    /// Plants a bug in the aggregator's way: a test that does not notice it proves nothing.
    pub fn plant(&mut self, bug: Bug) {
        self.planted.bug = Some(bug);
    }

    fn restored(&mut self) {
        let now = self.now();
        for counting in &mut self.counts {
            counting.step(now, Input::Restored, &mut Vec::new());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::StoreReads { ticket, takes } => self.store_reads(ticket, takes),
            Event::StoreReplies { ticket, answer } => self.finish(ticket, answer),
            Event::Deadline { ticket } => self.finish(ticket, Err(StoreError::TimedOut)),
            Event::Wake { agent } => self.wake(agent),
            Event::Show { agent } => self.show(agent),
            Event::Probe { agent } => self.probe(agent),
            Event::Append { agent, partition, sequence, payload } => self.append(agent, partition, sequence, payload),
            Event::Report { agent, report } => self.agents[agent].limiter().hear_report(&report),
            Event::Count { partition, again } => {
                self.count(partition);
                if again {
                    self.after(TICK_MS, Event::Count { partition, again });
                }
            }
            Event::Hear { agent, payload } => {
                let (limiter, own_now) = self.agents[agent].at(self.now());
                if let Ok(batch) = SignalBatch::decode(&payload) {
                    limiter.hear_signals(own_now, &batch);
                }
            }
            Event::Meet { agent, payload } => {
                let (limiter, own_now) = self.agents[agent].at(self.now());
                if let Ok(presence) = presence::Presence::decode(&payload) {
                    limiter.hear_presence(own_now, &presence);
                }
            }
        }
    }

    /// A question reaches the store, whether its caller still waits or not. A store that is away reads it when it is back.
    fn store_reads(&mut self, ticket: Ticket, takes: Vec<Take>) {
        if self.store_is_up {
            let answer = self.ask_store(&takes);
            let back = self.settings.network.way_from_store();
            self.after(back, Event::StoreReplies { ticket, answer });
        } else {
            self.unread.push((ticket, takes));
        }
    }

    fn ask_store(&self, takes: &[Take]) -> Result<Answers, StoreError> {
        self.store.take_now(takes).unwrap_or(Err(StoreError::Unreachable))
    }

    /// The answer of the store or the deadline, whichever comes first.
    fn finish(&mut self, ticket: Ticket, answer: Result<Answers, StoreError>) {
        let Some(InFlight { agent, call, pending, arrived }) = self.in_flight.remove(&ticket) else {
            return;
        };
        let (limiter, own_now) = self.agents[agent].at(self.now());
        let decision = limiter.finish(own_now, &call, pending, answer);
        self.decide(agent, call, arrived, decision);
        if self.agents[agent].starts_probing() {
            self.after(PROBE_MS, Event::Probe { agent });
        }
    }

    fn decide(&mut self, agent: usize, call: Call<'c>, arrived: Timestamp, decision: Decision) {
        let answered = self.now();
        self.decided.push(Decided { agent, call, arrived, answered, decision });
    }

    /// An agent in debt looks whether the store is back, and pays.
    fn probe(&mut self, agent: usize) {
        let limiter = self.agents[agent].limiter().clone();
        if self.store_is_up {
            while limiter.is_in_debt() {
                self.store.take_now(&limiter.settle_debts());
            }
        }
        if self.agents[agent].keeps_probing() {
            self.after(PROBE_MS, Event::Probe { agent });
        }
    }

    fn wake_soon(&mut self, agent: usize) {
        if self.agents[agent].starts_waiting() {
            self.after(TICK_MS, Event::Wake { agent });
        }
    }

    /// An agent's writer hands over what is due.
    fn wake(&mut self, agent: usize) {
        self.agents[agent].woke();
        let (limiter, own_now) = self.agents[agent].at(self.now());
        let due = limiter.batches_due(own_now);
        limiter.tick(own_now);
        for Outgoing { partition, sequence, payload, .. } in due {
            match self.settings.network.way_to_bus() {
                Delay::After(ms) => self.after(ms, Event::Append { agent, partition, sequence, payload }),
                Delay::Twice(first, second) => {
                    self.after(first, Event::Append { agent, partition, sequence, payload: payload.clone() });
                    self.after(second, Event::Append { agent, partition, sequence, payload });
                }
                Delay::Lost => {
                    let report = Report { partition, tag: sequence, offset: None };
                    self.after(5, Event::Report { agent, report });
                }
            }
        }
        if self.settings.heartbeats {
            self.after(TICK_MS / 4, Event::Wake { agent });
        }
    }

    fn show(&mut self, agent: usize) {
        let (limiter, own_now) = self.agents[agent].at(self.now());
        let payload = limiter.presence(own_now, false).encode();
        for other in 0..self.agents.len() {
            if let Delay::After(ms) | Delay::Twice(ms, _) = self.settings.network.way_to_agent() {
                self.after(ms, Event::Meet { agent: other, payload: payload.clone() });
            }
        }
        self.after(presence::INTERVAL_MS, Event::Show { agent });
    }

    fn append(&mut self, agent: usize, partition: Partition, sequence: u64, payload: Vec<u8>) {
        let offset = self.bus.append(partition, self.now(), payload);
        let report = Report { partition, tag: sequence, offset: Some(offset) };
        let back = self.settings.network.way_from_store();
        self.after(back, Event::Report { agent, report });
        let soon = self.settings.network.way_to_aggregator();
        self.after(soon, Event::Count { partition, again: false });
    }

    /// The aggregator reads what is new in a partition and says what changed.
    fn count(&mut self, partition: Partition) {
        let now = self.now();
        let counting = &mut self.counts[partition as usize];
        let mut out = Vec::new();
        for (offset, record) in self.bus.from(partition, counting.read().map_or(0, |(offset, _)| offset + 1)) {
            let appended = record.appended;
            match Batch::decode(&record.payload) {
                Ok(mut batch) => {
                    self.planted.corrupt(offset, &mut batch);
                    counting.step(now, Input::Batch { offset, appended, batch: &batch }, &mut out);
                }
                Err(_) => counting.step(now, Input::Poison { offset, appended }, &mut out),
            }
        }
        counting.step(now, Input::Tick, &mut out);
        if !self.settings.heartbeats {
            // Years may pass; nobody comes back to read them.
            self.bus.forget(partition);
        }
        for batch in out {
            let payload = batch.encode();
            for agent in 0..self.agents.len() {
                if let Delay::After(ms) | Delay::Twice(ms, _) = self.settings.network.way_to_agent() {
                    self.after(ms, Event::Hear { agent, payload: payload.clone() });
                }
            }
        }
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.scheduled += 1;
        let at = self.now().plus_ms(ms);
        self.queue.push(Reverse(Scheduled { at, order: self.scheduled, event }));
    }
}

/// Looks at an agent's limiter with its own time; for those who check on it.
impl SimAgent {
    /// The limiter, and what its clock says at this instant.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> (&Arc<Limiter>, Timestamp) {
        (self.limiter(), self.own_time(now))
    }
}

fn scope(settings: &Settings, partition: Partition) -> Scope {
    Scope {
        aggregator: "aggregator".into(),
        partition,
        log: 1,
        threshold_permille: settings.threshold_permille,
        counters_max: settings.counters_max,
    }
}
