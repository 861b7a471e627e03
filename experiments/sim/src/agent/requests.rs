//! Requests of an agent that wait for the store, and the operations that they are for.

use std::collections::BTreeMap;

use tollgate::{Call, DecidedCall};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Generation;
use tollgate_engine::{Gatherer, StoreRequest};

use crate::observation::{CorrectedCall, Ticket};

/// A change to a call after its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Correction {
    /// The call cost this many units more than it was charged, or fewer; and its decision, if it is told.
    Settle(i64, Option<DecidedCall>),
    /// The call of this decision has ended.
    Release(DecidedCall),
    /// An operator gives the caller its quotas back.
    Reset,
}

/// Calls that were asked together, or one alone.
pub(super) struct AskedCalls<'c> {
    pub(super) calls: Vec<Call<'c>>,
    pub(super) generation: Generation,
    pub(super) arrived: Timestamp,
}

/// A request that waits for the store.
pub(super) enum SimRequest<'c> {
    /// It is late after this instant, if its deadline is later.
    Ping {
        late_after: Option<Timestamp>,
    },
    Announce,
    /// True if it belongs to a probe.
    Witness(bool),
    Charge(StoreRequest, ChargePurpose<'c>),
}

/// The operation that charges are for.
pub(super) enum ChargePurpose<'c> {
    Check(AskedCalls<'c>),
    Correct(Box<CorrectedCall<'c>>),
    Backfill,
    Reopen,
}

/// Requests that are not over.
#[derive(Default)]
pub(super) struct StoreRequests<'c> {
    pub(super) pending: BTreeMap<Ticket, SimRequest<'c>>,
    /// Requests that missed their deadline.
    pub(super) late: BTreeMap<Ticket, StoreRequest>,
    /// Order of the steps of calls.
    pub(super) gatherer: Gatherer<Ticket>,
}
