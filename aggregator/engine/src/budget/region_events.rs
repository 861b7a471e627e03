//! Events and effects of a region's budgets, and the process to which they happen.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::ledger::{LedgerRecord, Region};
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

/// Identity of a process that takes part for its region.
#[derive(Clone, Debug)]
pub struct RegionMember {
    /// Name of the region.
    pub region: Region,
    /// Number that no other life of a process has.
    pub writer: u64,
    /// Fingerprint of its key of all digests.
    pub key_fingerprint: u64,
}

/// Part of the counters of a region: those of some partitions. The process with the first partition sets the floors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPartitions {
    /// Number of all partitions.
    pub partitions: u32,
    /// Partitions of this process.
    pub own: BTreeSet<Partition>,
    /// Those of which it has counted nearly all calls up to now. The demand of the others is unknown: it stays as it was known last.
    pub counted: BTreeSet<Partition>,
}

/// Event at a region.
#[derive(Clone, Copy, Debug)]
pub enum RegionInput<'a> {
    /// The next record of the ledger.
    Record(&'a LedgerRecord),
    /// Callers have asked for units of a counter.
    Offered {
        /// Rule of the counter.
        rule: &'a Arc<str>,
        /// The counter.
        counter: CounterId,
        /// Units, admitted or not.
        units: u64,
    },
    /// An operator wants the region to have so many units of a counter for one term, whatever its demand.
    Wanted {
        /// Rule of the counter.
        rule: &'a Arc<str>,
        /// The counter.
        counter: CounterId,
        /// Units, with those of the floor.
        units: u64,
    },
    /// The process takes care of this part of the counters from now on; first it is all of them.
    Assigned(&'a RegionPartitions),
    /// The store has answered with its time.
    StoreTime(Timestamp),
    /// The store has answered the write of a counter's limit.
    Written {
        /// The counter.
        counter: CounterId,
        /// The answer.
        answer: LimitAnswer,
    },
    /// The store has answered the write of a rule's floor.
    FloorWritten {
        /// The rule.
        rule: &'a Arc<str>,
        /// Floor in force.
        limit: StoredLimit,
    },
    /// Budgets are compared with the demand.
    Tick,
}

/// Effect of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionEffect {
    /// A record for the ledger.
    Append(LedgerRecord),
    /// A write of a counter's limit to the store.
    Write {
        /// Rule of the counter.
        rule: Arc<str>,
        /// The counter.
        counter: CounterId,
        /// The write. Its number of moves is left to the shell, which counts them.
        write: LimitWrite,
    },
    /// A write of the floor of all counters of a rule to the store.
    WriteFloor {
        /// The rule.
        rule: Arc<str>,
        /// The write.
        write: LimitWrite,
    },
}
