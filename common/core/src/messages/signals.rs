//! Records of the topic `signals`: the aggregator's counts of the counters that are close to their quotas.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::counter::{CounterId, Partition};
use crate::rules::Generation;
use crate::window::{Estimate, Ring};

/// Offset of a record in one partition of a log.
pub type Offset = u64;
/// Identity of a log. A topic that was deleted and recreated is another log; its offsets are not comparable.
pub type LogId = u64;

/// Age of the newest counted record up to which signals are fresh, in ms.
pub const FRESH_MS: u64 = 3_000;
/// Maximum threshold of signals, in thousandths of a quota. Past the whole quota no units are left in any case.
pub const THRESHOLD_PERMILLE_MAX: u32 = 1_000;

/// End of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Identity of the log.
    pub log: LogId,
    /// Offset of the record that will be appended next.
    pub next: Offset,
}

/// Maximum number of agents that one signal names.
pub const AGENTS_LEN_MAX: usize = 16;

/// One record of the topic `signals`, and the heartbeat of its partition.
///
/// It guarantees that every counter of the partition that changed up to `as_of` and holds at least `threshold_permille`
/// of its quota is in this record or in an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalBatch {
    /// Name of the aggregator.
    pub aggregator: Arc<str>,
    /// Partition of `calls` that was counted.
    pub partition: Partition,
    /// Identity of the log `calls` that was counted.
    pub log: LogId,
    /// Offset of the last counted record of `calls`.
    pub as_of: Offset,
    /// Append time of the record at `as_of`.
    pub as_of_appended: Timestamp,
    /// Share of the quota, in thousandths, from which counters are signalled.
    pub threshold_permille: u32,
    /// Agents that the signals name, by index.
    pub agents: Vec<Arc<str>>,
    /// Changed counters; empty in a heartbeat.
    pub signals: Vec<Signal>,
}

/// Count of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Identifier of the counter.
    pub counter: CounterId,
    /// Name of its rule.
    pub rule: Arc<str>,
    /// Label for display.
    pub label: Arc<str>,
    /// Newest generation of the rule set that charged it.
    pub generation: Generation,
    /// Quota in units.
    pub quota: u64,
    /// Admitted units per sub-window; agents enforce limits on these.
    pub admitted: Ring,
    /// Units that single agents admitted, the greatest first, then by name; agents divide free units by their proportions.
    pub by_agent: Vec<AgentUnits>,
    /// Units that agents which are not named admitted.
    pub by_others: u64,
    /// Denied units in the window, for display only.
    pub denied: u64,
    /// Units admitted and denied per second over the window, in thousandths.
    pub rate_milli: u64,
    /// Share of a global quota that this region may spend, in units.
    pub budget: Option<u64>,
    /// Time of the newest counted charge.
    pub newest_at: Timestamp,
    /// Time of the newest charge that the store has acknowledged under the window of `admitted`; time 0 if none is known.
    pub charged_at: Timestamp,
}

/// Units that one agent admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentUnits {
    /// Index of the agent in the batch.
    pub agent: u32,
    /// Units in the window, about.
    pub units: u64,
}

impl SignalBatch {
    /// Returns true if a change of its counter caused a signal of the batch, as seen at `now`. Before a lower threshold is
    /// announced, the counters above it are signalled, too; the age of their charges is no lag.
    #[must_use]
    pub fn is_of_change(&self, signal: &Signal, now: Timestamp) -> bool {
        let used = u128::from(signal.admitted.used(now, Estimate::Conservative));
        used * 1_000 >= u128::from(self.threshold_permille) * u128::from(signal.quota)
    }
}
