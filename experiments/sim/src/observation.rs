//! Observations: the facts that a simulation reports beside its state, for those who check it.
//!
//! They are recorded where they happen, on the far side of any planted bug.

use tollgate::store::StoreError;
use tollgate::{Call, Decision, LocalAnswer, Source};
use tollgate_bus::Topic;
use tollgate_core::algorithm::Limit;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, Partition};
use tollgate_core::messages::ledger::LedgerEntry;
use tollgate_core::messages::signals::{Offset, SignalBatch};
use tollgate_core::rules::Generation;
use tollgate_engine::{AgentIds, DecidedRule, Notice};

use super::faults::{Cut, StoreLoss};

/// The number of a request to the store.
pub type Ticket = u64;

/// An agent or an aggregator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SimNode {
    /// The agent of this index.
    Agent(usize),
    /// The aggregator of this index.
    Aggregator(usize),
}

/// A record of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordName {
    /// The topic.
    pub topic: Topic,
    /// The partition.
    pub partition: Partition,
    /// The sequence of a batch of calls, the tag of a batch of signals, or 0.
    pub tag: u64,
}

impl RecordName {
    /// Any record of `presence`.
    pub(super) const PRESENCE: Self = Self { topic: Topic::Presence, partition: 0, tag: 0 };
}

/// A fact. Agents and aggregators are given by their indices.
#[derive(Clone, Debug)]
pub enum Observation<'c> {
    /// A call was answered.
    Answered(AnsweredCall<'c>),
    /// A settlement or a release is over.
    Corrected(CorrectedCall<'c>),
    /// The store executed charges.
    Executed {
        /// The agent.
        agent: usize,
        /// The number of starts of the agent at the time of the request.
        life: u64,
        /// The request.
        ticket: Ticket,
        /// The charges.
        charges: Vec<Charge>,
        /// The time that the store's clock showed.
        store_time: Timestamp,
        /// The store's answer.
        answer: Result<ChargeResults, StoreError>,
        /// The limits that the counters of the charges follow after the step.
        limits: Vec<Option<Limit>>,
        /// True if it is a part of the charge that was observed before it.
        is_part: bool,
    },
    /// The late answer to a request of an agent arrived, or its connection was lost.
    LateAnswer {
        /// The agent.
        agent: usize,
        /// The request.
        ticket: Ticket,
        /// The error that the engine was told, if any.
        error: Option<StoreError>,
    },
    /// Ways between an agent and the servers were cut or mended.
    AgentCut(usize, Cut),
    /// An agent is not scheduled until this instant.
    AgentPaused(usize, Timestamp),
    /// An agent sends a request once more.
    Renewed(Ticket),
    /// An agent's request is over, because its answer arrived or its deadline passed.
    Finished {
        /// The agent.
        agent: usize,
        /// The request.
        ticket: Ticket,
        /// The charges as the engine asked for them.
        charges: Vec<Charge>,
        /// True if the maintenance asked.
        is_backfill: bool,
        /// The error that the engine was told, if any.
        error: Option<StoreError>,
    },
    /// An agent saved these ids of the agents of its fleet.
    AgentsSaved(usize, AgentIds),
    /// An agent wrote a notice to its log.
    Notified(usize, Notice),
    /// An agent announces itself in the store.
    Announces(usize, Timestamp),
    /// An agent sends a request of a probe to the store.
    ProbeSent {
        /// The agent.
        agent: usize,
        /// True if the probe begins with it.
        is_first: bool,
    },
    /// A ping or a backfill of an agent's maintenance is over.
    Probed {
        /// The agent.
        agent: usize,
        /// True if the store answered in time.
        is_answered: bool,
        /// True if the answer to its ping came later than calls need theirs.
        is_late: bool,
    },
    /// The store's replica was brought up to date.
    StoreReplicated,
    /// A limit was written into the store of the region.
    LimitWritten {
        /// The counter.
        counter: CounterId,
        /// The aggregator that wrote it.
        aggregator: usize,
    },
    /// An aggregator knows a time of the store's clock, which it showed at this instant.
    StoreTimeKnown(usize, Timestamp),
    /// An aggregator has compared the budgets of its region with the demand, and its writes reach the store until this instant.
    BudgetsCompared(usize, Timestamp),
    /// An aggregator is suspended before it appends this entry to the ledger.
    EntryDelayed(usize, LedgerEntry),
    /// An aggregator has read records of the ledger.
    LedgerRead(usize),
    /// The store lost data.
    StoreLost(StoreLoss),
    /// The store's clock stepped.
    StoreClockStepped {
        /// Size of the step, in ms.
        by_ms: i64,
        /// The time that it shows then.
        store_time: Timestamp,
    },
    /// The topic `calls` was deleted and created anew.
    CallsRecreated,
    /// An agent accepted newer rules.
    RulesAccepted(usize, Generation),
    /// The bus took a record of `calls` or `signals` from its writer.
    Sent(SimNode, RecordName),
    /// The bus had no room for a record of `calls` or `signals`.
    NoRoom(SimNode, RecordName),
    /// The bus reported on a record of `calls` or `signals` to its writer: the offset, or nothing if it is reported as lost.
    Reported(SimNode, RecordName, Option<Offset>),
    /// An aggregator published signals.
    Published(usize, SignalBatch),
    /// An agent read the record of `signals` of this partition and offset.
    SignalsRead(usize, Partition, Offset),
    /// A node passed over a record.
    DeadLetter {
        /// The node.
        node: SimNode,
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The offset.
        offset: Offset,
        /// The reason.
        reason: String,
    },
    /// A node started.
    Started(SimNode),
    /// A node crashed, or left and told the others; its in-flight requests have no end.
    Ended(SimNode),
}

/// A call and its answer.
#[derive(Clone, Debug)]
pub struct AnsweredCall<'c> {
    /// The agent.
    pub agent: usize,
    /// The call.
    pub call: Call<'c>,
    /// The generation of the rules by which it was decided.
    pub generation: Generation,
    /// True time of its arrival.
    pub arrived: Timestamp,
    /// True time of its answer.
    pub answered: Timestamp,
    /// The request to the store, if there was one.
    pub ticket: Option<Ticket>,
    /// The error of that request, if it failed.
    pub error: Option<StoreError>,
    /// True if other calls were asked in the same request, all or none of which are charged.
    pub is_joint: bool,
    /// True if the call and all others of its request were allowed.
    pub is_admitted: bool,
    /// The answer.
    pub decision: Decision,
    /// Decision of each rule; empty if the store was not asked for the call.
    pub rules: Vec<DecidedRule>,
}

impl AnsweredCall<'_> {
    /// Returns how the rule of a counter was decided: the source, and the reason of a local answer. If the store was not asked, the
    /// answer tells it.
    #[must_use]
    pub fn decided_by(&self, counter: CounterId) -> (Source, Option<LocalAnswer>) {
        let rule = self.rules.iter().find(|rule| rule.counter == counter);
        let decided = rule.and_then(|rule| Some((rule.source?, rule.by)));
        decided.unwrap_or((self.decision.source, self.decision.by))
    }

    /// Returns true if the charge on a counter follows the decision.
    #[must_use]
    pub fn follows(&self, counter: CounterId) -> bool {
        self.rules.iter().any(|rule| rule.counter == counter && rule.follows)
    }

    /// Returns the units of this cost for which the store is asked.
    #[must_use]
    pub fn asked(&self, counter: CounterId, cost: u64) -> u64 {
        self.rules.iter().find(|rule| rule.counter == counter).map_or(cost, |rule| rule.asked)
    }
}

/// A settlement or a release.
#[derive(Clone, Debug)]
pub struct CorrectedCall<'c> {
    /// The agent.
    pub agent: usize,
    /// The call.
    pub call: Call<'c>,
    /// The generation of the rules by which it was corrected.
    pub generation: Generation,
    /// The units of a settlement; nothing for a release.
    pub units: Option<i64>,
    /// The instant of the decision, if it was told.
    pub decided: Option<Timestamp>,
    /// The charges that the store was asked for; a counter that is missing was settled at the agent alone.
    pub charges: Vec<Charge>,
    /// The error of that request, if it failed.
    pub error: Option<StoreError>,
}
