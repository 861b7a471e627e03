//! Identity of the calls of one life of an agent: their numbers, and the ids of their decisions and unsynced units.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey, RequestId};
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::decision_id::DecisionId;
use tollgate_core::name::Name;

use crate::report::stripes::CallNumbers;

/// Source of the numbers and ids of calls.
pub(crate) struct CallIds {
    /// Name and start of the agent in decisions.
    life: Name,
    numbers: CallNumbers,
    /// Partitions of the bus; none if calls are not published.
    partitions: Option<u32>,
    /// First of the ids under which this life of the agent backfills; that of a call is so many places after it.
    backfill: RequestId,
}

impl CallIds {
    /// Creates the source of a life of this agent that begins at `epoch`.
    pub(crate) fn new(node: &str, epoch: Timestamp, key: &DigestKey, partitions: Option<u32>) -> Self {
        Self {
            life: format!("{node}-{:x}", epoch.as_ms()).as_str().into(),
            numbers: CallNumbers::default(),
            partitions,
            backfill: key.backfill(node, epoch),
        }
    }

    /// Returns the number of the next call.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.numbers.next()
    }

    /// Returns the identifier of the decision on a call whose home row is that of a counter.
    #[inline]
    pub(crate) fn decision(&self, number: u64, home: Option<CounterId>) -> DecisionId {
        let partition = home.zip(self.partitions).map(|(home, partitions)| home.partition(partitions));
        DecisionId { life: self.life.clone(), call: number, partition }
    }

    /// Returns the identifier under which units of the call of this number are backfilled that has no request id.
    pub(crate) fn backfill(&self, number: u64) -> RequestId {
        self.backfill.after(number)
    }

    /// Returns the identifier of the units that were admitted for a decided call without the store; none if another agent
    /// decided it.
    pub(crate) fn unsynced_of(&self, decided: &DecidedCall) -> Option<RequestId> {
        let (id, request) = (decided.id(), decided.request());
        request.or_else(|| (id.life == self.life).then(|| self.backfill(id.call)))
    }
}
