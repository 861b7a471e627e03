//! Everything around the nodes: time, the network, the bus, the store, and the list of observations.
//!
//! The shells of agents and aggregators execute their effects here. A record that a shell produces lies in the queue of its
//! writer until the bus reports on it; a request to the store has a ticket, under which its answer comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate::store::StoreError;
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::Offset;

use super::bus::{LogRecord, SimBus, SimReader};
use super::event::{AgentEvent, Life, ProducedRecord, SimEvent, StoreAnswer, StoreCommand, StoreMessage, Writer};
use super::faults::StoreState;
use super::network::{AckFault, Network, RecordFault, RequestFault};
use super::observation::{Observation, RecordName, SimNode, Ticket};
use super::planted_bugs::PlantedBug;
use super::scheduler::Scheduler;
use super::settings::SimSettings;
use super::store::SimStore;

/// Time after which a record that waits for an unavailable bus is lost, in ms.
const RECORD_TIMEOUT_MS: u64 = 400;
/// Interval at which a waiting record tries again, in ms.
const RECORD_RETRY_MS: u64 = 20;
/// Delay after which an agent knows that the store cannot be reached, in ms.
const UNREACHABLE_MS: u64 = 1;
/// Bytes that no reader decodes.
const GARBAGE: [u8; 16] = [0xff; 16];

pub(super) struct Environment<'c> {
    pub(super) scheduler: Scheduler,
    pub(super) network: Network,
    pub(super) bus: SimBus,
    pub(super) store: SimStore,
    pub(super) bug: Option<PlantedBug>,
    pub(super) observations: Vec<Observation<'c>>,
    /// Number of records in the queue of each writer.
    queued: BTreeMap<SimNode, usize>,
    tickets: Ticket,
}

impl<'c> Environment<'c> {
    pub(super) fn new(settings: &SimSettings) -> Self {
        Self {
            scheduler: Scheduler::new(settings.start),
            network: Network::new(settings.seed, settings.faults),
            bus: SimBus::new(settings.partitions),
            store: SimStore::new(settings.counters_max),
            bug: None,
            observations: Vec::new(),
            queued: BTreeMap::new(),
            tickets: 0,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.scheduler.now()
    }

    /// Returns true if a bug is planted.
    pub(super) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn observe(&mut self, observation: Observation<'c>) {
        self.observations.push(observation);
    }

    /// Returns the next records that a reader gets now.
    pub(super) fn poll(&mut self, reader: &mut SimReader, records_max: usize) -> Vec<BusRecord> {
        let until = self.now().minus_ms(self.network.read_delay_ms());
        reader.poll(&self.bus, until, records_max)
    }

    /// Puts a record into its writer's queue; returns false if the queue is full.
    pub(super) fn produce(&mut self, writer: Writer, name: RecordName, payload: Vec<u8>) -> bool {
        let queued = self.queued.entry(writer.node).or_default();
        let has_room = self.network.faults.queue_len_max.is_none_or(|len_max| *queued < len_max);
        *queued += usize::from(has_room);
        if name.topic != Topic::Presence {
            let observed = if has_room { Observation::Sent } else { Observation::NoRoom };
            self.observe(observed(writer.node, name));
        }
        if has_room {
            let delay_ms = self.network.append_delay_ms();
            let record = ProducedRecord { writer, name, payload, produced: self.now(), is_copy: false };
            self.scheduler.after(delay_ms, SimEvent::Append(record));
        }
        has_room
    }

    /// A record reaches the bus.
    pub(super) fn append(&mut self, record: ProducedRecord) {
        let is_up = self.network.bus_is_up;
        if !is_up && !record.is_copy && self.now().ms_since(record.produced) < RECORD_TIMEOUT_MS {
            return self.scheduler.after(RECORD_RETRY_MS, SimEvent::Append(record));
        }
        let fault = match () {
            () if !is_up => Some(RecordFault::Lost),
            () if record.is_copy => None,
            () => self.network.record_fault(),
        };
        if fault == Some(RecordFault::BehindGarbage) {
            self.append_payload(record.name, &GARBAGE);
        }
        let offset = (fault != Some(RecordFault::Lost)).then(|| self.append_payload(record.name, &record.payload));
        if fault == Some(RecordFault::Duplicated) {
            let delay_ms = self.network.copy_delay_ms();
            self.scheduler.after(delay_ms, SimEvent::Append(ProducedRecord { is_copy: true, ..record.clone() }));
        }
        if record.is_copy {
            return;
        }
        let offset = match self.network.ack_fault().filter(|_| offset.is_some()) {
            Some(AckFault::Lost) => return self.dequeue(record.writer.node),
            Some(AckFault::Negated) => None,
            None => offset,
        };
        let delay_ms = self.network.ack_delay_ms();
        self.scheduler.after(delay_ms, SimEvent::Report(record.writer, record.name, offset));
    }

    fn append_payload(&mut self, name: RecordName, payload: &[u8]) -> Offset {
        let record = LogRecord { appended: self.now(), payload: Arc::from(payload) };
        self.bus.append(name.topic, name.partition, record)
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

    /// Sends a request to the store; its answer comes back under the returned ticket.
    pub(super) fn request(&mut self, agent: usize, life: Life, command: StoreCommand) -> Ticket {
        self.tickets += 1;
        let message = StoreMessage { agent, life, ticket: self.tickets, command };
        if self.store.state == StoreState::Unreachable {
            self.reply(&message, UNREACHABLE_MS, Err(StoreError::Unreachable));
        } else {
            let delay_ms = self.network.store_delay_ms();
            self.scheduler.after(delay_ms, SimEvent::StoreReads(message));
        }
        self.tickets
    }

    /// A request reaches the store.
    pub(super) fn store_reads(&mut self, message: StoreMessage) {
        let delay_ms = self.network.store_delay_ms();
        match self.store.state {
            StoreState::Silent => self.store.waiting.push(message),
            StoreState::Unreachable => self.reply(&message, delay_ms, Err(StoreError::TimedOut)),
            StoreState::Refusing => self.reply(&message, delay_ms, Err(StoreError::Refused)),
            StoreState::Slow(ms) => self.answer(&message, delay_ms + ms),
            StoreState::Up => self.answer(&message, delay_ms),
        }
    }

    fn answer(&mut self, message: &StoreMessage, delay_ms: u64) {
        let answer = match self.network.request_fault() {
            Some(RequestFault::Refused) => Err(StoreError::Refused),
            Some(RequestFault::AnswerLost) => {
                let _ = self.execute(message);
                Err(StoreError::TimedOut)
            }
            None => self.execute(message),
        };
        self.reply(message, delay_ms, answer);
    }

    fn reply(&mut self, message: &StoreMessage, delay_ms: u64, answer: Result<StoreAnswer, StoreError>) {
        let event = AgentEvent::StoreReplies(message.ticket, answer);
        self.scheduler.after(delay_ms, SimEvent::Agent(message.agent, message.life, event));
    }

    fn execute(&mut self, message: &StoreMessage) -> Result<StoreAnswer, StoreError> {
        let (now, mut answer) = (self.now(), StoreAnswer::default());
        match &message.command {
            StoreCommand::Ping => answer.time = self.store.time(now),
            StoreCommand::Announce => answer.agents = self.store.announce(now, message.agent),
            StoreCommand::Charge(charges) => {
                for charges in self.bug.map_or_else(|| vec![charges.clone()], |bug| bug.executed(charges)) {
                    let executed = self.store.charge(now, &charges);
                    let ticket = message.ticket;
                    self.observe(Observation::Executed { ticket, charges, answer: executed.clone() });
                    answer.results = executed?;
                }
                if self.has(PlantedBug::DenialReportedCharged) {
                    answer
                        .results
                        .iter_mut()
                        .for_each(|result| (result.charged, result.verdict.admitted) = (true, true));
                }
            }
        }
        Ok(answer)
    }

    /// Moves the store to another state; a store that was silent reads the requests that wait.
    pub(super) fn set_store(&mut self, state: StoreState) {
        self.store.state = state;
        for message in std::mem::take(&mut self.store.waiting) {
            self.store_reads(message);
        }
    }
}
