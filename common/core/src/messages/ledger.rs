//! Records of the topic `ledger`: the budgets that regions hold of the quotas of global rules.
//!
//! The ledger has one partition in the home cluster, and the order of its records is the only truth: what a region holds is a
//! function of the records before an instant. No entry contains a time, because the clocks of regions are never compared.

use std::sync::Arc;

use crate::counter::CounterId;
pub use crate::regions::{EntryId, Region};
use crate::rules::Generation;

/// One record of the topic `ledger`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerRecord {
    /// Identity of the entry.
    pub id: EntryId,
    /// The entry.
    pub entry: LedgerEntry,
}

/// Statement about the budgets of a rule or a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LedgerEntry {
    /// The quota of a rule, and its floors.
    Terms(Terms),
    /// A region asks for units.
    Request(BudgetRequest),
    /// Units for the region of a request. Void if they are not free, the request was answered, or the terms do not name the region any
    /// more.
    Grant {
        /// Counter of the request.
        counter: CounterId,
        /// The request.
        request: EntryId,
        /// Units; 0 refuses the request.
        units: u64,
    },
    /// The holder of a grant begins its term again. Void after the grant's end, and once the terms do not name the holder any more.
    Renewal {
        /// Counter of the grant.
        counter: CounterId,
        /// The grant.
        grant: EntryId,
        /// Units that the region could use in a window.
        wants: u64,
    },
    /// The holder of a grant keeps only a part of it. Void after the grant's end, and after it got more units.
    GiveBack {
        /// Counter of the grant.
        counter: CounterId,
        /// Last entry that granted some of its units.
        grant: EntryId,
        /// Units that it keeps; 0 ends the grant.
        keeps: u64,
    },
    /// A region has lowered its floors of a rule to those of the terms. Void if other terms are in force.
    FloorGiveBack {
        /// The terms.
        terms: EntryId,
        /// The region.
        region: Region,
    },
    /// The term of a grant has ended, and a window after it. Void after a later renewal.
    Expiry {
        /// Counter of the grant.
        counter: CounterId,
        /// The grant.
        grant: EntryId,
        /// Last renewal that the writer has read, or the grant. The writer waited from it.
        last: EntryId,
    },
}

/// Quota of a rule over all regions, and the part of it that is reserved for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Generation of the rule set. Terms of an older one are void.
    pub generation: Generation,
    /// Units of a counter per window, over all regions.
    pub quota: u64,
    /// Width of the window, in ms.
    pub window_ms: u64,
    /// Time for which a grant holds from the instant at which its holder asked for it or for its renewal, in ms.
    pub term_ms: u64,
    /// Fingerprint of the key of all digests. A region with another key has other counters, and takes no part.
    pub key_fingerprint: u64,
    /// Units of each counter that are reserved for each region.
    pub floors: Vec<(Region, u64)>,
}

/// Request of a region for units of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BudgetRequest {
    /// Terms that the region has read last. Void if others are in force.
    pub terms: EntryId,
    /// The counter.
    pub counter: CounterId,
    /// The region.
    pub region: Region,
    /// Units that the region could use in a window, with those that it holds.
    pub wants: u64,
}
