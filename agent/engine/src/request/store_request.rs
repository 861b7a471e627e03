//! A request to the store: its charges, and the state with which its operation continues when the answer is there.
//!
//! It borrows nothing, so it may outlive its caller.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, CounterId, PrimaryIndex, StoreError};
use tollgate_core::decision::{LocalAnswer, Source};

use crate::call::{Adjustment, Destination, PlannedCall, PlannedCalls, Reset};
use crate::counters::RuleVerdict;
use crate::engine::Engine;
use crate::rules::{ActiveRules, Charges, MatchedRule};
use crate::store::{LostCounter, UnsyncedCounter};

/// Charges for the store, and the state with which their operation continues.
#[derive(Debug)]
pub struct StoreRequest(pub(crate) Box<AskedRequest>);

/// Decision of one rule of a call.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DecidedRule {
    /// Counter of the rule.
    pub counter: CounterId,
    /// Source of the verdict; none if the rule was not evaluated.
    pub source: Option<Source>,
    /// Reason of a local answer.
    pub by: Option<LocalAnswer>,
    /// Units for which the store was asked.
    pub asked: u64,
    /// True if the charge follows the decision.
    pub follows: bool,
}

#[derive(Debug)]
pub(crate) struct AskedRequest {
    pub(crate) active: Arc<ActiveRules>,
    pub(crate) calls: SmallVec<[Call<'static>; 1]>,
    /// The charges of the operation, behind those of unsynced units that it carries to the store.
    pub(crate) charges: Charges,
    pub(crate) carried: usize,
    pub(crate) deadline: Duration,
    /// Agent's own time of the sending.
    pub(crate) sent_at: Timestamp,
    /// Destinations of the charges.
    pub(crate) destinations: SmallVec<[Destination; 2]>,
    /// True for each charge that was answered by the deadline, or whose answer will never come; empty before it.
    pub(crate) answered: SmallVec<[bool; 2]>,
    /// Error after which it was sent once more, if it was.
    pub(crate) renewed_after: Option<StoreError>,
    /// True if the store applies all charges of a call in one step.
    pub(crate) has_one_step: bool,
    /// True if its calls are decided, so that nobody waits for the answer.
    pub(crate) is_deferred: bool,
    pub(crate) pending: AskedOperation<'static>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one call, and a box would cost an allocation")]
pub(crate) enum AskedOperation<'a> {
    Check(PlannedCalls<'a>),
    Adjustment(Adjustment<'a>),
    Reset(Reset<'a>),
    Backfill(PrimaryIndex, Vec<UnsyncedCounter>),
    Reopen(PrimaryIndex, Vec<LostCounter>),
}

impl AskedOperation<'_> {
    pub(crate) fn rule_of(&self, charge: &Charge) -> Option<&MatchedRule<'_>> {
        let Self::Check(planned) = self else { return None };
        planned.iter().flat_map(|planned| &planned.matched).find(|matched| matched.counter == charge.counter)
    }

    pub(crate) fn into_owned(self) -> AskedOperation<'static> {
        match self {
            Self::Check(planned) => AskedOperation::Check(planned.into_iter().map(PlannedCall::into_owned).collect()),
            Self::Adjustment(adjustment) => AskedOperation::Adjustment(adjustment.into_owned()),
            Self::Reset(reset) => AskedOperation::Reset(reset.into_owned()),
            Self::Backfill(primary, counters) => AskedOperation::Backfill(primary, counters),
            Self::Reopen(primary, counters) => AskedOperation::Reopen(primary, counters),
        }
    }
}

impl Engine {
    /// Returns the charges of unsynced units that a request carries to the store.
    pub(crate) fn carried_by(&self, request: &AskedRequest) -> Charges {
        let generation = request.active.order;
        match &request.pending {
            AskedOperation::Check(planned) => {
                let asking = planned.iter().filter(|planned| planned.asks_store());
                self.store.carried(generation, asking.flat_map(|planned| &planned.matched))
            }
            // A refund at the store follows the units that it refunds.
            AskedOperation::Adjustment(adjustment) => self.store.carried(generation, adjustment.matched.iter()),
            // Units that the store does not know are dropped with the reset.
            AskedOperation::Reset(_) | AskedOperation::Backfill(..) | AskedOperation::Reopen(..) => Charges::new(),
        }
    }
}

impl StoreRequest {
    /// Returns all charges, in the order of the steps.
    #[must_use]
    pub fn charges(&self) -> &[Charge] {
        &self.0.charges
    }

    /// Denies the calls of a request whose caller has left before the answer. The late answer then refunds what the
    /// store has charged for them, as for any call that was denied meanwhile. Nothing is published or counted, because
    /// nobody has a decision. A correction goes on without its caller.
    pub fn leave(&mut self) {
        if let AskedOperation::Check(planned) = &mut self.0.pending {
            for planned in planned {
                planned.error = Some(StoreError::TimedOut);
                planned.combined.allowed = false;
            }
        }
    }

    /// Returns true for each call of a check about which the store is asked, in their order.
    pub fn asked(&self) -> impl Iterator<Item = bool> {
        let planned = if let AskedOperation::Check(planned) = &self.0.pending { &**planned } else { &[] };
        planned.iter().map(PlannedCall::asks_store)
    }

    /// Returns how each rule of the calls was decided. Tests compare it with the charges that the store made.
    #[doc(hidden)]
    #[must_use]
    pub fn decided_rules(&self) -> Vec<Vec<DecidedRule>> {
        let AskedOperation::Check(planned) = &self.0.pending else { return Vec::new() };
        let of_call = |planned: &PlannedCall<'_>| {
            let verdicts = planned.verdicts.iter().copied().chain(std::iter::repeat(None));
            let rule = |(matched, verdict): (&MatchedRule<'_>, Option<RuleVerdict>)| DecidedRule {
                counter: matched.counter,
                source: verdict.map(|rule| rule.source),
                by: verdict.and_then(|rule| rule.by),
                asked: matched.unpaid(),
                follows: matched.follows,
            };
            planned.matched.iter().zip(verdicts).map(rule).collect()
        };
        planned.iter().map(of_call).collect()
    }

    /// Returns the primary whose counters a request of the maintenance concerns. Some of them may have moved since.
    pub(crate) fn primary(&self) -> PrimaryIndex {
        match self.0.pending {
            AskedOperation::Backfill(primary, _) | AskedOperation::Reopen(primary, _) => primary,
            _ => self.0.destinations.first().map_or(PrimaryIndex::ONLY, |destination| destination.primary),
        }
    }

    /// Returns the time to wait for the answer: the shortest deadline of the rules concerned.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }
}
