//! The life cycle of an operation: begun, applied by the store if necessary, finished.
//!
//! For a check of one call, a shell first tries [`Engine::decide`], which is faster, and passes the rule that it found to
//! [`Engine::begin_found`]. Any other operation goes to [`Engine::begin`]. If the result is a [`StoreRequest`], the shell sends the
//! charges to the store, waits at most the request's deadline, and calls [`Engine::finish`]. A request borrows nothing, so it may
//! outlive its caller: it keeps the calls and the rules under which they were matched. With counts in the engine's own table the
//! charges are applied here, and every operation is done at once.
//!
//! A request whose answer is [`Engine::renew`]ed is sent once more. A request that is deferred is not finished: its answer goes to
//! [`Engine::late_answer`]. Any other is finished once. If it missed its deadline, or if its caller has left
//! ([`StoreRequest::leave`]), its answer goes to [`Engine::late_answer`], too.
//!
//! The operations are in `check`, `settle_release`,
//! `reset` and [`StoreLink`](crate::store::StoreLink). Each has a first half, which returns charges, and a
//! second half, which takes the answer.

use std::mem;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, PrimaryIndex, StoreError};

use crate::call::{
    Beginning, BegunCalls, Correction, Decisions, Destination, FoundRule, RESET_DEADLINE, Sending, ThreadRules,
};
use crate::engine::{Context, Engine};
use crate::request::operation::{Operation, Output, Progress, UNATTENDED_DEADLINE};
use crate::request::renewed_request::results_of;
use crate::request::store_request::{AskedOperation, AskedRequest, StoreRequest};
use crate::request::store_step::{StepAnswers, are_answered};
use crate::rules::{ActiveRules, Charges};
use crate::store::{ChargeAnswer, ChargeAnswers, answers_of};

impl Engine {
    /// Begins an operation.
    #[must_use]
    pub fn begin(&self, now: Timestamp, operation: Operation<'_, '_>) -> Progress {
        self.begin_waiting(now, operation, None)
    }

    /// Begins the check of one call, of whose rule [`Engine::decide`] has found this.
    #[must_use]
    pub fn begin_found(&self, now: Timestamp, call: &Call<'_>, found: Option<&FoundRule>) -> Progress {
        self.begin_waiting(now, Operation::check(call), found)
    }

    /// Begins the check of a call that is decided at once or not at all. A call that the store may have to decide, and
    /// that the sketch or the signals decide for another of its counters, is not begun: what they have entered could
    /// not be given back. If the store does not charge at once, the request is dropped, and the views note nothing of it.
    #[must_use]
    pub fn try_begin(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        found: Option<&FoundRule>,
        charges_at_once: bool,
    ) -> Option<Progress> {
        let beginning = Beginning { found, is_tried: true, may_ask: charges_at_once };
        let mut rules = ThreadRules::of(self.rules.in_force());
        self.begin_under(rules.load().0, now, Operation::check(call), beginning)
    }

    fn begin_waiting(&self, now: Timestamp, operation: Operation<'_, '_>, found: Option<&FoundRule>) -> Progress {
        let beginning = Beginning { found, ..Beginning::WAITING };
        let mut rules = ThreadRules::of(self.rules.in_force());
        self.begin_under(rules.load().0, now, operation, beginning).expect("only a call that is tried is not begun")
    }

    fn begin_under(
        &self,
        active: &Arc<ActiveRules>,
        now: Timestamp,
        operation: Operation<'_, '_>,
        beginning: Beginning<'_>,
    ) -> Option<Progress> {
        let context = Context { now, bounds: self.store_time(now), active, store: &self.store };
        let mut deferred: Option<Decisions> = None;
        let (calls, charges, deadline, mut pending): (&[Call<'_>], _, _, _) = match operation {
            Operation::Check { calls, scope } => {
                let planned = match self.begin_calls(&context, calls, scope, beginning)? {
                    BegunCalls::Decided(decisions) => return Some(Progress::Done(Output::Decisions(decisions))),
                    BegunCalls::Deferred(decisions, planned) => {
                        deferred = Some(decisions);
                        planned
                    }
                    BegunCalls::AskStore(planned) => planned,
                };
                let (charges, deadline) = self.begin_check(&context, &planned);
                (calls, charges, deadline, AskedOperation::Check(planned))
            }
            Operation::Settle { call, units, decided } => {
                self.begin_correction(&context, call, Correction::Settle(units, decided))
            }
            Operation::Refund { call, scope } => self.begin_correction(&context, call, Correction::Refund(scope)),
            Operation::Release { call, decided } => self.begin_correction(&context, call, Correction::Release(decided)),
            Operation::Reset { call } => {
                let (charges, reset) = self.begin_reset(&context, call);
                (slice::from_ref(call), charges, RESET_DEADLINE, AskedOperation::Reset(reset))
            }
            Operation::Backfill(primary) => {
                let (charges, counters) = self.store.begin_backfill(primary);
                (&[], charges, UNATTENDED_DEADLINE, AskedOperation::Backfill(primary, counters))
            }
            Operation::Reopen(primary) => {
                let (charges, counters) = self.store.begin_reopening(primary, now);
                (&[], charges, UNATTENDED_DEADLINE, AskedOperation::Reopen(primary, counters))
            }
        };
        if charges.is_empty() || self.settings.owns_table {
            let results = if charges.is_empty() { ChargeResults::new() } else { self.charge_own_table(now, &charges) };
            let sent = Sending { at: now, destinations: &[] };
            let answers = answers_of(charges.len(), Ok(results));
            return Some(Progress::Done(self.complete(&context, calls, &charges, &mut pending, sent, &answers)));
        }
        let (active, calls) = (active.clone(), calls.iter().map(|call| self.kept(call)).collect());
        let mut request = AskedRequest {
            active,
            calls,
            charges,
            carried: 0,
            deadline,
            sent_at: now,
            destinations: SmallVec::new(),
            answered: SmallVec::new(),
            has_one_step: self.settings.store.has_one_step(),
            renewed_after: None,
            is_deferred: deferred.is_some(),
            pending: pending.into_owned(),
        };
        if self.store.has_unsynced() {
            let carried = self.carried_by(&request);
            request.carried = carried.len();
            request.charges.insert_many(0, carried);
        }
        self.address(&mut request);
        let request = StoreRequest(Box::new(request));
        Some(match deferred {
            Some(decisions) => Progress::Deferred(Output::Decisions(decisions), request),
            None => Progress::NeedsStore(request),
        })
    }

    fn begin_correction<'a, 'o, 'c>(
        &self,
        context: &Context<'a>,
        call: &'o Call<'c>,
        correction: Correction<'_>,
    ) -> (&'o [Call<'c>], Charges, Duration, AskedOperation<'a>) {
        let (charges, adjustment) = self.begin_adjustment(context, call, correction);
        (slice::from_ref(call), charges, UNATTENDED_DEADLINE, AskedOperation::Adjustment(adjustment))
    }

    /// Finds the destinations of the charges of a request.
    pub(crate) fn address(&self, request: &mut AskedRequest) {
        let destination = |charge: &Charge| {
            let primary = self.store.primary_of(charge.slot);
            Destination { primary, epoch: self.store.lease_epoch(primary), is_passing: false }
        };
        request.destinations = request.charges.iter().map(destination).collect();
    }

    /// Finishes an operation with the answer of the store to all charges. Without an answer the engine decides by signals or by the rule's
    /// `on_failure`. After a missed deadline, the request is kept for its [late answer](Engine::late_answer).
    #[must_use]
    pub fn finish(
        &self,
        now: Timestamp,
        request: &mut StoreRequest,
        answer: Result<ChargeResults, StoreError>,
    ) -> Output {
        let answers = answers_of(request.charges().len(), answer);
        self.finish_charges(now, request, answers)
    }

    /// Finishes an operation with the answers of the store to the steps of the request that were answered by the deadline.
    #[must_use]
    pub fn finish_steps(&self, now: Timestamp, request: &mut StoreRequest, answers: &StepAnswers) -> Output {
        let answers = request.answers(answers, StoreError::TimedOut);
        self.finish_charges(now, request, answers)
    }

    fn finish_charges(&self, now: Timestamp, request: &mut StoreRequest, mut answers: ChargeAnswers) -> Output {
        request.0.answered = are_answered(&answers);
        let AskedRequest {
            active,
            calls,
            charges,
            carried,
            deadline,
            sent_at,
            destinations,
            renewed_after,
            pending,
            ..
        } = &mut *request.0;
        results_of(&mut answers, *renewed_after);
        self.note_answers(now, *sent_at, *deadline, destinations, pending, &answers);
        let (carried, charges) = charges.split_at(*carried);
        let (carried_answers, answers) = answers.split_at_mut(carried.len());
        self.learn(*sent_at, (carried, carried_answers), (charges, answers), &destinations[carried.len()..], pending);
        let context = Context { now, bounds: self.store_time(now), active, store: &self.store };
        let sent = Sending { at: *sent_at, destinations: &destinations[carried.len()..] };
        self.complete(&context, calls, charges, pending, sent, answers)
    }

    /// Records what the answers by the deadline say about each primary: its time, and whether it answers.
    fn note_answers(
        &self,
        now: Timestamp,
        sent_at: Timestamp,
        deadline: Duration,
        destinations: &[Destination],
        pending: &AskedOperation<'_>,
        answers: &[ChargeAnswer],
    ) {
        let mut noted: SmallVec<[PrimaryIndex; 2]> = SmallVec::new();
        for Destination { primary, .. } in destinations {
            if noted.contains(primary) {
                continue;
            }
            noted.push(*primary);
            let of_primary = destinations.iter().zip(answers).filter(|(known, _)| known.primary == *primary);
            let of_primary: SmallVec<[&ChargeAnswer; 2]> = of_primary.map(|(_, answer)| answer).collect();
            for answer in &of_primary {
                self.store.note_time_of(*primary, sent_at, now, answer);
            }
            let error = of_primary.iter().find_map(|answer| answer.err());
            match (pending, error) {
                (AskedOperation::Check(_), None) => self.store.breaker(*primary).answered(now.ms_since(sent_at)),
                (AskedOperation::Check(_), Some(error)) => {
                    self.store.unanswered_check(*primary, sent_at, deadline, now, error);
                }
                (AskedOperation::Adjustment(_) | AskedOperation::Reset(_), None)
                | (AskedOperation::Backfill(..) | AskedOperation::Reopen(..), _) => {}
                (_, Some(error)) => self.store.unanswered(*primary, sent_at, deadline, now, error),
            }
        }
    }

    /// Applies charges to the counts in the own table, which refuses no counter and where no request expires.
    pub(crate) fn charge_own_table(&self, now: Timestamp, charges: &[Charge]) -> ChargeResults {
        self.counters.charge(charges, now).unwrap_or_default()
    }

    fn complete(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        charges: &[Charge],
        pending: &mut AskedOperation<'_>,
        sent: Sending<'_>,
        answers: &[ChargeAnswer],
    ) -> Output {
        match pending {
            AskedOperation::Check(planned) => {
                Output::Decisions(self.finish_check(context, calls, planned, charges, sent, answers))
            }
            AskedOperation::Adjustment(adjustment) => {
                Output::Adjusted(self.finish_adjustment(context, &calls[0], adjustment, charges, answers))
            }
            AskedOperation::Reset(reset) => Output::Reset(self.finish_reset(context, &calls[0], reset, answers)),
            AskedOperation::Backfill(primary, counters) => {
                Output::Backfilled(self.store.finish_backfill(*primary, mem::take(counters), charges, answers))
            }
            AskedOperation::Reopen(primary, counters) => {
                Output::Reopened(self.store.finish_reopening(*primary, context.now, mem::take(counters), answers))
            }
        }
    }
}
