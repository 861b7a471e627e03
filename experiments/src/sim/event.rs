//! The events of a simulation, and the messages that they carry.
//!
//! An event of a node names the life of the node that it is meant for: after a crash, the events of the old life are void.

use tollgate::store::StoreError;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, Partition};
use tollgate_core::messages::signals::Offset;

use super::observation::{SimNode, Ticket};

/// The number of starts of a node.
pub(super) type Life = u64;

/// A thing that happens at an instant.
#[derive(Clone, Debug)]
pub(super) enum SimEvent {
    /// An agent's readers poll.
    AgentReads { agent: usize, life: Life },
    /// The sleep of one of an agent's shells ends.
    AgentWakes { agent: usize, life: Life, shell: AgentShell },
    /// A request reaches the store.
    StoreReads(StoreMessage),
    /// An answer of the store reaches an agent.
    StoreReplies { agent: usize, life: Life, ticket: Ticket, answer: StoreAnswer },
    /// The deadline of a request is over.
    Deadline { agent: usize, life: Life, ticket: Ticket },
    /// An aggregator's round begins.
    AggregatorRound { aggregator: usize, life: Life },
    /// The bus tells an aggregator the end of a log.
    LogEnd { aggregator: usize, life: Life, partition: Partition },
    /// A record reaches the bus.
    Append(ProducedRecord),
    /// The report on a record reaches its writer.
    Acknowledge { writer: Writer, topic: Topic, partition: Partition, tag: u64, offset: Option<Offset> },
}

/// A part of an agent that sleeps until its state machine has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentShell {
    /// The thread that writes to the bus.
    Exchange,
    /// The task beside the calls.
    Maintenance,
}

/// A node in one of its lives, as a writer of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writer {
    pub(super) node: SimNode,
    pub(super) life: Life,
}

/// A record on its way to the bus.
#[derive(Clone, Debug)]
pub(super) struct ProducedRecord {
    pub(super) writer: Writer,
    pub(super) topic: Topic,
    pub(super) partition: Partition,
    pub(super) tag: u64,
    pub(super) payload: Vec<u8>,
    pub(super) produced: Timestamp,
    /// True for the second copy of a record, of which there is no report.
    pub(super) is_copy: bool,
}

/// A request on its way to the store.
#[derive(Clone, Debug)]
pub(super) struct StoreMessage {
    pub(super) agent: usize,
    pub(super) life: Life,
    pub(super) ticket: Ticket,
    pub(super) command: StoreCommand,
}

#[derive(Clone, Debug)]
pub(super) enum StoreCommand {
    Ping,
    Announce,
    Charge(Vec<Charge>),
}

#[derive(Clone, Debug)]
pub(super) enum StoreAnswer {
    Time(Result<Timestamp, StoreError>),
    Agents(Result<u32, StoreError>),
    Charged(Result<ChargeResults, StoreError>),
}

impl StoreCommand {
    /// Returns the answer that tells an error.
    pub(super) fn failed(&self, error: StoreError) -> StoreAnswer {
        match self {
            Self::Ping => StoreAnswer::Time(Err(error)),
            Self::Announce => StoreAnswer::Agents(Err(error)),
            Self::Charge(_) => StoreAnswer::Charged(Err(error)),
        }
    }
}
