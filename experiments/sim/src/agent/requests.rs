//! Requests of an agent that wait for the store, and the operations that they are for.

use std::collections::BTreeMap;

use tollgate::store::StoreError;
use tollgate::{Call, DecidedCall};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResults, PrimaryIndex};
use tollgate_core::rules::Generation;
use tollgate_engine::{Gatherer, StepAnswers, StoreRequest};

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
        primary: PrimaryIndex,
        late_after: Option<Timestamp>,
    },
    Announce,
    /// The flag is true if it belongs to a probe.
    Witness(PrimaryIndex, bool),
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
    /// Answers to the steps of requests that go to several primaries, which are not over.
    pub(super) parts: BTreeMap<Ticket, StepAnswers>,
    /// Order of the steps of calls.
    pub(super) gatherer: Gatherer<Ticket>,
}

impl StoreRequests<'_> {
    /// Returns the answers to the steps of a request: those of several primaries, or the one answer to all.
    pub(super) fn answers_of(
        &mut self,
        ticket: Ticket,
        request: &StoreRequest,
        answer: Result<ChargeResults, StoreError>,
    ) -> StepAnswers {
        if let Some(answers) = self.parts.get(&ticket) {
            return answers.clone();
        }
        let mut results = match answer {
            Ok(results) => results.into_iter(),
            Err(error) => return request.steps().iter().map(|_| Some(Err(error))).collect(),
        };
        request.steps().iter().map(|step| Some(Ok(results.by_ref().take(step.charges.len()).collect()))).collect()
    }
}
