//! Results of all runs.

use super::cap::CapTally;
use super::cost::LedgerCost;
use super::day::{BaselineTally, DayTally};
use super::outage::OutageDay;
use super::rotation::RotationTally;

/// Results of all runs.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalQuota {
    /// Days by the interval of the settings.
    pub(super) days: Vec<DayTally>,
    /// Other ways on the calls of the first day: static shares, central store, free zone, regional limits.
    pub(super) baselines: Vec<BaselineTally>,
    pub(super) outage: OutageDay,
    pub(super) rotations: Vec<RotationTally>,
    /// Costs by the numbers of counters of the settings.
    pub(super) costs: Vec<LedgerCost>,
    pub(super) cap: CapTally,
}
