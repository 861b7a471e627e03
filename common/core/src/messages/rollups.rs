//! Records of the topics `rollups` and `live`: the sums of the calls of one partition, by second and by minute.
//!
//! `rollups` has closed minutes, for readers of any kind; `live` has the newest seconds and the open minute, for the aggregators.
//! A rollup is named by (partition, log, subject, start, size). One with a later offset replaces an earlier one, so two owners of
//! a partition and a late charge write nothing twice. Readers add the partitions.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::counter::Partition;
use crate::decision::Source;
use crate::messages::calls::DenialCause;
use crate::messages::signals::{LogId, Offset};
use crate::rules::Generation;

/// Length of a second in ms: the size of the rollups that a page shows.
pub const SECOND_MS: u64 = 1_000;
/// Length of a minute in ms.
pub const MINUTE_MS: u64 = 60_000;
/// Maximum number of rollups of one record.
pub const ROLLUPS_LEN_MAX: usize = 10_000;
/// Name of the callers, endpoints and tiers past a cap, which share one rollup.
pub const OTHERS: &str = "(others)";

/// Rollups of one partition, as of an offset of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupBatch {
    /// Name of the aggregator that counted.
    pub aggregator: Arc<str>,
    /// Partition of `calls`.
    pub partition: Partition,
    /// Identity of the log `calls`.
    pub log: LogId,
    /// Offset of the last counted record.
    pub as_of: Offset,
    /// Rollups, each with all calls so far.
    pub rollups: Vec<Rollup>,
}

/// Sums of the calls of one subject in one second or minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    /// Start, in store time.
    pub start: Timestamp,
    /// Length: [`SECOND_MS`] or [`MINUTE_MS`].
    pub size_ms: u64,
    /// Calls that are summed.
    pub subject: Subject,
    /// Sums.
    pub totals: Totals,
    /// State of the limit, of rules and callers.
    pub limit: Option<LimitUse>,
}

/// Calls that a rollup sums.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// All calls, each once.
    Calls,
    /// Calls to which a rule applies; also a list or a switch that decides without a counter.
    Rule(Arc<str>),
    /// Calls of one caller to which a rule applies.
    Caller {
        /// Name of the rule.
        rule: Arc<str>,
        /// Label of the caller, without secrets.
        caller: Arc<str>,
    },
    /// Calls of one endpoint.
    Endpoint(Arc<str>),
    /// Calls of one tier.
    Tier(Arc<str>),
    /// Calls that one agent decided.
    Agent(Arc<str>),
}

/// Sums of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Admitted calls.
    pub admitted: u64,
    /// Denied calls, by cause in the order of [`DenialCause::ALL`].
    pub denied: [u64; DenialCause::ALL.len()],
    /// Calls that a rule in shadow would have denied.
    pub shadow_denied: u64,
    /// Admitted units; corrections may make them negative.
    pub units: i64,
    /// Calls by authority, in the order of [`Source::ALL`].
    pub by_source: [u64; Source::ALL.len()],
}

/// State of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitUse {
    /// Quota in units; the largest one of a rule.
    pub quota: u64,
    /// Window in ms.
    pub window_ms: u64,
    /// Units used of a caller's quota in the last window, if they are known.
    pub used: Option<u64>,
    /// Newest generation of the rules.
    pub generation: Generation,
    /// Number of callers of a rule.
    pub callers: u64,
    /// Maximum error of `callers`, at 95% if they are estimated; 0 if they are exact.
    pub callers_error: u64,
    /// Maximum number of calls of a caller that are in the sums of the others instead.
    pub missing_max: u64,
}

impl Totals {
    /// Adds other sums; the sums saturate.
    pub fn add(&mut self, other: &Self) {
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.shadow_denied = self.shadow_denied.saturating_add(other.shadow_denied);
        self.units = self.units.saturating_add(other.units);
        add_each(&mut self.denied, &other.denied);
        add_each(&mut self.by_source, &other.by_source);
    }

    /// Replaces sums that are contained by other ones.
    pub fn replace(&mut self, contained: &Self, by: &Self) {
        let changed = |sum: &mut u64, before: u64, after: u64| *sum = sum.saturating_sub(before).saturating_add(after);
        changed(&mut self.admitted, contained.admitted, by.admitted);
        changed(&mut self.shadow_denied, contained.shadow_denied, by.shadow_denied);
        self.units = self.units.saturating_sub(contained.units).saturating_add(by.units);
        for place in 0..self.denied.len() {
            changed(&mut self.denied[place], contained.denied[place], by.denied[place]);
        }
        for place in 0..self.by_source.len() {
            changed(&mut self.by_source[place], contained.by_source[place], by.by_source[place]);
        }
    }

    /// Returns the number of denied calls.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.denied.iter().fold(0, |sum, denied| sum.saturating_add(*denied))
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.admitted.saturating_add(self.denied())
    }

    /// Returns true if nothing was summed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn add_each<const LEN: usize>(sums: &mut [u64; LEN], others: &[u64; LEN]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum = sum.saturating_add(*other);
    }
}
