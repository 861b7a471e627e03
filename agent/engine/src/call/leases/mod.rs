//! Leases of calls: which counters of a call ask for units, and what becomes of the units in an answer. Which units pay for a
//! call is in [`payments`], and the lease itself is in `view`.
//!
//! Only a call that is alone in its request and has no request id asks for units or spends them: another call could
//! hold it back, or an earlier attempt may have been charged.
//!
//! **Demand.** A lease is asked for only by a call that needs no step if all its counters hold units: each rule that can deny it
//! has leases. Such a call asks for the same number of calls on each counter: the smallest demand among them, and no more than a
//! counter that pays still holds. Units of other calls are no demand, because they could not be spent. So no counter is
//! charged for units that have no partner on the other counters.

pub(crate) mod payments;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, PrimaryIndex};
use tollgate_core::rules::LimitPolicy;

use crate::call::planned_call::PlannedCall;
use crate::counters::{Enforcement, LeaseFacts, LeaseGrant, LeaseNumber, LockedTable, Pending, ViewEvent, update};
use crate::engine::{Context, Engine};
use crate::rules::{ActiveRules, MatchedRule};
use crate::store::{ChargeAnswer, ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore, fate};
use crate::time::LeaseEpoch;

/// Sending of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending<'a> {
    /// Agent's own time.
    pub(crate) at: Timestamp,
    /// Destination of each charge.
    pub(crate) destinations: &'a [Destination],
}

/// Destination of a charge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Destination {
    pub(crate) primary: PrimaryIndex,
    /// Epoch of the leases that are asked for there.
    pub(crate) epoch: LeaseEpoch,
    /// True if the slot is on its way there. Then other calls may find the counter at its former primary.
    pub(crate) is_passing: bool,
}

/// Sending of one charge: the agent's own time, and the epoch of leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeSending {
    at: Timestamp,
    epoch: LeaseEpoch,
}

impl Sending<'_> {
    /// Returns the sending of the charge at a place.
    pub(crate) fn of(&self, place: usize) -> ChargeSending {
        let epoch = self.destinations.get(place).map_or_else(LeaseEpoch::default, |destination| destination.epoch);
        ChargeSending { at: self.at, epoch }
    }
}

impl Engine {
    #[inline]
    pub(crate) fn lease_facts<'a>(
        &self,
        context: &Context<'_>,
        primary: PrimaryIndex,
        policy: &'a LimitPolicy,
    ) -> LeaseFacts<'a> {
        LeaseFacts {
            policy,
            generation: context.active.order,
            own_now: context.now,
            store_now: context.bounds_of(primary),
            epoch: self.store.lease_epoch(primary),
        }
    }

    pub(crate) fn take_leases(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        planned: &[PlannedCall<'_>],
        charges: &[Charge],
        answers: &[ChargeAnswer],
        sent: Sending<'_>,
    ) {
        for (place, (charge, answer)) in charges.iter().zip(answers).enumerate() {
            let (ChargeMode::Lease { .. }, Ok(result)) = (charge.mode, answer) else { continue };
            let of_charge =
                |planned: &PlannedCall<'_>| planned.matched.iter().position(|matched| matched.shares(charge));
            if let Some((planned, position)) = planned.iter().find_map(|planned| Some((planned, of_charge(planned)?))) {
                let matched = &planned.matched[position];
                let grant = grant(active, matched, planned.number, (charge, result), result.leased, sent.of(place));
                // Units beside a call stand for none. Where such units exist, none comes back.
                let may_lease = self.is_lease_live(now, matched, &grant);
                let traits = ChargeTraits { may_lease, keeps_units: true, ..ChargeTraits::default() };
                match fate(ChargeKind::Enforced, ChargeStanding::VoidBefore, InStore::Charged, traits) {
                    Fate::Lease => self.take_lease(matched, grant),
                    _ => grant.strand(),
                }
            }
        }
    }

    /// Notes that the units of a call are demand for leases, if each rule that can deny it has leases. A counter that
    /// lacks units in the store has none until then.
    pub(crate) fn note_demand(&self, matched: &mut [MatchedRule<'_>], table: &mut LockedTable<'_>) {
        let may_lease = |matched: &MatchedRule<'_>, table: &mut LockedTable<'_>| {
            let is_local = matched.sketched.is_some() || self.is_eventual(&matched.policy);
            let may_lease = matched.enforcement == Enforcement::Normal && matched.policy.may_lease();
            is_local || matched.may_follow(false) || may_lease && !table.view(matched.counter).is_queued()
        };
        if matched.iter().all(|matched| may_lease(matched, table)) {
            for matched in matched.iter_mut() {
                matched.is_demand = !matched.never_denies();
            }
        }
    }

    /// Sets the units that a call asks for beside its own: for the same number of calls on each counter.
    pub(crate) fn want_leases(
        &self,
        context: &Context<'_>,
        matched: &mut [MatchedRule<'_>],
        table: &mut LockedTable<'_>,
    ) {
        let agents = self.fleet.size();
        let leases = |matched: &MatchedRule<'_>| {
            matched.is_demand && matched.sketched.is_none() && !self.is_eventual(&matched.policy)
        };
        let mut calls = u64::MAX;
        for matched in matched.iter().filter(|matched| leases(matched)) {
            let facts = self.lease_facts(context, matched.primary, &matched.policy);
            let view = table.view(matched.counter);
            calls = calls.min(if matched.is_paid() {
                view.leased_units(&facts) / matched.cost.max(1)
            } else {
                view.leasable_calls(&facts, matched.cost, agents)
            });
        }
        if calls == 0 || calls == u64::MAX {
            return;
        }
        for matched in matched.iter_mut().filter(|matched| leases(matched) && !matched.is_paid()) {
            let facts = self.lease_facts(context, matched.primary, &matched.policy);
            let view = table.view(matched.counter);
            let units = calls.saturating_mul(matched.cost).saturating_sub(view.leased_units(&facts));
            matched.wanted = NonZeroU32::new(u32::try_from(units).unwrap_or(u32::MAX));
            if matched.wanted.is_some() {
                view.ask_lease(&matched.policy, context.now);
            }
        }
    }

    /// Returns true if leased units can be spent.
    pub(crate) fn is_lease_live(&self, now: Timestamp, matched: &MatchedRule<'_>, grant: &LeaseGrant<'_>) -> bool {
        !matched.is_passing
            && grant.is_live(now, self.store.lease_epoch(matched.primary))
            && self.store.resets().after(now, matched.counter, grant.result.at).is_none()
    }

    /// Does what is to be done with the units of a charge that stand for no call, and returns what it was.
    pub(crate) fn dispose(
        &self,
        context: &Context<'_>,
        matched: &MatchedRule<'_>,
        standing: ChargeStanding,
        charge: &Charge,
        grant: LeaseGrant<'_>,
    ) -> Fate {
        let (result, units) = (grant.result, charge.cost);
        let traits = ChargeTraits {
            may_lease: matched.policy.may_lease() && self.is_lease_live(context.now, matched, &grant),
            keeps_units: self.keeps_units(matched),
            ..ChargeTraits::of(charge.request)
        };
        let fate = fate(ChargeKind::of(charge), standing, InStore::of(Ok(Some(result))), traits);
        match fate {
            Fate::Lease => self.take_lease(matched, grant),
            Fate::Strand => grant.strand(),
            Fate::Refund => {
                let refund = ViewEvent::Returned(Pending::returned(result.at, units));
                self.store.update_counter(matched, context.active.order, refund);
            }
            _ => {}
        }
        fate
    }

    /// Takes leased units.
    pub(crate) fn take_lease(&self, matched: &MatchedRule<'_>, grant: LeaseGrant<'_>) {
        let event = ViewEvent::LeaseGranted(grant);
        let is_denied = self.counters.with(matched.counter, |view| {
            update(&matched.policy, view, event);
            view.denial().is_some()
        });
        // The units are for calls whose cost the store has denied before, too.
        if is_denied {
            self.counters.end_denials(matched.counter);
        }
    }

    /// Returns true if no agent gives units of the rule's counters back: see [`MatchedRule::keeps_units`].
    pub(crate) fn keeps_units(&self, matched: &MatchedRule<'_>) -> bool {
        // Other stores charge a call in several steps, and take some of them back.
        self.settings.store.has_one_step() && matched.keeps_units()
    }
}

/// Returns units that the store has charged beside a call, or for one that does not need them, as a grant of a lease.
pub(crate) fn grant<'a>(
    active: &'a ActiveRules,
    matched: &MatchedRule<'_>,
    number: LeaseNumber,
    (charge, result): (&'a Charge, &'a ChargeResult),
    units: u64,
    sent: ChargeSending,
) -> LeaseGrant<'a> {
    let counts = &active.counts[matched.index];
    LeaseGrant { number, charge, result, units, sent_at: sent.at, epoch: sent.epoch, counts }
}
