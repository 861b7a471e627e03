//! Events of the world, and the members of the ledger to which they happen.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::LedgerRecord;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

use crate::regions::region_store::WriteOrigin;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerMember {
    Region(usize, usize),
    Coordinator(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Call {
        region: usize,
        plan: usize,
    },
    /// A call reaches the store.
    Charge {
        region: usize,
        counter: u32,
    },
    Tick(LedgerMember),
    Appended(LedgerRecord),
    Mirrored {
        region: usize,
        /// Place of the record in the ledger.
        place: usize,
    },
    /// Callers' units are counted late.
    Counted {
        region: usize,
        counter: CounterId,
    },
    Step {
        region: usize,
        by_ms: i64,
    },
    Loss {
        region: usize,
    },
    /// The region's machine is suspended.
    Pause {
        region: usize,
        until_ms: u64,
    },
    Write {
        region: usize,
        process: usize,
        origin: WriteOrigin,
        counter: Option<CounterId>,
        write: LimitWrite,
    },
    Written {
        region: usize,
        process: usize,
        life: u64,
        answer: WriteAnswer,
        store: Timestamp,
    },
    Restart(LedgerMember),
    Resume(LedgerMember),
    Sample,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WriteAnswer {
    Counter(CounterId, LimitAnswer),
    Floor(StoredLimit),
}
