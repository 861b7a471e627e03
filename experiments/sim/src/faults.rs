//! The faults of a simulation: rates of faults that strike at random, and the states of the store.
//!
//! [`super::environment`] applies both; a test changes the states through [`super::Simulation`].

use tollgate_core::counter::CounterId;

/// Delays and rates of random faults, by default none. A percentage applies to each message on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Maximum delay between an agent and the store, one way, in ms.
    pub store_ms_max: u64,
    /// Requests that the store refuses.
    pub store_refused_percent: u8,
    /// Answers of the store that take [`LATE_MS`](Self::LATE_MS) longer.
    pub store_late_percent: u8,
    /// Connections that break after the store executed a request and before its answer arrived.
    pub store_answer_lost_percent: u8,
    /// Maximum delay of a record on its way to the bus, and of each reader behind the end of a log, in ms.
    pub bus_ms_max: u64,
    /// Additional delay of each record on its way to the bus, in ms.
    pub bus_late_ms: u64,
    /// Records that never reach the log; their writer is told.
    pub record_lost_percent: u8,
    /// Records that are appended twice.
    pub record_duplicated_percent: u8,
    /// Records before which another writer appends an undecodable one, or forged ones.
    pub garbage_percent: u8,
    /// Maximum delay of an acknowledgement, in ms.
    pub ack_ms_max: u64,
    /// Appended records that are reported as lost.
    pub ack_negated_percent: u8,
    /// Appended records of which their writer never gets a report.
    pub ack_lost_percent: u8,
    /// Maximum number of records in the queue of a writer, if it is limited.
    pub queue_len_max: Option<usize>,
}

impl Faults {
    /// Time by which a late answer of the store is late, in ms: longer than the default deadline.
    pub const LATE_MS: u64 = 40;
}

/// Ways that are cut or slow between one agent and the servers, while other agents use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The agent reaches the store not at all.
    pub store: bool,
    /// Each answer of the store to the agent takes so much longer, in ms.
    pub store_late_ms: u64,
    /// The agent's records do not reach the bus.
    pub bus_writes: bool,
    /// The agent gets no records of the bus. It reads them later.
    pub bus_reads: bool,
}

/// Faults of the aggregators of a region as members of the ledger: suspensions between a decision and its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFaults {
    /// Other effects of a region's budgets before which the aggregator is suspended, in thousandths.
    pub suspended_permille: u64,
    /// Give-backs before which the aggregator is suspended, in thousandths.
    pub give_back_permille: u64,
    /// Expiries before which the aggregator is suspended, in thousandths.
    pub expiry_permille: u64,
    /// Other entries of a coordinator before which the aggregator is suspended, in thousandths.
    pub coordinator_permille: u64,
    /// Maximum suspension, in ms.
    pub suspended_ms_max: u64,
}

/// Delays and faults of the link between a region and the home cluster of the ledger, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorFaults {
    /// Delay, in ms.
    pub delay_ms: u64,
    /// Maximum time that is added to the delay, in ms.
    pub jitter_ms: u64,
    /// Entries that are lost on their way to the ledger, in thousandths.
    pub lost_permille: u64,
    /// Entries that are appended twice, in thousandths.
    pub doubled_permille: u64,
    /// Records after which the mirror begins again at an earlier one, in thousandths.
    pub repeated_permille: u64,
}

/// Data that the store loses at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLoss {
    /// All data: a flush, or a restart without data.
    All,
    /// One counter: it is deleted or evicted.
    Counter(CounterId),
    /// Everything since [`Simulation::replicate`](super::Simulation::replicate): a failover.
    SinceReplicated,
}

/// The way in which the store behaves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It answers.
    Up,
    /// It answers each request this much later, in ms.
    Slow(u64),
    /// It reads nothing; requests wait until it is up again.
    Silent,
    /// It refuses every request.
    Refusing,
    /// It cannot be reached; requests that are on their way are lost with their connections.
    Unreachable,
}
