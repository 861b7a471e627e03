//! Records of the topic `calls`: one batch of one agent for one partition.
//!
//! A row is one charge: one call on one counter. Each call has exactly one *home row*, that of its first charge in rule
//! order; a call that no rule limits has a home row without a counter. Aggregation by descriptor reads the home rows,
//! and aggregation by counter reads all rows.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::counter::{CounterId, Partition};
use crate::decision::{Decision, LimitKind, LocalAnswer, Source};
use crate::messages::texts::Texts;
use crate::rules::Generation;
use crate::trace_context::TraceContext;
use crate::window::{SubWindow, Window};

/// Identity of a batch. Two batches with equal names are the same batch, delivered twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchName {
    /// Name of the writing agent.
    pub agent: Arc<str>,
    /// Start of the writer's process, in ms since the Unix epoch.
    pub epoch: u64,
    /// Partition that the batch is for.
    pub partition: Partition,
    /// Sequence number among the batches of this process for this partition, from 1.
    pub sequence: u64,
}

/// One record of the topic `calls`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Identity of the batch.
    pub name: BatchName,
    /// Region of the writer.
    pub region: Arc<str>,
    /// Lower bound of later rows: no later batch of this writer for this partition has a row before this time.
    pub complete_through: Timestamp,
    /// Counters that rows refer to by index.
    pub counters: Vec<CounterEntry>,
    /// Names and values of descriptors and names of deciding rules, without duplicates; secret values are truncated.
    pub texts: Texts,
    /// Descriptor sets that home rows refer to by index.
    pub descriptor_sets: Vec<DescriptorSet>,
    /// Charges.
    pub rows: Vec<Row>,
    /// Traces of sampled requests, with the indexes of their home rows, in the order of the rows.
    pub traces: Vec<(u32, TraceContext)>,
}

/// Dictionary entry of a counter: the data with which an aggregator counts it without knowing the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterEntry {
    /// Identifier of the counter.
    pub id: CounterId,
    /// Name of its rule.
    pub rule: Arc<str>,
    /// Label for display.
    pub label: Arc<str>,
    /// Generation of the rule set that charged it.
    pub generation: Generation,
    /// Quota in units.
    pub quota: u64,
    /// Window of the quota, with its sub-windows.
    pub window: Window,
}

/// Indexes of names and values in the batch's texts, in the order of the call's descriptors.
pub type DescriptorSet = SmallVec<[(u32, u32); 6]>;

/// One charge of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of the call, unique since the agent's start.
    pub call: u64,
    /// Index of the counter in the batch; `None` if no rule limits the call.
    pub counter: Option<u32>,
    /// Time of the decision, in store time.
    pub at: Timestamp,
    /// Sub-window in which the store charged the call.
    pub sub_window: SubWindow,
    /// Cost in units; negative for a refund.
    pub cost: i64,
    /// Result of the charge.
    pub outcome: Outcome,
    /// True if the rule is in shadow and would have denied the call.
    pub shadow_denied: bool,
    /// Authority of the rule's verdict; on the home row, that of the decision.
    pub source: Source,
    /// Data of the whole call, on its home row only.
    pub home: Option<Home>,
}

/// Data of the whole call, stored on its home row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Index of the call's descriptor set in the batch.
    pub descriptors: u32,
    /// Index of the deciding rule's name in the batch's texts; `None` if no rule limits the call.
    pub decider: Option<u32>,
    /// True if a rule in shadow would have denied the call.
    pub shadow_denied: bool,
    /// Reason for which the call was denied; `None` if it was admitted.
    pub denied: Option<DenialCause>,
    /// Units that the deciding rule could have admitted after the decision, if the agent knew them: without rules, or when it
    /// repeats an answer of the store, it does not.
    pub remaining: Option<u64>,
}

/// Result of a charge as the log records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The call was admitted, or a correction of it counts; the store has not acknowledged a charge, or there is none.
    Admitted,
    /// The call was admitted or is counted in any case, and the store has acknowledged the charge at the time of the row.
    Charged,
    /// This counter denied the call, or the call itself was denied if the row has no counter.
    Denied(DenialCause),
    /// Another counter denied the call, so this one was not charged.
    Spared,
    /// An operator has emptied the counter; the row stands for no call.
    Reset,
    /// The units correct an earlier call, by a settlement, a release or a late answer; the row stands for no call.
    Corrected,
}

/// Reason for which a call was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DenialCause {
    /// Count of the store, of the agent's own table, or of a signal.
    Count,
    /// Deny list, or rule that denies every call.
    List,
    /// Answer of the store that came after the deadline.
    Late,
    /// `on_failure` of the rule, without store and signals.
    Fallback,
    /// Emergency switch.
    Emergency,
}

impl DenialCause {
    /// All causes, in their order.
    pub const ALL: [Self; 5] = [Self::Count, Self::List, Self::Late, Self::Fallback, Self::Emergency];

    /// Returns the reason of a decision; none if the call was admitted.
    #[must_use]
    pub fn of(decision: &Decision) -> Option<Self> {
        let is_listed = decision.status.as_ref().is_some_and(|status| matches!(status.kind, LimitKind::Denial(_)));
        let cause = if decision.is_uncounted && !is_listed {
            Self::Emergency
        } else {
            Self::by_rules(is_listed, decision.source, decision.by)
        };
        (!decision.allowed).then_some(cause)
    }

    /// Returns the reason of a denial by the rules: a list or a rule that denies every call, or else the authority that decided.
    #[must_use]
    pub const fn by_rules(is_listed: bool, source: Source, by: Option<LocalAnswer>) -> Self {
        match (source, by) {
            _ if is_listed => Self::List,
            (_, Some(LocalAnswer::Late)) => Self::Late,
            (Source::Fallback, _) => Self::Fallback,
            _ => Self::Count,
        }
    }

    /// Returns the name used in answers and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::List => "list",
            Self::Late => "late",
            Self::Fallback => "fallback",
            Self::Emergency => "emergency",
        }
    }
}

impl Outcome {
    /// Returns true if the units count.
    #[must_use]
    pub const fn is_admitted(self) -> bool {
        matches!(self, Self::Admitted | Self::Charged | Self::Corrected)
    }
}
