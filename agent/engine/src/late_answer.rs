//! Late answers: a request that missed its deadline stays in flight, and its answer tells if the store charged it.
//!
//! The caller has its decision by then. Units that were admitted and not charged are backfilled. Units that were charged for a
//! denied call are refunded, unless the call has a request id: then the charge stays for the retry, which would pass without a
//! charge otherwise. If there will be no answer, admitted units are backfilled, under the call's own id if it has one. A late
//! answer takes back no miss, because no call waits for it.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResults, StoreError};
use tollgate_core::rules::Generation;

use crate::check::PlannedCalls;
use crate::engine::Engine;
use crate::metrics::LateOutcome;
use crate::operation::{Pending, PendingRequest, StoreRequest};
use crate::settle_release::Adjustment;
use crate::view::{LateRefund, ViewEvent};

/// Maximum number of requests of one agent that wait for their late answers. Past the cap, a request counts as lost.
pub const LATE_REQUESTS_MAX: usize = 10_000;
/// Maximum time for which a late answer is awaited. After it, a request counts as lost: it has expired at the store.
pub const LATE_ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);

impl Engine {
    /// Takes the answer to a request that was finished without it, or the error that there will be none:
    /// [`StoreError::AnswerLost`].
    pub fn late_answer(&self, now: Timestamp, request: StoreRequest, answer: Result<ChargeResults, StoreError>) {
        let PendingRequest { active, charges, carried, sent_at, pending, .. } = *request.0;
        if let Some(result) = answer.iter().flatten().next() {
            self.note_store_time(sent_at, now, result.at);
        }
        let (carried, charges) = charges.split_at(carried);
        let answer = answer.map(|results| self.learn(sent_at, carried, charges, results));
        let generation = active.set.generation;
        let outcome = match &pending {
            Pending::Check(planned) => self.late_check(generation, planned, charges, &answer),
            Pending::Adjustment(adjustment) => self.late_adjustment(generation, adjustment, charges, &answer),
            // The units are sent again under their ids.
            Pending::Backfill(_) => return,
        };
        self.metrics.late_answer(outcome);
    }

    fn late_check(
        &self,
        generation: Generation,
        planned: &PlannedCalls<'_>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> LateOutcome {
        let is_held_back = planned.iter().any(|planned| !planned.combined.allowed);
        let mut outcome = outcome_of(answer);
        for (place, charge) in charges.iter().enumerate() {
            let result = answer.as_ref().map(|results| results.get(place));
            let is_charged = match result {
                Ok(result) => result.is_some_and(|result| result.charged || result.repeated),
                Err(error) => *error == StoreError::Unreadable,
            };
            // Units that stand for no call are refunded. Those that are only counted stay.
            let mut stands = !charge.mode.is_enforced();
            let mut rule = None;
            for planned in planned.iter().filter(|planned| planned.error.is_some()) {
                for matched in planned.matched.iter().filter(|matched| matched.shares(charge)) {
                    rule = Some(matched);
                    if !planned.combined.allowed || is_held_back && !matched.is_counted_always() {
                        continue;
                    }
                    // A slot was unsynced from its decision on.
                    stands = !matched.is_slot();
                    if stands && !is_charged {
                        let unsynced = self.unsynced_of(planned, planned.bounds.latest, matched.cost);
                        self.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
                    }
                }
            }
            let charge_made = result.ok().flatten().filter(|result| result.charged);
            if let (Some(result), Some(matched), None, false) = (charge_made, rule, charge.request, stands) {
                let refund = LateRefund { at: result.at, units: charge.cost };
                self.update_counter(matched, generation, ViewEvent::ChargedLate(refund));
                outcome = LateOutcome::Refunded;
            }
        }
        outcome
    }

    fn late_adjustment(
        &self,
        generation: Generation,
        adjustment: &Adjustment<'_>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> LateOutcome {
        let is_uncharged = answer.as_ref().is_err_and(|error| *error != StoreError::Unreadable);
        for (matched, charge) in adjustment.matched.iter().zip(charges) {
            if let ChargeMode::Backfill { at } = charge.mode
                && is_uncharged
            {
                let unsynced = self.unsynced_units(adjustment.number, at, charge.cost);
                self.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
            }
        }
        outcome_of(answer)
    }
}

fn outcome_of(answer: &Result<ChargeResults, StoreError>) -> LateOutcome {
    match answer {
        Ok(results) if results.iter().any(|result| result.charged) => LateOutcome::Charged,
        Err(error) if error.may_have_charged() => LateOutcome::Lost,
        _ => LateOutcome::NotCharged,
    }
}
