//! Settlements and releases: corrections of a call after its decision.
//!
//! A settlement charges or refunds the difference between the requested and the real cost, under every rule that goes
//! by the call's own cost. A release frees the slots of `concurrency` rules; the store knows a slot by the request of
//! its call, or by the instant of its decision, and the agent that has not told the store of it yet, by its call.
//!
//! Both name the decision, and are made once: the store knows their requests by [`DecidedCall::correction`], whichever
//! agents they come through. An agent that corrects a call without the store remembers the correction (`Corrections`)
//! until the store learns of it: a refund with the units that it refunds, by `backfill`. Until then, another agent may make
//! the same refund again. Settlements without a decision charge at most one quota in a window (`UnnamedSettlements`).
//!
//! Under `consistency: eventual`, no store knows the units: the agent corrects its own usage, and the aggregator the
//! count. A repetition at another agent is made again.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CallCorrection, Charge, ChargeMode, ChargeResult, RequestId, StoreError};
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::decision::{LimitStatus, Source};
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::MatchScope;

use crate::call::decide::verdicts_of;
use crate::call::match_rules::{ShadowedRules, has_place};
use crate::call::planned_call::combine_enforced;
use crate::call::record::{CallRow, signed};
use crate::counters::{Pending, PendingKind, ViewEvent, update};
use crate::engine::{Context, Engine};
use crate::rules::{Charges, MatchedRule, MatchedRules};
use crate::store::{ChargeAnswer, ChargeKind, ChargeStanding, ChargeTraits, Fate, fate};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Correction<'c> {
    /// Charges units, or refunds them if they are negative and the decision is known.
    Settle(i64, Option<&'c DecidedCall>),
    /// Refunds the cost of the call under rules that need no decision.
    Refund(MatchScope<'c>),
    /// Frees the slots of the call.
    Release(&'c DecidedCall),
}

#[derive(Debug)]
pub(crate) struct Adjustment<'a> {
    pub(crate) number: u64,
    /// Rules concerned, for which the store is asked.
    pub(crate) matched: MatchedRules<'a>,
    is_refund: bool,
    /// Kind of the correction, if it returns all units of a call that has an id.
    whole: Option<CallCorrection>,
    /// Request by which the correction is made once, if it names a decision.
    pub(crate) request: Option<RequestId>,
    /// Identifier of the unsynced units of the call, if this agent may have them.
    unsynced: Option<RequestId>,
    /// Instant of the decision that is corrected, or the end of time if no other decision is corrected under the same request.
    decided_at: Timestamp,
}

impl Correction<'_> {
    /// Returns the units that a rule is charged or refunded for a call of this cost; 0 if it is not concerned.
    fn units_of(&self, matched: &MatchedRule<'_>, cost: u64) -> u64 {
        let quota = matched.policy.units_over_regions();
        match *self {
            Self::Release(_) if matched.is_slot() => matched.cost,
            Self::Release(_) => 0,
            Self::Settle(..) | Self::Refund(_) if matched.is_slot() || !matched.rule.goes_by_call_cost() => 0,
            Self::Refund(_) => cost.min(if matched.rule.refunds { quota } else { 0 }),
            Self::Settle(units, decided) if units.is_negative() => {
                units.unsigned_abs().min(decided.map_or(0, DecidedCall::units))
            }
            Self::Settle(units, _) => units.unsigned_abs().min(quota),
        }
    }
}

impl Engine {
    /// Begins a correction. While the store is unavailable, units that it was never told about are refunded at once.
    /// Otherwise they travel to the store with their refund.
    pub(crate) fn begin_adjustment<'a>(
        &self,
        context: &Context<'a>,
        call: &Call<'_>,
        correction: Correction<'_>,
    ) -> (Charges, Adjustment<'a>) {
        let (order, key) = (context.active.order, &self.settings.digest_key);
        let (settled, decided, scope) = match correction {
            Correction::Settle(units, decided) => (Some(units), decided, MatchScope::default()),
            Correction::Refund(scope) => (Some(-signed(call.cost())), None, scope),
            Correction::Release(decided) => (None, Some(decided), MatchScope::default()),
        };
        let is_refund = settled.is_none_or(i64::is_negative);
        let decided_refund = decided.filter(|_| is_refund);
        let at = decided_refund.map_or(context.bounds.latest, DecidedCall::at);
        let kind = if settled.is_some() { CallCorrection::Settlement } else { CallCorrection::Release };
        let request = decided.map(|decided| decided.correction(key, kind));
        let unsynced = decided.and_then(|decided| self.ids.unsynced_of(decided));
        let units_max = decided.map_or(0, DecidedCall::units);
        let is_whole = settled.is_none_or(|units| units.unsigned_abs() >= units_max);
        // Nothing of the charge is left: a retry of the call is another call.
        let whole = (is_whole && decided.is_some_and(|decided| decided.request().is_some())).then_some(kind);
        let (mut matched, mut shadowed) = (MatchedRules::new(), ShadowedRules::new());
        // The store part of a correction may fail and be repeated, after the part under `eventual` was made.
        let eventual_request = request.map(|request| request.after(1));
        // A call is settled once. Its slots may be held and released again under its request.
        let decided_at = if settled.is_none() { at } else { Timestamp::from_ms(u64::MAX) };
        let is_repeated = self.store.is_corrected(request, decided_at);
        let is_repeated_eventual = self.store.is_corrected(eventual_request, decided_at);
        if is_repeated || self.match_call(context, call, scope, true, &mut matched, &mut shadowed).is_err() {
            matched.clear();
        }
        for (position, matched) in matched.iter_mut().enumerate() {
            let now = context.bounds_of(matched.primary).latest;
            matched.at = decided_refund.map_or(now, |decided| decided.counted_at(position));
        }
        let mut table = self.counters.lock(matched.iter().map(|matched| matched.counter));
        let have_places: SmallVec<[bool; 8]> =
            matched.iter().map(|matched| has_place(context, &mut table, matched)).collect();
        drop(table);
        let mut adjustment = Adjustment {
            number: self.ids.next(),
            matched: MatchedRules::new(),
            is_refund,
            whole,
            request,
            unsynced,
            decided_at,
        };
        let mut charges = Charges::new();
        for (matched, has_place) in matched.into_iter().zip(have_places) {
            let mut units = correction.units_of(&matched, call.cost());
            if let Correction::Settle(_, None) = correction {
                units = self.store.take_unnamed(&matched, units, context.now);
            }
            if units == 0 {
                continue;
            }
            if !has_place {
                // A sketch takes units, and gives none back: they may be those of another caller.
                if !is_refund {
                    let _ = self.charge_sketch(context, &matched, units, true);
                    self.publish(context, call, Some(matched.charged_counter()), adjustment.row(&matched, units), None);
                }
            } else if self.is_eventual(&matched.policy) {
                if !is_repeated_eventual {
                    self.store.note_corrected(eventual_request, decided_at);
                    self.adjust_eventual(context, call, &matched, &adjustment, units);
                }
            } else if is_refund
                && self.store.breaker(matched.primary).is_open()
                && self.refund_unsynced(&matched, &adjustment, units)
            {
                self.store.note_corrected(request, decided_at);
                self.publish(context, call, Some(matched.charged_counter()), adjustment.row(&matched, units), None);
            } else {
                let at = matched.at;
                let mode = if is_refund { ChargeMode::Refund { at, whole } } else { ChargeMode::Backfill { at } };
                charges.push(Charge { request, ..matched.charge(order, units, mode) });
                adjustment.matched.push(matched);
            }
        }
        (charges, adjustment)
    }

    /// Finishes a correction; returns the status of the tightest rule afterwards. Units that were used are charged later if
    /// the store did not answer; units that were to be refunded are refunded in the view only.
    pub(crate) fn finish_adjustment(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        adjustment: &Adjustment<'_>,
        charges: &[Charge],
        answers: &[ChargeAnswer],
    ) -> Result<Option<LimitStatus>, StoreError> {
        let Adjustment { matched, is_refund, request, decided_at, .. } = adjustment;
        let error = answers.iter().find_map(|answer| answer.err());
        let fate_of = |error: StoreError| {
            fate(ChargeKind::Counted, ChargeStanding::Counts, error.into(), ChargeTraits::of(*request))
        };
        if error.is_some() && !is_refund {
            self.store.note_corrected(*request, *decided_at);
        }
        for ((matched, charge), answer) in matched.iter().zip(charges).zip(answers) {
            let result = answer.as_ref().ok();
            if result.is_some_and(|result| result.repeated) {
                continue;
            }
            let (at, units) = (matched.at, charge.cost);
            let row = adjustment.row(matched, units);
            let publish = || self.publish(context, call, Some(matched.charged_counter()), row, None);
            let round = (!is_refund || answer.is_ok()).then(publish).flatten();
            let is_unsynced = answer.is_err_and(|error| fate_of(error) == Fate::Backfill);
            let unsynced = is_unsynced.then(|| self.unsynced_units(adjustment.number, *request, at, units));
            let event = if *is_refund {
                // A slot is refunded once; a refund that overtakes its backfill finds no slot in the store. The caller of
                // any other refund learns that it failed, and may try again.
                let slots_of = adjustment.unsynced.filter(|_| matched.is_slot());
                ViewEvent::Refunded { at, units, slots_of, by_store: true }
            } else {
                let acknowledged = result.map(|result| self.store.acknowledgement(context.now, matched, result));
                ViewEvent::Admitted { at, units, is_planned: false, round, unsynced, acknowledged, is_demand: false }
            };
            if !self.settings.owns_table {
                self.store.update_counter(matched, context.active.order, event);
            }
        }
        if let Some(error) = error.filter(|_| *is_refund) {
            return Err(error);
        }
        // Units without room were charged, too, and a verdict without room does not count them.
        let without_room = |mut result: ChargeResult| {
            if !result.verdict.admitted {
                result.verdict.remaining = 0;
            }
            result
        };
        let answered: SmallVec<[_; 2]> = answers.iter().map(|answer| answer.ok().map(without_room)).collect();
        let verdicts = verdicts_of(matched, &answered);
        let status = |shown: usize| {
            Some(matched[shown].status(context.active, charges[shown].cost, verdicts[shown]?, answered[shown]?.at))
        };
        Ok(combine_enforced(matched, &verdicts).shown.and_then(status))
    }

    /// Corrects the count of a rule that no store counts.
    fn adjust_eventual(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        matched: &MatchedRule<'_>,
        adjustment: &Adjustment<'_>,
        units: u64,
    ) {
        let row = adjustment.row(matched, units);
        let round = self.publish(context, call, Some(matched.charged_counter()), row, None);
        let (at, is_refund) = (matched.at, adjustment.is_refund);
        let event = if is_refund {
            ViewEvent::Refunded { at, units, slots_of: None, by_store: false }
        } else {
            ViewEvent::Admitted {
                at,
                units,
                is_planned: false,
                round,
                unsynced: None,
                acknowledged: None,
                is_demand: false,
            }
        };
        self.store.update_counter(matched, context.active.order, event);
    }

    /// Refunds units that the store was never told about; returns false if there are none. A slot is free at once. Other units
    /// reach the store with their refund, so that it knows the request of the refund when another agent repeats it. Units of
    /// one instant are interchangeable.
    fn refund_unsynced(&self, matched: &MatchedRule<'_>, adjustment: &Adjustment<'_>, units: u64) -> bool {
        let Adjustment { whole, request, unsynced, .. } = *adjustment;
        let at = matched.at;
        let Some(call) = unsynced else { return false };
        let slots_of = matched.is_slot().then_some(call);
        self.store.counting_unsynced(matched.counter, |view| {
            let is_unsynced =
                slots_of.map_or_else(|| view.holds_unsent(at, units), |call| view.holds_unsent_slots(call));
            if is_unsynced {
                update(&matched.policy, view, ViewEvent::Refunded { at, units, slots_of, by_store: false });
                if slots_of.is_none() {
                    let refund = Pending { id: request, at, units, kind: PendingKind::Returned { whole } };
                    update(&matched.policy, view, ViewEvent::Returned(refund));
                }
            }
            is_unsynced
        })
    }

    /// Gives back the slots that a denied call was charged at `at` by a rule in shadow, or beside a rule that is
    /// counted always. A denied call has no permit by which anybody could release them.
    pub(crate) fn give_back_slots(&self, context: &Context<'_>, matched: &MatchedRule<'_>, at: Timestamp) {
        let (generation, units) = (context.active.order, matched.cost);
        if self.settings.owns_table {
            let refund = matched.charge(generation, units, ChargeMode::Refund { at, whole: None });
            let _ = self.charge_own_table(context.now, &[refund]);
        } else {
            let refund = Pending::returned(at, units);
            self.store.update_counter(matched, generation, ViewEvent::Returned(refund));
        }
    }
}

impl Adjustment<'_> {
    pub(crate) fn into_owned(self) -> Adjustment<'static> {
        Adjustment { matched: self.matched.into_iter().map(MatchedRule::into_owned).collect(), ..self }
    }

    fn row(&self, matched: &MatchedRule<'_>, units: u64) -> CallRow {
        let cost = if self.is_refund { -signed(units) } else { signed(units) };
        CallRow::new(self.number, matched.at, cost, Outcome::Corrected, Source::Store)
    }
}
