//! The life cycle of an operation: begun, applied by the store if necessary, finished.
//!
//! A shell calls [`Engine::begin`]; if the answer is a [`StoreRequest`], it sends the charges to the store, waits at most the
//! request's deadline, and calls [`Engine::finish`]. A request borrows nothing, so it may outlive its caller: it keeps
//! the calls and the rules under which they were matched. With counts in the engine's own table the charges are applied here,
//! and every operation is done at once. A request is finished once; an answer that arrives after that changes nothing, and a
//! shell drops it. The operations are in [`check`](crate::check),
//! [`check_all`](crate::check_all), [`settle_release`](crate::settle_release) and [`backfill`](crate::backfill).

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, StoreError};
use tollgate_core::decision::{Decision, LimitStatus};
use tollgate_core::rules::MatchScope;

use crate::check::PendingCheck;
use crate::check_all::PlannedCall;
use crate::engine::{ActiveRules, Engine};
use crate::settle_release::{Adjustment, PendingAdjustment};
use crate::stage::{Charges, Stage};
use crate::unsynced_queue::UnsyncedCounter;

/// Anything that needs a decision or a request to the store.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a, 'c> {
    /// Decides a call.
    Check(&'a Call<'c>),
    /// Decides several calls as one request: their enforced charges are charged all or none. Each call has a decision of its
    /// own. A rule that one of the calls replaces applies to none of them.
    CheckAll {
        /// The calls.
        calls: &'a [Call<'c>],
        /// Restriction of the rules that may apply.
        scope: MatchScope<'a>,
    },
    /// Corrects the cost of a call after it has ended, under every rule that goes by the call's own cost.
    Settle {
        /// The call.
        call: &'a Call<'c>,
        /// Units that the call cost beyond its request; negative if it cost less.
        units: i64,
        /// Instant of the decision; units are refunded where they were charged.
        decided: Option<Timestamp>,
    },
    /// Ends a call: frees its slots under rules of `concurrency`.
    Release {
        /// The call.
        call: &'a Call<'c>,
        /// Instant of the decision, which identifies the slots.
        decided: Timestamp,
    },
    /// Charges the next few unsynced units to a store that has recovered. To be repeated until it is done.
    Backfill,
}

/// Result of [`Engine::begin`].
#[derive(Debug)]
pub enum Progress {
    /// The operation is done.
    Done(Output),
    /// The store must apply these charges.
    NeedsStore(StoreRequest),
}

/// Result of an operation.
#[derive(Debug)]
pub enum Output {
    /// Of [`Operation::Check`].
    Decision(Decision),
    /// Of [`Operation::CheckAll`]: a decision for each call, in their order.
    Decisions(Vec<Decision>),
    /// Of [`Operation::Settle`] and [`Operation::Release`]: the status of the tightest rule concerned afterwards, none if no
    /// rule is concerned; or the reason for which nothing was refunded.
    Adjusted(Result<Option<LimitStatus>, StoreError>),
    /// Of [`Operation::Backfill`]: the reason for which the store was not told, if it was not.
    Backfilled(Result<(), StoreError>),
}

/// Charges for the store, and the state with which their operation continues.
#[derive(Debug)]
pub struct StoreRequest(Box<PendingRequest>);

#[derive(Debug)]
struct PendingRequest {
    active: Arc<ActiveRules>,
    calls: SmallVec<[Call<'static>; 1]>,
    charges: Charges,
    deadline: Duration,
    sent_at: Timestamp,
    pending: Pending,
}

/// State of an operation that waits for the store.
#[derive(Debug)]
enum Pending {
    Check(PendingCheck),
    CheckAll(Vec<PlannedCall>),
    Adjustment(PendingAdjustment),
    Backfill(Vec<UnsyncedCounter>),
}

impl StoreRequest {
    /// Returns the charges to apply in one step.
    #[must_use]
    pub fn charges(&self) -> &[Charge] {
        &self.0.charges
    }

    /// Returns the time to wait for the answer: the shortest deadline of the rules concerned.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }
}

impl Output {
    /// Returns the decision of a check.
    #[must_use]
    pub fn into_decision(self) -> Option<Decision> {
        match self {
            Self::Decision(decision) => Some(decision),
            _ => None,
        }
    }
}

impl Engine {
    /// Begins an operation.
    #[must_use]
    pub fn begin(&self, now: Timestamp, operation: Operation<'_, '_>) -> Progress {
        let rules = self.rules.load();
        let active = &rules;
        match operation {
            Operation::Check(call) => {
                let stage = self.begin_check(now, active, call);
                self.proceed(now, active, slice::from_ref(call), stage, Output::Decision, Pending::Check)
            }
            Operation::CheckAll { calls, scope } => {
                let stage = self.begin_check_all(now, active, calls, scope);
                self.proceed(now, active, calls, stage, Output::Decisions, Pending::CheckAll)
            }
            Operation::Settle { call, units, decided } => {
                let stage = self.begin_adjustment(now, active, call, Adjustment::Settle { units, decided });
                self.proceed(now, active, slice::from_ref(call), stage, Output::Adjusted, Pending::Adjustment)
            }
            Operation::Release { call, decided } => {
                let stage = self.begin_adjustment(now, active, call, Adjustment::Release { decided });
                self.proceed(now, active, slice::from_ref(call), stage, Output::Adjusted, Pending::Adjustment)
            }
            Operation::Backfill => {
                self.proceed(now, active, &[], self.begin_backfill(), Output::Backfilled, Pending::Backfill)
            }
        }
    }

    /// Finishes an operation with the answer of the store. Without an answer the engine decides by signals or by the rule's
    /// `on_failure`.
    #[must_use]
    pub fn finish(&self, now: Timestamp, request: StoreRequest, answer: Result<ChargeResults, StoreError>) -> Output {
        let PendingRequest { active, calls, charges, sent_at, pending, .. } = *request.0;
        match (&pending, &answer) {
            (Pending::Check(_) | Pending::CheckAll(_), Ok(results)) => self.answered(sent_at, now, results),
            (Pending::Adjustment(_), Ok(_)) | (Pending::Backfill(_), _) => {}
            (_, Err(error)) => self.unanswered(*error),
        }
        self.complete(now, &active, &calls, &charges, pending, answer)
    }

    /// Completes the first half of an operation: sends its charges to the store, or applies them to the own table.
    fn proceed<T, P>(
        &self,
        now: Timestamp,
        active: &Arc<ActiveRules>,
        calls: &[Call<'_>],
        stage: Stage<T, P>,
        output: impl FnOnce(T) -> Output,
        pending: impl FnOnce(P) -> Pending,
    ) -> Progress {
        match stage {
            Stage::Done(done) => Progress::Done(output(done)),
            Stage::NeedsStore(charges, _, continuation) if self.counts_in_own_table() => {
                let results = self.charge_own_table(now, &charges);
                Progress::Done(self.complete(now, active, calls, &charges, pending(continuation), Ok(results)))
            }
            Stage::NeedsStore(charges, deadline, continuation) => {
                let calls = calls.iter().map(|call| self.kept(call)).collect();
                let (active, pending) = (active.clone(), pending(continuation));
                let request = PendingRequest { active, calls, charges, deadline, sent_at: now, pending };
                Progress::NeedsStore(StoreRequest(Box::new(request)))
            }
        }
    }

    /// Runs the second half of an operation.
    fn complete(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        calls: &[Call<'_>],
        charges: &[Charge],
        pending: Pending,
        answer: Result<ChargeResults, StoreError>,
    ) -> Output {
        match pending {
            Pending::Check(pending) => Output::Decision(self.finish_check(now, active, &calls[0], &pending, answer)),
            Pending::CheckAll(planned) => {
                Output::Decisions(self.finish_check_all(now, active, calls, &planned, charges, &answer))
            }
            Pending::Adjustment(pending) => {
                Output::Adjusted(self.finish_adjustment(now, active, &calls[0], &pending, charges, answer))
            }
            Pending::Backfill(counters) => Output::Backfilled(self.finish_backfill(counters, charges, &answer)),
        }
    }
}
