//! The world in virtual time: agents, store, bus and aggregator, driven by one queue of events.
//!
//! The parts are the real ones ([`Engine`](tollgate_engine::Engine), [`MemoryStore`], [`Counting`], and every record
//! encoded and decoded); what is simulated is what lies between them: time, delays, loss. One seed decides everything, so a
//! run can be repeated. Whoever drives a world lets calls [arrive](World::arrive), moves time
//! [forward](World::run_until) and collects what was [decided](World::decided).

mod event;
mod network;
mod agents;
mod bus;
mod planted;
mod call;
mod batch;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use tollgate::store::{MemoryStore, StoreError};
use tollgate::{Call, Decision, RuleSet};
use tollgate_aggregator_engine::counting::{Counting, CountingSettings};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Charge;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_engine::StoreRequest;
use tollgate_wire::Record;

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
    unread: Vec<(Ticket, Vec<Charge>)>,
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
    pending: StoreRequest,
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
        self.counts.iter_mut().for_each(Counting::mark_restored);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::StoreReads { ticket, takes } => self.store_reads(ticket, takes),
            Event::StoreReplies { ticket, answer } => self.finish(ticket, answer),
            Event::Deadline { ticket } => self.finish(ticket, Err(StoreError::TimedOut)),
            Event::Wake { agent } => self.wake(agent),
            Event::Show { agent } => self.show(agent),
            Event::Probe { agent } => self.probe(agent),
            Event::Append { agent, batch } => self.append(agent, batch),
            Event::Report { agent, report, rows } => {
                self.agents[agent].engine().delivered(report.partition, report.tag, report.offset, rows);
            }
            Event::Count { partition, again } => {
                self.count(partition);
                if again {
                    self.after(TICK_MS, Event::Count { partition, again });
                }
            }
            Event::Hear { agent, appended, payload } => {
                let (engine, own_now) = self.agents[agent].at(self.now());
                if let Ok(batch) = SignalBatch::decode(&payload) {
                    engine.receive_signals(own_now, appended, &batch, &mut Vec::new());
                }
            }
            Event::Meet { agent, payload } => {
                let (engine, own_now) = self.agents[agent].at(self.now());
                if let Ok(presence) = presence::Presence::decode(&payload) {
                    engine.receive_presence(own_now, &presence);
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

fn scope(settings: &Settings, partition: Partition) -> CountingSettings {
    CountingSettings {
        aggregator: "aggregator".into(),
        partition,
        log: 1,
        threshold_permille: settings.threshold_permille,
        counters_max: settings.counters_max,
    }
}
