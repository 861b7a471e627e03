//! The view of one counter: a cached denial, a lease, the agent's local usage, its unsynced units, the count of the
//! latest signal, and the pace of a bucket while the store is away.

use std::borrow::Cow;
use std::num::NonZeroU32;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::RequestId;
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::{Ring, Window};

use super::cached_denial::CachedDenial;

use super::flow::Flow;
use super::lease::{LeasedCall, TakenUnits};
use super::lease_grant::LeaseFacts;
use super::lease_or_pace::LeaseOrPace;
use super::lease_size::{free_units, lease_calls};
use super::local_usage::LocalUsage;
use super::pending::{PendingCharges, PendingSize};
use super::signal_parts::SignalParts;
use super::store_count::CountedUnits;
use crate::time::TimeBounds;

#[derive(Clone, Debug, Default)]
pub(crate) struct CounterView {
    pub(in crate::counters) denial: Option<CachedDenial>,
    pub(in crate::counters) local: Option<Box<LocalUsage>>,
    pub(in crate::counters) lease_or_pace: LeaseOrPace,
    /// Units that the store does not know, and units that it must give back. They are kept as long as the counter is in
    /// the queue of unsynced counters or in a backfill request. They are empty if all were confirmed or refunded
    /// meanwhile.
    pub(super) pending: Option<Box<PendingCharges>>,
    pub(in crate::counters) remote: Option<Box<RemoteCount>>,
}

#[derive(Clone, Debug)]
pub(crate) struct RemoteCount {
    pub(crate) admitted: Ring,
    /// Instant of the newest charge that is counted.
    pub(crate) newest_at: Timestamp,
    /// Instant of the newest charge that the store has acknowledged; time 0 if none is known. It ends with the next
    /// signal, and says nothing about a counter that the store has re-based since.
    pub(crate) charged_at: Timestamp,
    pub(crate) flow: Flow,
    /// Of a strict counter. They outlive the signal.
    pub(crate) parts: SignalParts,
}

impl CounterView {
    /// Returns the units that the agent admitted in the window in which the policy's `on_failure` looks back.
    pub(crate) fn admitted(&self, policy: &LimitPolicy) -> Option<Cow<'_, Ring>> {
        let (ring, window) = (&self.local.as_ref()?.ring, look_back(policy));
        Some(if ring.window() == window { Cow::Borrowed(ring) } else { Cow::Owned(ring.carried_to(window)) })
    }

    /// Returns the local usage over that window. Units move to the end of their sub-window if the window has changed,
    /// so that none leaves too early.
    pub(super) fn local(&mut self, policy: &LimitPolicy) -> &mut LocalUsage {
        let window = look_back(policy);
        let local = self.local.get_or_insert_with(|| Box::new(LocalUsage::new(window)));
        if local.ring.window() != window {
            local.ring = local.ring.carried_to(window);
            // The store may have dropped the counter by the other window.
            local.acknowledged = Timestamp::default();
        }
        local
    }

    /// Returns the quota by which the agent gives answers of the store. For a global rule, it is the quota of the last
    /// answer.
    #[inline]
    pub(crate) fn quota(&self, policy: &LimitPolicy) -> u64 {
        let answered = policy.global_quota.and(self.local.as_deref()).map(LocalUsage::limit);
        answered.unwrap_or_else(|| policy.quota.units())
    }

    pub(crate) fn denial(&self) -> Option<&CachedDenial> {
        self.denial.as_ref()
    }

    /// Returns the instant of the newest charge that the last signal counts.
    pub(crate) fn signalled_through(&self) -> Option<Timestamp> {
        self.remote.as_ref().map(|remote| remote.newest_at)
    }

    /// Returns the units of the store's last answer that are still in the window.
    pub(crate) fn store_count(&self, policy: &LimitPolicy, now: Timestamp) -> Option<CountedUnits> {
        self.local.as_ref()?.store_count(policy, now)
    }

    /// Returns the part of a call of this cost that a lease pays, unless the store lacks units of the counter.
    #[inline]
    pub(crate) fn leased(&self, facts: &LeaseFacts<'_>, cost: u64) -> Option<LeasedCall> {
        let lease = self.lease_or_pace.lease().filter(|_| self.pending.is_none())?;
        lease.pays(facts, cost)
    }

    /// Returns true if the lease from which these units were taken can be spent.
    pub(crate) fn holds_lease_of(&self, taken: &TakenUnits, facts: &LeaseFacts<'_>) -> bool {
        self.lease_or_pace.lease().is_some_and(|lease| lease.is_live_of(taken, facts))
    }

    /// Returns the units of a lease that can be spent.
    pub(crate) fn leased_units(&self, facts: &LeaseFacts<'_>) -> u64 {
        self.leased(facts, u64::MAX).map_or(0, |leased| leased.units)
    }

    pub(crate) fn ask_store(&mut self, own_now: Timestamp, now: TimeBounds) {
        if let Some(denial) = &mut self.denial {
            denial.ask(own_now, now);
        }
    }

    /// Returns the number of calls of this cost, beside one that asks the store, for which units may be leased: their demand, and
    /// at most this agent's part of the units that are free. It is 0 while a request for units is under way.
    pub(crate) fn leasable_calls(&self, facts: &LeaseFacts<'_>, cost: u64, agents: NonZeroU32) -> u64 {
        let LeaseFacts { policy, store_now, own_now, .. } = *facts;
        let is_free = self.pending.is_none() && self.lease_or_pace.lease().is_none_or(|lease| lease.may_ask(own_now));
        let Some(local) = self.local.as_deref().filter(|_| is_free) else { return 0 };
        let (quota, cost) = (self.quota(policy), cost.max(1));
        let calls = lease_calls(policy, quota, local, store_now, cost, agents);
        let part = |free: u64| free.saturating_sub(cost) / u64::from(agents.get()) / cost;
        calls.min(free_units(policy, quota, local, store_now.latest).map_or(u64::MAX, part))
    }

    /// Notes that units are asked for.
    pub(crate) fn ask_lease(&mut self, policy: &LimitPolicy, own_now: Timestamp) {
        self.lease_or_pace.lease_or_new().ask(own_now, policy.deadline);
    }

    /// Returns true if the counter is in the queue of unsynced counters, or in a backfill request.
    pub(crate) fn is_queued(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        self.pending.as_ref().is_some_and(|unsynced| unsynced.has_units())
    }

    /// Counts the unspent units of a lease that is over at `now`, the earliest that the store's time may be.
    pub(crate) fn count_stranded(&mut self, now: Timestamp) {
        self.lease_or_pace.lease_mut().into_iter().for_each(|lease| lease.count_stranded(now));
    }

    pub(crate) fn pending_size(&self) -> PendingSize {
        self.pending.as_ref().map_or(PendingSize::default(), |unsynced| unsynced.size())
    }

    /// Returns true if a call can carry all units that the store does not know.
    pub(crate) fn may_ask_store(&self) -> bool {
        self.pending.as_ref().is_none_or(|unsynced| unsynced.fits_in_call())
    }

    /// Returns true if units of exactly this instant were admitted and never sent to the store.
    pub(crate) fn holds_unsent(&self, at: Timestamp, units: u64) -> bool {
        self.pending.as_ref().is_some_and(|unsynced| unsynced.holds_unsent(at, units))
    }

    /// Returns true if a call holds slots that were never sent to the store.
    pub(crate) fn holds_unsent_slots(&self, call: RequestId) -> bool {
        self.pending.as_ref().is_some_and(|unsynced| unsynced.holds_unsent_slots(call))
    }

    /// Returns true if nothing here matters any more. The place of a counter is kept for longer than a cached denial.
    pub(crate) fn is_idle_at(&self, now: Timestamp) -> bool {
        !self.is_queued()
            && self.local.as_ref().is_none_or(|local| local.ring.is_empty_at(now))
            && self.remote.as_ref().is_none_or(|remote| remote.admitted.is_empty_at(now))
            && self.lease_or_pace.pace().is_none_or(|pace| pace.is_idle_at(now))
            && self.lease_or_pace.lease().is_none_or(|lease| lease.is_over_at(now))
    }
}

fn look_back(policy: &LimitPolicy) -> Window {
    match policy.on_failure {
        OnFailure::Limit(quota) => Window::with_default_sub_windows(quota.width_ms()).unwrap_or(policy.window),
        _ => policy.window,
    }
}
