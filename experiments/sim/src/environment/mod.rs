//! Everything around the nodes: time, the bus, the store, delays and faults of messages, and the list of observations.
//!
//! The shells of agents and aggregators execute their effects here. A record that a shell produces lies in the queue of its
//! writer until the bus reports on it; a request to the store has a ticket, under which its answer comes back.

mod limit_requests;
mod store_requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::PrimaryIndex;
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::ledger::{LedgerRecord, Terms};
use tollgate_core::messages::signals::Offset;
use tollgate_engine::{AgentIds, STRIPES};

use super::bus::{DecodedRecord, SimBus, SimReader};
use super::event::{AgentEvent, AggregatorEvent, Life, ProducedRecord, SimEvent, Writer};
use super::faults::{Cut, Faults, MemberFaults};
use super::forger::forge;
use super::observation::{Observation, RecordName, SimNode, Ticket};
use super::planted_bugs::PlantedBug;
use super::primaries::SimPrimaries;
use super::random_stream::random_stream;
use super::region_mistake::RegionMistake;
use super::scheduler::Scheduler;
use super::settings::SimSettings;
use super::store::SimStore;

/// Time after which a record that waits for an unavailable bus is lost, in ms.
const RECORD_TIMEOUT_MS: u64 = 400;
/// Interval at which a waiting record tries again, in ms.
const RECORD_RETRY_MS: u64 = 20;

pub(super) struct Environment<'c> {
    pub(super) scheduler: Scheduler,
    pub(super) faults: Faults,
    pub(super) bus_is_up: bool,
    pub(super) bus: SimBus,
    pub(super) primaries: SimPrimaries,
    pub(super) bug: Option<PlantedBug>,
    /// Interval at which the agents' readers poll the bus, in ms.
    pub(super) read_ms: u64,
    pub(super) observations: Vec<Observation<'c>>,
    /// Agents that are cut from servers.
    pub(super) cuts: BTreeMap<usize, Cut>,
    /// Aggregators that are cut from `presence`.
    pub(super) unheard: BTreeSet<usize>,
    /// The agents that each agent with a state directory saved last.
    pub(super) saved_agents: BTreeMap<usize, AgentIds>,
    /// The change of the emergency switch that each of them saved last.
    pub(super) saved_emergencies: BTreeMap<usize, EmergencySwitch>,
    pub(super) mistake: Option<RegionMistake>,
    pub(super) member_faults: MemberFaults,
    /// Terms that a coordinator proposes.
    pub(super) terms: Vec<Terms>,
    /// Records of the ledger that have reached the mirror of this region.
    pub(super) mirror: Vec<LedgerRecord>,
    /// Entries on their way out of the region.
    pub(super) dispatches: Vec<LedgerDispatch>,
    /// Aggregators that ask for no units any more because a request of theirs was lost, by mistake.
    pub(super) requests_lost: BTreeSet<usize>,
    /// The source of all delays and random faults.
    rng: Rng,
    /// The source of the delays of requests about limits.
    limits_rng: Rng,
    /// Number of records in the queue of each writer.
    queued: BTreeMap<SimNode, usize>,
    tickets: Ticket,
}

/// An entry of an aggregator for the ledger, and the instant at which the aggregator sends it.
#[derive(Debug)]
pub(super) struct LedgerDispatch {
    pub(super) aggregator: usize,
    pub(super) life: Life,
    pub(super) sent: Timestamp,
    pub(super) record: LedgerRecord,
}

impl<'c> Environment<'c> {
    pub(super) fn new(settings: &SimSettings, scheduler: Scheduler) -> Self {
        Self {
            scheduler,
            faults: settings.faults,
            bus_is_up: true,
            bus: SimBus::new(settings.partitions),
            primaries: SimPrimaries::new(settings),
            bug: None,
            read_ms: settings.read_ms,
            observations: Vec::new(),
            cuts: BTreeMap::new(),
            unheard: BTreeSet::new(),
            saved_agents: BTreeMap::new(),
            saved_emergencies: BTreeMap::new(),
            mistake: None,
            member_faults: MemberFaults::default(),
            terms: Vec::new(),
            mirror: Vec::new(),
            dispatches: Vec::new(),
            requests_lost: BTreeSet::new(),
            rng: Rng::with_seed(settings.seed),
            limits_rng: random_stream(settings.seed, "limits", 0),
            queued: BTreeMap::new(),
            tickets: 0,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.scheduler.now()
    }

    /// Returns the number of primaries beside the first.
    pub(super) fn further(&self) -> usize {
        self.primaries.len() - 1
    }

    /// Returns the first primary, which has what a store keeps beside the counters.
    pub(super) fn store(&mut self) -> &mut SimStore {
        self.primaries.store_mut(PrimaryIndex::ONLY)
    }

    pub(super) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn observe(&mut self, observation: Observation<'c>) {
        self.observations.push(observation);
    }

    /// Every second agent has a state directory.
    pub(super) fn save_agents(&mut self, agent: usize, agents: AgentIds) {
        if agent.is_multiple_of(2) {
            self.saved_agents.insert(agent, agents.clone());
        }
        self.observe(Observation::AgentsSaved(agent, agents));
    }

    /// Saves the latest change of the emergency switch, at an agent with a state directory.
    pub(super) fn save_emergency(&mut self, agent: usize, switch: EmergencySwitch) {
        if agent.is_multiple_of(2) {
            self.saved_emergencies.insert(agent, switch);
        }
    }

    /// Returns the ways that are cut between an agent and the servers.
    pub(super) fn cut(&self, agent: usize) -> Cut {
        self.cuts.get(&agent).copied().unwrap_or_default()
    }

    /// Draws the delay of a message.
    pub(super) fn delay_ms(&mut self, ms_max: u64) -> u64 {
        self.rng.u64(0..=ms_max)
    }

    /// Draws a stripe of an agent: its calls run on many threads.
    pub(super) fn stripe(&mut self) -> usize {
        self.rng.usize(0..STRIPES)
    }

    /// Returns true if a fault of this rate strikes a message.
    fn strikes(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }

    /// Returns the next records that a reader gets now.
    pub(super) fn poll(&mut self, reader: &mut SimReader, records_max: usize) -> Vec<BusRecord> {
        let until = self.now().minus_ms(self.delay_ms(self.faults.bus_ms_max));
        reader.poll(&self.bus, until, records_max)
    }

    /// Returns the next records that an agent's reader gets now.
    pub(super) fn poll_decoded(&mut self, reader: &mut SimReader, records_max: usize) -> Vec<Arc<DecodedRecord>> {
        let until = self.now().minus_ms(self.delay_ms(self.faults.bus_ms_max));
        reader.poll_decoded(&self.bus, until, records_max)
    }

    /// Puts a record into its writer's queue; returns false if the queue is full.
    pub(super) fn produce(&mut self, writer: Writer, name: RecordName, payload: Vec<u8>) -> bool {
        let queued = self.queued.entry(writer.node).or_default();
        let has_room = self.faults.queue_len_max.is_none_or(|len_max| *queued < len_max);
        *queued += usize::from(has_room);
        if name.topic != Topic::Presence {
            let observed = if has_room { Observation::Sent } else { Observation::NoRoom };
            self.observe(observed(writer.node, name));
        }
        if has_room {
            let delay_ms = self.faults.bus_late_ms + self.delay_ms(self.faults.bus_ms_max);
            let record = ProducedRecord { writer, name, payload, produced: self.now() };
            self.scheduler.after(delay_ms, SimEvent::Append(record));
        }
        has_room
    }

    /// A record reaches the bus.
    pub(super) fn append(&mut self, record: ProducedRecord) {
        let is_cut = match record.writer.node {
            SimNode::Agent(agent) => self.cut(agent).bus_writes,
            SimNode::Aggregator(one) => record.name.topic == Topic::Presence && self.unheard.contains(&one),
        };
        let (is_up, faults) = (self.bus_is_up && !is_cut, self.faults);
        if !is_up && self.now().ms_since(record.produced) < RECORD_TIMEOUT_MS {
            return self.scheduler.after(RECORD_RETRY_MS, SimEvent::Append(record));
        }
        let mut offset = None;
        if is_up && !self.strikes(faults.record_lost_percent) {
            if self.strikes(faults.garbage_percent) {
                for forged in forge(&mut self.rng, record.name.topic, self.bus.partitions, &record.payload) {
                    let offset = self.append_payload(record.name, &forged);
                    self.bus.mark_forged(record.name.topic, record.name.partition, offset);
                }
            }
            offset = Some(self.append_payload(record.name, &record.payload));
            if self.strikes(faults.record_duplicated_percent) {
                let delay_ms = self.delay_ms(3 * faults.bus_ms_max);
                self.scheduler.after(delay_ms, SimEvent::AppendCopy(record.name, record.payload));
            }
            if self.strikes(faults.ack_lost_percent) {
                return self.dequeue(record.writer.node);
            }
            offset = offset.filter(|_| !self.strikes(faults.ack_negated_percent));
        }
        let delay_ms = self.delay_ms(faults.ack_ms_max);
        let Writer { node, life } = record.writer;
        let report = match node {
            SimNode::Agent(agent) => SimEvent::Agent(agent, life, AgentEvent::Reported(record.name, offset)),
            SimNode::Aggregator(one) => SimEvent::Aggregator(one, life, AggregatorEvent::Reported(record.name, offset)),
        };
        self.scheduler.after(delay_ms, report);
    }

    /// The second copy of a record reaches the bus.
    pub(super) fn append_copy(&mut self, name: RecordName, payload: &[u8]) {
        if self.bus_is_up {
            self.append_payload(name, payload);
        }
    }

    fn append_payload(&mut self, name: RecordName, payload: &[u8]) -> Offset {
        self.bus.append(name.topic, name.partition, self.now(), payload)
    }

    /// The report on a record reaches its writer, and the record leaves the writer's queue.
    pub(super) fn report(&mut self, node: SimNode, name: RecordName, offset: Option<Offset>) {
        self.dequeue(node);
        if name.topic != Topic::Presence {
            self.observe(Observation::Reported(node, name, offset));
        }
    }

    fn dequeue(&mut self, node: SimNode) {
        if let Some(queued) = self.queued.get_mut(&node) {
            *queued = queued.saturating_sub(1);
        }
    }

    /// A node ends; the records of its queue may still reach the bus.
    pub(super) fn end(&mut self, node: SimNode) {
        self.queued.remove(&node);
        self.observe(Observation::Ended(node));
    }
}
