//! The events of a simulation, and the messages that they carry.
//!
//! An event of a node names the life of the node that it is meant for: after a crash, the events of the old life are void.

use std::sync::Arc;

use tollgate::store::StoreError;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, Partition, PrimaryIndex};
use tollgate_core::messages::ledger::LedgerRecord;
use tollgate_core::messages::presence::PresenceSet;
use tollgate_core::messages::signals::Offset;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};
use tollgate_engine::{GatheredStep, PipelineNumber};

use super::observation::{RecordName, SimNode, Ticket};

/// The number of starts of a node.
pub(super) type Life = u64;

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most events are those of agents")]
pub(super) enum SimEvent {
    /// A request reaches the store.
    StoreReads(StoreMessage),
    /// A record reaches the bus.
    Append(ProducedRecord),
    /// The second copy of a record reaches the bus; there is no report on it.
    AppendCopy(RecordName, Vec<u8>),
    /// An event of the agent of this index, in this life.
    Agent(usize, Life, AgentEvent),
    /// An event of the aggregator of this index, in this life.
    Aggregator(usize, Life, AggregatorEvent),
    /// A request of an aggregator about the limits of its region reaches the store.
    StoreReadsLimit(LimitMessage),
    /// An entry reaches the ledger in the home cluster.
    LedgerAppend(LedgerRecord),
    /// The record at this place of the ledger reaches the mirror of the region.
    LedgerMirrored(usize),
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most events are answers of the store")]
pub(super) enum AgentEvent {
    /// Its readers poll.
    Reads,
    /// The sleep of one of its shells ends.
    Wakes(AgentShell),
    /// The answer of the store to a request arrives, or the connection is lost.
    StoreReplies(Ticket, Result<StoreAnswer, StoreError>),
    /// The answer to the step at this place of a request arrives, which goes to several primaries.
    PartReplies(Ticket, usize, Result<ChargeResults, StoreError>),
    /// The answer of the store to a step arrives, or the connection is lost.
    StepReplies(PipelineNumber, GatheredStep<Ticket>, Result<ChargeResults, StoreError>),
    /// Others have waited for the answers to the steps of this pipeline as long as they may.
    PipelineOverdue(PipelineNumber),
    /// The timer of a request fires.
    DeadlinePasses(Ticket),
    /// The agent runs again after a pause.
    Resumes,
    /// The report on a record arrives: the offset, or nothing if it is lost.
    Reported(RecordName, Option<Offset>),
}

#[derive(Clone, Debug)]
pub(super) enum AggregatorEvent {
    Round,
    Budget(LedgerMemberEvent),
    /// The bus tells the end of a log.
    LogEnd(Partition),
    /// The report on a record arrives: the offset, or nothing if it is lost.
    Reported(RecordName, Option<Offset>),
}

/// An event of an aggregator as a member of the ledger.
#[derive(Clone, Debug)]
pub(super) enum LedgerMemberEvent {
    /// It compares the budgets of its region with the demand.
    Tick,
    /// The store has not told its time for too long.
    TimeOverdue,
    /// Records have reached the mirror.
    Reads,
    /// It looks at the requests, if it coordinates.
    Coordinates,
    /// The store has answered at this instant, at which its clock showed this time.
    Answered(Timestamp, Timestamp, LimitReply),
}

/// A request about the limits of a region, on its way to the store.
#[derive(Clone, Debug)]
pub(super) struct LimitMessage {
    pub(super) aggregator: usize,
    pub(super) life: Life,
    pub(super) command: LimitCommand,
}

#[derive(Clone, Debug)]
pub(super) enum LimitCommand {
    Time,
    Write { rule: Arc<str>, counter: CounterId, write: LimitWrite },
    WriteFloor { rule: Arc<str>, write: LimitWrite },
}

#[derive(Clone, Debug)]
pub(super) enum LimitReply {
    Time,
    Written(CounterId, LimitAnswer),
    FloorWritten(Arc<str>, StoredLimit),
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
    pub(super) name: RecordName,
    pub(super) payload: Vec<u8>,
    pub(super) produced: Timestamp,
}

/// A request on its way to the store.
#[derive(Clone, Debug)]
pub(super) struct StoreMessage {
    pub(super) agent: usize,
    pub(super) life: Life,
    pub(super) ticket: Ticket,
    /// Primary to which it is sent.
    pub(super) primary: PrimaryIndex,
    pub(super) command: StoreCommand,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most requests are steps of calls")]
pub(super) enum StoreCommand {
    Ping,
    Announce,
    Witness(u64),
    /// Charges, by step.
    Charge(Vec<Vec<Charge>>),
    /// Step at this place of a request that goes to several primaries.
    Part(usize, Vec<Charge>),
    /// A step of calls, which name their requests, and its pipeline.
    Step(PipelineNumber, GatheredStep<Ticket>),
}

/// An answer of the store: its time after a ping, the live agents after an announcement, the number before and the run
/// after a witness, or the results of charges.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreAnswer {
    pub(super) time: Timestamp,
    pub(super) presence: PresenceSet,
    pub(super) witness: Option<u64>,
    pub(super) run: u64,
    pub(super) results: ChargeResults,
}
