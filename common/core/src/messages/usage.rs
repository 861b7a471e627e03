//! Records of the topic `usage`: the units that the callers of each region ask for and get, for a view over all regions.
//!
//! No limit depends on them. Their writers may be late, absent or doubled, so a view forgets a record soon.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::counter::{CounterId, Partition};
use crate::regions::Region;

/// Maximum number of rules of one record. Those of the least demand are left out.
pub const RULES_LEN_MAX: usize = 1_000;
/// Maximum number of counters that a record names of one rule: the largest ones by demand.
pub const LARGEST_LEN_MAX: usize = 100;

/// One record of the topic `usage`: the part of a region that one aggregator counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRecord {
    /// The region.
    pub region: Region,
    /// Life of the writer's process.
    pub writer: u64,
    /// Instant of the record by the writer's clock. It orders the records of one writer only.
    pub at: Timestamp,
    /// Partitions of `calls` that the writer counts.
    pub partitions: Vec<Partition>,
    /// Rules that callers used in the last window.
    pub rules: Vec<UsageOfRule>,
}

/// Usage of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageOfRule {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Number of counters that were used.
    pub counters: u64,
    /// Units of all counters.
    pub units: UsageUnits,
    /// Counters of the largest demand, the largest first.
    pub largest: Vec<UsageOfCounter>,
}

/// Usage of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageOfCounter {
    /// Identifier of the counter.
    pub counter: CounterId,
    /// Label for display.
    pub label: Arc<str>,
    /// Units of the counter.
    pub units: UsageUnits,
}

/// Units of the last window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageUnits {
    /// Admitted units.
    pub used: u64,
    /// Units that callers asked for, admitted or denied.
    pub demand: u64,
}

impl UsageUnits {
    /// Returns the sum with other units; it saturates.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { used: self.used.saturating_add(other.used), demand: self.demand.saturating_add(other.demand) }
    }
}
