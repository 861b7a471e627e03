//! Charges as they are published: one batch of one agent for one partition.
//!
//! A charge is one call on one counter. Each call has exactly one *home row*, that of its first charge in rule order; a
//! call that no rule limits has a home row without counter. What needs descriptors is counted from home rows, what needs
//! counters from all rows.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::counter::{CounterId, Partition};
use crate::decision::Source;
use crate::rules::Generation;
use crate::window::{SubWindow, Window};

/// The name of a batch: the same name is the same batch, however often it arrives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchName {
    /// Who wrote it.
    pub agent: Arc<str>,
    /// Which life of the writer, in ms since the epoch of its start.
    pub epoch: u64,
    /// For which partition.
    pub partition: Partition,
    /// Its number among this life's batches for this partition, from 1.
    pub sequence: u64,
}

/// One record of the log `calls`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its name.
    pub name: BatchName,
    /// The writer's region.
    pub region: Arc<str>,
    /// No later batch of this writer for this partition holds a row of an earlier time.
    pub complete_through: Timestamp,
    /// The counters that rows point at.
    pub counters: Vec<CounterEntry>,
    /// Names and values of descriptors, and names of deciding rules, each once; secret values as they may be shown.
    pub texts: Vec<String>,
    /// The sets of descriptors that home rows point at.
    pub descriptor_sets: Vec<DescriptorSet>,
    /// The charges.
    pub rows: Vec<Row>,
}

/// What a batch says of a counter: enough to count it without knowing the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterEntry {
    /// Its name.
    pub id: CounterId,
    /// Its rule.
    pub rule: Arc<str>,
    /// How people see it.
    pub label: String,
    /// The generation by which it was charged.
    pub generation: Generation,
    /// Its quota, in units.
    pub quota: u64,
    /// The quota's window, and its sub-windows.
    pub window: Window,
}

/// Indexes of names and values in the batch's texts, in the order of the call.
pub type DescriptorSet = SmallVec<[(u32, u32); 6]>;

/// One charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of the call in this life of the agent.
    pub call: u64,
    /// Which counter of the batch; none when no rule limits the call.
    pub counter: Option<u32>,
    /// When it was decided, in the store's time.
    pub at: Timestamp,
    /// The sub-window in which the store charged it.
    pub sub_window: SubWindow,
    /// Units; negative when they are given back.
    pub cost: i64,
    /// What became of it.
    pub outcome: Outcome,
    /// Of the call, if this is its home row.
    pub home: Option<Home>,
}

/// What the home row says of the whole call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Which set of descriptors of the batch.
    pub descriptors: u32,
    /// The name of the deciding rule, by its index in the batch's texts; none when no rule limits the call.
    pub decider: Option<u32>,
    /// Who decided.
    pub source: Source,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The call passed and the counter was charged.
    Admitted,
    /// This counter denied the call.
    Denied,
    /// Another counter denied the call, so this one was not charged.
    Spared,
}
