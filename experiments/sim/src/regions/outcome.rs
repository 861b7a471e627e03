//! Numbers of a run, and the state that must not be.

use tollgate_core::messages::ledger::LedgerRecord;

/// Numbers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionsOutcome {
    /// First violation; none if the invariant held.
    pub violation: Option<Violation>,
    /// Calls and admissions, by region and second.
    pub seconds: Vec<Vec<(u64, u64)>>,
    /// Entries in the ledger.
    pub entries: u64,
    /// Entries that were void.
    pub void: u64,
    /// Units that regions hold beyond the quota at the end.
    pub beyond_at_end: u64,
    /// Admissions by counter, as true time in ms and region.
    pub admitted: Vec<Vec<(u64, usize)>>,
    /// Calls by counter, as true time in ms and region.
    pub calls: Vec<Vec<(u64, usize)>>,
    /// Units that stores admitted after the ends of their terms, because their clocks had stepped back.
    pub overdue: u64,
    /// Most units, with the overdue ones, that the regions had beyond what they may have.
    pub overdue_excess: u64,
    /// Units of the first counter, by second and region.
    pub budgets: Vec<Vec<BudgetSample>>,
    /// Records in the order of the ledger, with the true time in ms at which they were appended.
    pub ledger: Vec<(u64, LedgerRecord)>,
}

/// Units of a counter at a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetSample {
    /// Units by the ledger.
    pub held: u64,
    /// Units that the store may admit in a window.
    pub limit: u64,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The regions hold or have admitted more than the largest quota.
    QuotaExceeded {
        /// Instant, in ms.
        at_ms: u64,
        /// Sum over the regions of the larger of limit and units of the last window.
        units: u64,
        /// The quota; after it was lowered, the units that regions still hold of the larger one.
        quota: u64,
    },
    /// An entry has given the regions more than the quota, and more than they held before it.
    HeldOverQuota {
        /// Instant, in ms.
        at_ms: u64,
        /// Units of all regions by the ledger.
        held: u64,
        /// The larger of the quota and the units that they held before.
        ceiling: u64,
    },
    /// A store has units whose term has ended, although the process that wrote them has seen that its clock had stepped back.
    Overdue {
        /// Instant, in ms.
        at_ms: u64,
    },
    /// Two readers of the same entries have different states.
    StatesDiffer {
        /// Instant, in ms.
        at_ms: u64,
        /// Number of entries.
        len: u64,
    },
}
