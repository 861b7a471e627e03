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

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults, StoreError};
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::Generation;

use crate::call::{Adjustment, CallRow, PlannedCall, PlannedCalls, Sending, grant, signed};
use crate::counters::{Pending, ViewEvent};
use crate::engine::{Context, Engine};
use crate::report::LateOutcome;
use crate::request::store_request::{AskedOperation, AskedRequest, StoreRequest};
use crate::rules::{ActiveRules, MatchedRule};
use crate::store::{ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore, fate};

/// Maximum number of requests of one agent that wait for their late answers. Past the cap, a request counts as lost.
pub const LATE_REQUESTS_MAX: usize = 10_000;
/// Maximum time for which a late answer is awaited. After it, a request counts as lost: it has expired at the store.
pub const LATE_ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);

impl Engine {
    /// Takes the answer to a request that was finished without it, or the error that there will be none:
    /// [`StoreError::AnswerLost`].
    pub fn late_answer(&self, now: Timestamp, request: StoreRequest, answer: Result<ChargeResults, StoreError>) {
        let AskedRequest { active, calls, charges, carried, sent, is_deferred, mut pending, .. } = *request.0;
        self.store.note_time_of(sent.at, now, &answer);
        let (carried, charges) = charges.split_at(carried);
        let answer = answer.map(|results| self.learn(sent.at, carried, charges, &pending, results));
        let generation = active.order;
        let outcome = match &mut pending {
            AskedOperation::Check(planned) => {
                self.give_back_left(generation, planned);
                let context = Context { now, bounds: self.store_time(now), active: &active };
                let matched = planned.iter().flat_map(|planned| &planned.matched);
                matched.for_each(|matched| self.resolve_payment(&context, matched, false));
                if let Ok(results) = &answer {
                    self.take_back_repeated(&context, &calls, planned, charges, results);
                }
                self.late_check(now, &active, planned, charges, &answer, sent)
            }
            AskedOperation::Adjustment(adjustment) => self.late_adjustment(generation, adjustment, charges, &answer),
            AskedOperation::Reset(reset) => {
                // The operator knows that the store did not confirm the reset.
                let context = Context { now, bounds: self.store_time(now), active: &active };
                let _ = self.finish_reset(&context, &calls[0], reset, &answer);
                return;
            }
            // The units are sent again: under their ids, or to counters that have them already.
            AskedOperation::Backfill(_) | AskedOperation::Reopen(_) => return,
        };
        if !is_deferred {
            self.reports.metrics().late_answer(outcome);
        } else if let Err(error) = answer {
            self.reports.metrics().store_error(error);
            if matches!(error, StoreError::AnswerLost | StoreError::Unreachable) {
                // The server of the next connection may have lost the leased units.
                self.store.end_leases();
            }
        }
    }

    fn late_check(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        planned: &PlannedCalls<'_>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
        sent: Sending,
    ) -> LateOutcome {
        let generation = active.order;
        if let Ok(results) = answer {
            self.take_leases(now, active, planned, charges, results, sent);
        }
        let is_held_back = planned.iter().any(|planned| !planned.combined.allowed);
        let mut outcome = outcome_of(answer);
        for (place, charge) in charges.iter().enumerate() {
            let result = answer.as_ref().map(|results| results.get(place));
            let (kind, in_store) = (ChargeKind::of(charge), InStore::of(result.map_err(|error| *error)));
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
                        let unsynced = self.unsynced_of(planned, planned.at, lacking);
                        self.store.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
                    }
                    if let Ok(Some(result)) = result {
                        self.answered_late(active, matched, result);
                    }
                }
            }
            let (Ok(Some(result)), Some((number, matched))) = (result, rule) else { continue };
            let grant = grant(active, matched, number, charge, result, charge.cost, sent);
            let may_lease = matched.policy.may_lease() && self.is_lease_live(now, matched, &grant);
            let traits = ChargeTraits { may_lease, keeps_units: self.keeps_units(matched), ..traits };
            match fate(kind, standing, in_store, traits) {
                Fate::Lease => self.take_lease(matched, grant),
                Fate::Strand => grant.strand(),
                Fate::Refund => {
                    let refund = Pending::returned(result.at, charge.cost);
                    self.store.update_counter(matched, generation, ViewEvent::Returned(refund));
                    outcome = LateOutcome::Refunded;
                    continue;
                }
                _ => continue,
            }
            outcome = LateOutcome::Leased;
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
        results: &ChargeResults,
    ) {
        self.take_back_repeated(context, calls, planned, charges, results);
        let matched = || planned.iter().flat_map(|planned| &planned.matched).filter(|matched| matched.follows);
        for (charge, result) in charges.iter().zip(results) {
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
        results: &ChargeResults,
    ) {
        for (charge, _) in charges.iter().zip(results).filter(|(_, result)| result.repeated) {
            for (planned, call) in planned.iter().zip(calls) {
                for matched in planned.matched.iter().filter(|matched| matched.follows && matched.shares(charge)) {
                    let (at, units) = (planned.at, matched.cost);
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
        answer: &Result<ChargeResults, StoreError>,
    ) -> LateOutcome {
        let Err(error) = answer else { return outcome_of(answer) };
        let traits = ChargeTraits::of(adjustment.request);
        let fate = fate(ChargeKind::Counted, ChargeStanding::CountedBefore, (*error).into(), traits);
        for (matched, charge) in adjustment.matched.iter().zip(charges) {
            if let ChargeMode::Backfill { at } = charge.mode
                && fate == Fate::Backfill
            {
                let unsynced = self.unsynced_units(adjustment.number, adjustment.request, at, charge.cost);
                self.store.update_counter(matched, generation, ViewEvent::Unsynced(unsynced));
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
