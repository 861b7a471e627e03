//! Late answers: a request that missed its deadline stays in flight, and its answer tells if the store charged it.
//!
//! The caller has its decision by then. Units that were admitted and not charged are backfilled. Units that were
//! charged for a denied call, or for one that a lease has admitted, become a lease. If they cannot, they are refunded, or
//! stay unspent where no unit comes back. If the call has a request id, the charge stays for the retry, which would pass
//! without a charge otherwise. If there will be no answer, admitted units are backfilled, under the call's own id if it
//! has one. A late answer takes back no miss, because no call waits for it. A slot of `concurrency` is backfilled at
//! once, and its late charge is refunded, because the store releases a slot by the instant of its decision.

#[cfg(test)]
mod tests;

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults, StoreError};
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::Generation;

use crate::call::{Adjustment, CallRow, Destination, PlannedCall, PlannedCalls, Sending, grant, signed};
use crate::counters::ViewEvent;
use crate::engine::{Context, Engine};
use crate::report::LateOutcome;
use crate::request::store_request::{AskedOperation, AskedRequest, StoreRequest};
use crate::request::store_step::StepAnswers;
use crate::rules::{ActiveRules, Charges, MatchedRule};
use crate::store::{
    ChargeAnswer, ChargeAnswers, ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore, answers_of, fate,
};

/// Maximum number of requests of one agent that wait for their late answers. Past the cap, a request counts as lost.
pub const LATE_REQUESTS_MAX: usize = 10_000;
/// Maximum time for which a late answer is awaited. After it, a request counts as lost: it has expired at the store.
pub const LATE_ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);

impl Engine {
    /// Takes the answer to a request that was finished without it, or the error that there will be none:
    /// [`StoreError::AnswerLost`].
    pub fn late_answer(&self, now: Timestamp, request: StoreRequest, answer: Result<ChargeResults, StoreError>) {
        let answers = answers_of(request.charges().len(), answer);
        self.late_charges(now, request, answers);
    }

    /// Takes the answers to the steps of a request that was finished without some of them, once none is missing or will come.
    pub fn late_steps(&self, now: Timestamp, request: StoreRequest, answers: &StepAnswers) {
        let answers = request.answers(answers, StoreError::AnswerLost);
        self.late_charges(now, request, answers);
    }

    fn late_charges(&self, now: Timestamp, request: StoreRequest, mut answers: ChargeAnswers) {
        let AskedRequest {
            active,
            calls,
            charges,
            carried,
            sent_at,
            destinations,
            answered,
            is_deferred,
            mut pending,
            ..
        } = *request.0;
        let is_new = |place: usize| answered.get(place) != Some(&true);
        for (place, (destination, answer)) in destinations.iter().zip(&answers).enumerate() {
            if is_new(place) {
                self.store.note_time_of(destination.primary, sent_at, now, answer);
            }
        }
        let late: SmallVec<[usize; 2]> = (carried..charges.len()).filter(|place| is_new(*place)).collect();
        let new_carried: SmallVec<[usize; 2]> = (0..carried).filter(|place| is_new(*place)).collect();
        let select = |places: &[usize]| -> Charges { places.iter().map(|place| charges[*place].clone()).collect() };
        let of = |places: &[usize], answers: &ChargeAnswers| -> ChargeAnswers {
            places.iter().map(|place| answers[*place]).collect()
        };
        // A counter that was reset by the deadline is not reset once more.
        let of_reset: ChargeAnswers = (carried..charges.len())
            .map(|place| if is_new(place) { answers[place] } else { Err(StoreError::TimedOut) })
            .collect();
        let (charges, carried) = (select(&late), select(&new_carried));
        let carried_answers = of(&new_carried, &answers);
        let late_destinations: SmallVec<[Destination; 2]> = late.iter().map(|place| destinations[*place]).collect();
        answers = of(&late, &answers);
        self.learn(sent_at, (&carried, &carried_answers), (&charges, &mut answers), &late_destinations, &pending);
        let sent = Sending { at: sent_at, destinations: &late_destinations };
        let generation = active.order;
        let context = Context { now, bounds: self.store_time(now), active: &active, store: &self.store };
        let outcome = match &mut pending {
            AskedOperation::Check(planned) => {
                self.give_back_left(generation, planned);
                let matched = planned.iter().flat_map(|planned| &planned.matched);
                matched.for_each(|matched| self.resolve_payment(&context, matched, false));
                self.take_back_repeated(&context, &calls, planned, &charges, &answers);
                self.late_check(&context, planned, &charges, &answers, sent)
            }
            AskedOperation::Adjustment(adjustment) => self.late_adjustment(generation, adjustment, &charges, &answers),
            AskedOperation::Reset(reset) => {
                // The operator knows that the store did not confirm the reset.
                let _ = self.finish_reset(&context, &calls[0], reset, &of_reset);
                return;
            }
            // The units are sent again: under their ids, or to counters that have them already.
            AskedOperation::Backfill(..) | AskedOperation::Reopen(..) => return,
        };
        if !is_deferred {
            self.reports.metrics().late_answer(outcome);
        }
        for (Destination { primary, .. }, answer) in late_destinations.iter().zip(&answers).filter(|_| is_deferred) {
            let Err(error) = answer else { continue };
            self.reports.metrics().store_error(*error);
            if matches!(error, StoreError::AnswerLost | StoreError::Unreachable) {
                // The server of the next connection may have lost the leased units.
                self.store.end_leases(*primary);
            }
        }
    }

    fn late_check(
        &self,
        context: &Context<'_>,
        planned: &PlannedCalls<'_>,
        charges: &[Charge],
        answers: &[ChargeAnswer],
        sent: Sending<'_>,
    ) -> LateOutcome {
        let active = context.active;
        let generation = active.order;
        self.take_leases(context.now, active, planned, charges, answers, sent);
        let is_held_back = planned.iter().any(|planned| !planned.combined.allowed);
        let mut outcome = outcome_of(answers);
        for (place, (charge, answer)) in charges.iter().zip(answers).enumerate() {
            let result = answer.as_ref().ok();
            let (kind, in_store) =
                (ChargeKind::of(charge), InStore::of(answer.as_ref().map(Some).map_err(|error| *error)));
            let traits = ChargeTraits::of(charge.request);
            let (mut standing, mut rule) = (ChargeStanding::VoidBefore, None);
            for planned in planned.iter().filter(|planned| planned.error.is_some()) {
                for (place, matched) in planned.matched.iter().enumerate().filter(|(_, matched)| matched.shares(charge))
                {
                    rule = Some((planned.number, matched));
                    // The units of a lease were charged before.
                    if !planned.stands(place, is_held_back) || matched.is_paid() {
                        continue;
                    }
                    standing = ChargeStanding::CountedBefore;
                    let lacking = match fate(kind, standing, in_store, traits) {
                        Fate::Backfill => matched.unpaid(),
                        // A lease that paid a part may have ended since.
                        Fate::Keep | Fate::Drop if kind != ChargeKind::Slot => {
                            matched.unpaid().saturating_sub(charge.cost)
                        }
                        _ => 0,
                    };
                    if lacking > 0 {
                        let unsynced = self.unsynced_of(planned, planned.planned_at(place), lacking);
                        self.store.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
                    }
                    if let Some(result) = result {
                        self.answered_late(active, matched, result);
                    }
                }
            }
            let (Some(result), Some((number, matched))) = (result, rule) else { continue };
            let grant = grant(active, matched, number, (charge, result), charge.cost, sent.of(place));
            outcome = match self.dispose(context, matched, standing, charge, grant) {
                Fate::Refund => LateOutcome::Refunded,
                Fate::Lease | Fate::Strand => LateOutcome::Leased,
                _ => outcome,
            };
        }
        outcome
    }

    /// Takes the answers to charges that followed the decisions of calls, in a request that another call has waited for.
    pub(crate) fn followed_by(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        planned: &[PlannedCall<'_>],
        charges: &[Charge],
        answers: &[ChargeAnswer],
    ) {
        self.take_back_repeated(context, calls, planned, charges, answers);
        let matched = || planned.iter().flat_map(|planned| &planned.matched).filter(|matched| matched.follows);
        for (charge, answer) in charges.iter().zip(answers) {
            let Ok(result) = answer else { continue };
            for matched in matched().filter(|matched| matched.shares(charge)) {
                self.answered_late(context.active, matched, result);
            }
        }
    }

    /// Takes back units that were entered and published with the decision, if the store knows them from an earlier call
    /// with the same id.
    fn take_back_repeated(
        &self,
        context: &Context<'_>,
        calls: &[Call<'_>],
        planned: &[PlannedCall<'_>],
        charges: &[Charge],
        answers: &[ChargeAnswer],
    ) {
        let is_repeated = |answer: &ChargeAnswer| answer.is_ok_and(|result| result.repeated);
        for (charge, _) in charges.iter().zip(answers).filter(|(_, answer)| is_repeated(answer)) {
            for (planned, call) in planned.iter().zip(calls) {
                for matched in planned.matched.iter().filter(|matched| matched.follows && matched.shares(charge)) {
                    let is_of_first = matched.primary == planned.matched[0].primary;
                    let (at, units) = (if is_of_first { planned.at } else { matched.at }, matched.cost);
                    let row = CallRow::new(planned.number, at, -signed(units), Outcome::Corrected, Source::Store);
                    self.publish(context, call, Some(matched.charged_counter()), row, None);
                    let event = ViewEvent::Refunded { at, units, slots_of: None, by_store: false };
                    self.store.update_counter(matched, context.active.order, event);
                }
            }
        }
    }

    /// Notes the verdict of a rule that has not decided its call, because the charge followed or the answer was late.
    fn answered_late(&self, active: &ActiveRules, matched: &MatchedRule<'_>, result: &ChargeResult) {
        if matched.rule.shadow && !result.verdict.admitted {
            active.counts[matched.index].shadow_denials.add(1);
        }
        if matched.follows {
            // The units were entered with the decision.
            let (round, acknowledged, is_demand) = (None, None, false);
            let event = ViewEvent::Answered { result, units: 0, round, acknowledged, is_demand };
            self.store.update_counter(matched, active.order, event);
        }
    }

    fn late_adjustment(
        &self,
        generation: Generation,
        adjustment: &Adjustment<'_>,
        charges: &[Charge],
        answers: &[ChargeAnswer],
    ) -> LateOutcome {
        let traits = ChargeTraits::of(adjustment.request);
        for (charge, answer) in charges.iter().zip(answers) {
            let matched = adjustment.matched.iter().find(|matched| matched.counter == charge.counter);
            if let (ChargeMode::Backfill { at }, Err(error), Some(matched)) = (charge.mode, answer, matched)
                && fate(ChargeKind::Counted, ChargeStanding::CountedBefore, (*error).into(), traits) == Fate::Backfill
            {
                let unsynced = self.unsynced_units(adjustment.number, adjustment.request, at, charge.cost);
                self.store.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
            }
        }
        outcome_of(answers)
    }
}

fn outcome_of(answers: &[ChargeAnswer]) -> LateOutcome {
    if answers.iter().flatten().any(|result| result.charged) {
        LateOutcome::Charged
    } else if answers.iter().any(|answer| answer.is_err_and(StoreError::may_have_charged)) {
        LateOutcome::Lost
    } else {
        LateOutcome::NotCharged
    }
}
