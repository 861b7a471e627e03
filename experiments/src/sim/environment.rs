//! Everything around the nodes: time, the network, the bus, the store, and the list of observations.
//!
//! The shells of agents and aggregators execute their effects here. A record that a shell produces lies in the queue of its
//! writer until the bus reports on it; a request to the store has a ticket, under which its answer comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate::store::StoreError;
use tollgate_bus::{BusRecord, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

use super::bus::{LogRecord, SimBus, SimReader};
use super::event::{Life, ProducedRecord, SimEvent, StoreAnswer, StoreCommand, StoreMessage, Writer};
use super::faults::StoreState;
use super::network::{AckFate, Network, RecordFate, RequestFate};
use super::observation::{Observation, SimNode, Ticket};
use super::planted_bugs::PlantedBug;
use super::scheduler::Scheduler;
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
    pub(super) fn new(scheduler: Scheduler, network: Network, bus: SimBus, store: SimStore) -> Self {
        let (bug, observations, queued, tickets) = (None, Vec::new(), BTreeMap::new(), 0);
        Self { scheduler, network, bus, store, bug, observations, queued, tickets }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.scheduler.now()
    }

    pub(super) fn observe(&mut self, observation: Observation<'c>) {
        self.observations.push(observation);
    }

    /// Returns the number of records in the queue of a node.
    pub(super) fn queued(&self, node: SimNode) -> usize {
        self.queued.get(&node).copied().unwrap_or_default()
    }

    /// Returns the next records that a reader gets now.
    pub(super) fn poll(&mut self, reader: &mut SimReader, records_max: usize) -> Vec<BusRecord> {
        let until = self.now().minus_ms(self.network.read_delay_ms());
        reader.poll(&self.bus, until, records_max)
    }

    /// Puts a record into its writer's queue; returns false if the queue is full.
    pub(super) fn produce(
        &mut self,
        writer: Writer,
        (topic, partition, tag): (Topic, Partition, u64),
        payload: Vec<u8>,
    ) -> bool {
        if self.queued(writer.node) >= self.network.faults.queue_len_max {
            if topic != Topic::Presence {
                self.observe(Observation::NoRoom { node: writer.node, partition });
            }
            return false;
        }
        *self.queued.entry(writer.node).or_default() += 1;
        if topic != Topic::Presence {
            self.observe(Observation::Sent { node: writer.node, topic, partition, tag });
        }
        let delay_ms = self.network.append_delay_ms();
        let produced = self.now();
        let record = ProducedRecord { writer, topic, partition, tag, payload, produced, is_copy: false };
        self.scheduler.after(delay_ms, SimEvent::Append(record));
        true
    }

    /// A record reaches the bus.
    pub(super) fn append(&mut self, record: ProducedRecord) {
        let now = self.now();
        if !self.network.bus_is_up && !record.is_copy && now.ms_since(record.produced) < RECORD_TIMEOUT_MS {
            return self.scheduler.after(RECORD_RETRY_MS, SimEvent::Append(record));
        }
        let fate = match () {
            () if !self.network.bus_is_up => RecordFate::Lost,
            () if record.is_copy => RecordFate::Appended,
            () => self.network.record_fate(),
        };
        let offset = match fate {
            RecordFate::Lost => None,
            RecordFate::Appended => Some(self.append_payload(&record, &record.payload)),
            RecordFate::AppendedAfterGarbage => {
                self.append_payload(&record, &GARBAGE);
                Some(self.append_payload(&record, &record.payload))
            }
            RecordFate::AppendedTwice(later_ms) => {
                self.scheduler.after(later_ms, SimEvent::Append(ProducedRecord { is_copy: true, ..record.clone() }));
                Some(self.append_payload(&record, &record.payload))
            }
        };
        if record.is_copy {
            return;
        }
        let offset = match (offset, self.network.ack_fate()) {
            (Some(_), AckFate::Negated) | (None, _) => None,
            (Some(_), AckFate::Lost) => return self.dequeue(record.writer.node),
            (offset, AckFate::Delivered) => offset,
        };
        let delay_ms = self.network.ack_delay_ms();
        let ProducedRecord { writer, topic, partition, tag, .. } = record;
        self.scheduler.after(delay_ms, SimEvent::Acknowledge { writer, topic, partition, tag, offset });
    }

    fn append_payload(&mut self, record: &ProducedRecord, payload: &[u8]) -> Offset {
        let record_in_log = LogRecord { appended: self.now(), payload: Arc::from(payload) };
        self.bus.append(record.topic, record.partition, record_in_log)
    }

    /// A record leaves the queue of its writer.
    pub(super) fn dequeue(&mut self, node: SimNode) {
        if let Some(queued) = self.queued.get_mut(&node) {
            *queued = queued.saturating_sub(1);
        }
    }

    /// Forgets the queue of a node that ended; its records may still reach the bus.
    pub(super) fn forget_queue(&mut self, node: SimNode) {
        self.queued.remove(&node);
    }

    /// Sends a request to the store; its answer comes back under the returned ticket.
    pub(super) fn request(&mut self, agent: usize, life: Life, command: StoreCommand) -> Ticket {
        self.tickets += 1;
        let ticket = self.tickets;
        if self.store.state == StoreState::Unreachable {
            let answer = command.failed(StoreError::Unreachable);
            self.scheduler.after(UNREACHABLE_MS, SimEvent::StoreReplies { agent, life, ticket, answer });
        } else {
            let delay_ms = self.network.store_delay_ms();
            self.scheduler.after(delay_ms, SimEvent::StoreReads(StoreMessage { agent, life, ticket, command }));
        }
        ticket
    }

    /// A request reaches the store.
    pub(super) fn store_reads(&mut self, message: StoreMessage) {
        let mut delay_ms = self.network.store_delay_ms();
        let fate = match self.store.state {
            StoreState::Silent => return self.store.waiting.push(message),
            StoreState::Unreachable => {
                let answer = message.command.failed(StoreError::TimedOut);
                return self.reply(&message, delay_ms, answer);
            }
            StoreState::Refusing => RequestFate::Refused,
            StoreState::Slow(ms) => {
                delay_ms += ms;
                self.network.request_fate()
            }
            StoreState::Up => self.network.request_fate(),
        };
        let answer = match fate {
            RequestFate::Refused => message.command.failed(StoreError::Refused),
            RequestFate::Answered => self.execute(&message),
            RequestFate::AnswerLost => {
                self.execute(&message);
                message.command.failed(StoreError::TimedOut)
            }
        };
        self.reply(&message, delay_ms, answer);
    }

    fn reply(&mut self, message: &StoreMessage, delay_ms: u64, answer: StoreAnswer) {
        let StoreMessage { agent, life, ticket, .. } = *message;
        self.scheduler.after(delay_ms, SimEvent::StoreReplies { agent, life, ticket, answer });
    }

    fn execute(&mut self, message: &StoreMessage) -> StoreAnswer {
        let now = self.now();
        let (agent, ticket) = (message.agent, message.ticket);
        let charges = match &message.command {
            StoreCommand::Ping => return StoreAnswer::Time(Ok(self.store.time(now))),
            StoreCommand::Announce => return StoreAnswer::Agents(Ok(self.store.announce(now, agent))),
            StoreCommand::Charge(charges) => charges,
        };
        let requests = self.bug.map_or_else(|| vec![charges.clone()], |bug| bug.executed(charges.clone()));
        let mut last = Err(StoreError::Unreachable);
        for charges in requests {
            last = self.store.charge(now, &charges);
            self.observe(Observation::Executed { agent, ticket, charges, answer: last.clone() });
        }
        if let (Some(bug), Ok(results)) = (self.bug, &mut last) {
            bug.alter_results(results);
        }
        StoreAnswer::Charged(last)
    }

    /// Moves the store to another state; a store that was silent reads the requests that wait.
    pub(super) fn set_store(&mut self, state: StoreState) {
        self.store.state = state;
        for message in std::mem::take(&mut self.store.waiting) {
            self.store_reads(message);
        }
    }
}
