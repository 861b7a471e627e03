//! The changes of a view: one function per way in which the agent learns about a counter.
//!
//! [`update`] applies an event after a decision, a correction, a backfill or a signal. [`update_in_step`] applies the result of
//! a charge; with counts in the engine's own table, under the same lock as the charge.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, RequestId};
use tollgate_core::messages::signals::Signal;
use tollgate_core::rules::LimitPolicy;
use tollgate_core::window::Estimate;

use super::acknowledgement::Acknowledgement;
use super::ageing::Ageing;
use super::cached_denial::CachedDenial;
use super::counter_view::{CounterView, RemoteCount};

use super::event::ViewEvent;
use super::lease::{Lease, TakenUnits};
use super::pending::{Pending, Unsynced};
use super::uncovered::{NOT_HANDED_OVER, RoundNumber};

pub(crate) fn update(policy: &LimitPolicy, view: &mut CounterView, event: ViewEvent<'_>) {
    match event {
        ViewEvent::Planned { now, at, cost, part, pace, covered } => {
            if let (Some(part), Some(remote)) = (part, view.remote.as_deref_mut()) {
                remote.parts.spend(now, part, cost);
            }
            let local = view.local(policy);
            local.uncovered.forget_covered(covered, now, policy.window.width_ms());
            local.admit(at, cost, Some(NOT_HANDED_OVER));
            if let Some(limit) = pace {
                view.lease_or_pace.pace_or_new(&limit).step(&limit, now, cost);
            }
        }
        ViewEvent::Answered { result, units, round, acknowledged, is_demand } => {
            answered(policy, view, result, (units, round), acknowledged, is_demand);
        }
        ViewEvent::Admitted { at, units, is_planned, round, unsynced, acknowledged, is_demand } => {
            let local = view.local(policy);
            if let Some(answer) = acknowledged {
                local.acknowledge(&answer);
            }
            if is_demand {
                local.demand.add(policy, at, units);
            }
            if is_planned {
                local.uncovered.published(at, units, round);
            } else {
                local.admit(at, units, round);
            }
            if let Some(unsynced) = unsynced {
                enter_unsynced(policy, view, unsynced);
            }
        }
        ViewEvent::PublishedLater { at, units, entered, published } => {
            view.local(policy).uncovered.published_later(at, units, entered, published);
        }
        ViewEvent::TakenSpent(taken) => {
            view.lease_or_pace.lease_mut().into_iter().for_each(|lease| lease.taken_spent(&taken));
        }
        ViewEvent::TakenReturned(taken, facts, counts) => {
            let lease = view.lease_or_pace.lease_mut();
            if !lease.is_some_and(|lease| lease.give_back(&taken, &facts)) {
                counts.lease_units_stranded.add(taken.units);
            }
        }
        // The rules have changed since the lease was asked for.
        ViewEvent::LeaseGranted(grant) if view.lease_or_pace.pace().is_some() => grant.strand(),
        ViewEvent::LeaseGranted(grant) => view.lease_or_pace.lease_or_new().granted(&grant),

        ViewEvent::Lost => view.lease_or_pace.end_lease(),
        ViewEvent::Unsynced(unsynced) => enter_unsynced(policy, view, unsynced),
        ViewEvent::Returned(refund) => {
            end_denial(view);
            view.pending.get_or_insert_default().add_refund(refund);
        }
        ViewEvent::Refunded { at, units, slots_of, by_store } => {
            view.local(policy).refund(at, units);
            view.lease_or_pace.pace_mut().into_iter().for_each(|pace| pace.refund(at, units));
            if let (Some(call), Some(unsynced)) = (slots_of, view.pending.as_deref_mut()) {
                unsynced.remove_slots(call);
            }
            if by_store {
                view.denial = None;
            }
        }
        ViewEvent::LeavesQueue => drop(view.pending.take_if(|unsynced| unsynced.is_empty())),
        ViewEvent::Forgotten => view.pending = None,
        ViewEvent::Signal { signal, flow, latest } => {
            let Signal { newest_at, charged_at, .. } = *signal;
            let mut admitted = signal.admitted.clone();
            // Counts from before a step back of the store's clock.
            admitted.rebase(latest, Estimate::Conservative);
            let parts = view.remote.as_ref().map(|remote| remote.parts).unwrap_or_default();
            view.remote = Some(Box::new(RemoteCount { admitted, newest_at, charged_at, flow, parts }));
        }
    }
}

/// Enters an answer of the store: its count, and the units that it has charged now.
fn answered(
    policy: &LimitPolicy,
    view: &mut CounterView,
    result: &ChargeResult,
    (units, round): (u64, RoundNumber),
    acknowledged: Option<Acknowledgement>,
    is_demand: bool,
) {
    let leased = view.lease_or_pace.lease().map_or(0, Lease::unspent);
    let (local, verdict) = (view.local(policy), &result.verdict);
    if let Some(answer) = acknowledged {
        local.acknowledge(&answer);
    }
    if units > 0 {
        local.admit(result.at, units, round);
    }
    if is_demand {
        local.demand.add(policy, result.at, units);
    }
    // A global quota is the floor or more; what a lower one in the store leaves out counts as used.
    let at_once = policy.global_quota.map_or(0, |_| result.limit).max(policy.at_once());
    let used = at_once.saturating_sub(verdict.remaining);
    if matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
        local.answered_by_bucket(result.at, used, verdict.reset_at);
    } else {
        // A reserve is refilled for longer than its units are in the window.
        let left_at = result.at.plus_ms(policy.window.width_ms() + policy.window.sub_window_ms());
        local.answered(policy, result.at, used, leased, verdict.reset_at.min(left_at));
    }
    local.answered_by(result.limit);
}

/// Changes a view by the result of a charge: keeps a new denial, and drops the older one unless it outlasts the charge. Units that
/// were charged are [`ViewEvent::Admitted`]; the own table keeps no local usage, because nothing else ever decides there. `sent` is
/// the instant of the agent's own clock at which the charge was sent, and `keeps_units` tells if no unit of the counter ever comes back. Returns
/// true if a cached denial ended before its time.
#[inline]
pub(crate) fn update_in_step(
    view: &mut CounterView,
    charge: &Charge,
    result: &ChargeResult,
    sent: Timestamp,
    keeps_units: bool,
) -> bool {
    let was_live = view.denial.as_ref().is_some_and(|denial| denial.check_at() > sent);
    if !result.charged && !result.verdict.admitted {
        view.denial = Some(CachedDenial::new(charge, result, sent, keeps_units));
        return was_live;
    }
    // The units of a backfill that is sent again were taken at its first sending, whose answer was lost.
    if result.charged && (!result.repeated || matches!(charge.mode, ChargeMode::Backfill { .. })) {
        view.denial.take_if(|denial| !denial.outlasts(charge));
    }
    was_live && view.denial.is_none()
}

/// Changes a view by the only charge of a call, which its lease pays: the units are taken, spent and admitted in one step.
#[inline]
pub(crate) fn spend_lease(policy: &LimitPolicy, view: &mut CounterView, at: Timestamp, units: u64, round: RoundNumber) {
    if let Some(lease) = view.lease_or_pace.lease_mut() {
        lease.spend(units);
    }
    let local = view.local(policy);
    local.demand.add(policy, at, units);
    local.admit(at, units, round);
}

/// Takes units out of the lease for a call that is not decided yet.
pub(crate) fn take_leased(view: &mut CounterView, units: u64) -> Option<TakenUnits> {
    view.lease_or_pace.lease_mut()?.take(units)
}

fn enter_unsynced(policy: &LimitPolicy, view: &mut CounterView, unsynced: Unsynced) {
    if unsynced.units == 0 {
        return;
    }
    let (units, ageing) = (view.pending.get_or_insert_default(), Ageing::of(policy));
    if policy.algorithm == Algorithm::Concurrency {
        units.add_slots(unsynced, ageing);
    } else {
        units.add(unsynced, ageing);
    }
}

/// Returns the units that a call on the counter carries to the store: so many entries at most.
pub(crate) fn carry_pending(view: &mut CounterView, len_max: usize) -> impl Iterator<Item = &Pending> {
    view.pending.as_mut().into_iter().flat_map(move |unsynced| unsynced.send(len_max))
}

/// Returns the units that the maintenance sends to the store next, and those that the store must give back: so many at most.
pub(crate) fn send_pending(view: &mut CounterView, len_max: usize) -> Vec<Pending> {
    view.pending.as_mut().map(|unsynced| unsynced.send_next(len_max)).unwrap_or_default()
}

/// Drops units that were sent under this id: the store has charged them, or never will. Returns their number.
pub(crate) fn end_pending(view: &mut CounterView, id: RequestId) -> u64 {
    view.pending.as_mut().map_or(0, |unsynced| unsynced.end(id))
}

/// Drops the cached denial, because the store has given units back or may follow other rules.
pub(crate) fn end_denial(view: &mut CounterView) {
    view.denial = None;
}

/// Forgets all that a view knows of a counter from before it was emptied at `at`, in store time. It keeps a lease and unsynced units
/// of later instants. Slots are never emptied.
pub(crate) fn forget(view: &mut CounterView, at: Timestamp) {
    view.denial = None;
    view.lease_or_pace.end_before(at);
    (view.local, view.remote) = (None, None);
    view.pending.iter_mut().for_each(|unsynced| unsynced.forget_until(at));
}

/// Changes a view whose counter another primary holds now, as if the store's clock had stepped back by `by_ms` to `now`.
pub(crate) fn move_to_primary(view: &mut CounterView, by_ms: u64, now: Timestamp) {
    rebase(view, by_ms, now);
    view.remote.iter_mut().for_each(|remote| remote.charged_at = Timestamp::default());
}

/// Changes a view after the store's clock stepped back by `by_ms` to `now`. The pace follows by itself at its next
/// step, and the store enters unsynced units at its own time if theirs is later.
pub(crate) fn rebase(view: &mut CounterView, by_ms: u64, now: Timestamp) {
    view.denial = None;
    view.lease_or_pace.end_lease();
    view.local.iter_mut().for_each(|local| local.rebase(by_ms, now));
    view.remote.iter_mut().for_each(|remote| remote.admitted.rebase(now, Estimate::Conservative));
}
