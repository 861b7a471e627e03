//! The view of one counter: a cached denial, a lease, the agent's local usage, its unsynced units, the count of the
//! latest signal, and the pace of a bucket while the store is away.

use std::borrow::Cow;
use std::num::NonZeroU32;

use tollgate_core::algorithm::CounterState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::RequestId;
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::{Ring, Window};

use super::cached_denial::CachedDenial;
use super::flow::Flow;
use super::lease::{Lease, LeaseFacts, LeasedCall};
use super::lease_size::lease_size;
use super::local_usage::LocalUsage;
use super::signal_budget::SignalBudget;
use super::store_count::KnownUnits;
use super::unsynced_units::{UnsyncedSize, UnsyncedUnits};
use crate::time_bounds::TimeBounds;

/// An agent's knowledge about one counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterView {
    pub(crate) denial: Option<CachedDenial>,
    pub(crate) local: Option<Box<LocalUsage>>,
    pub(super) lease: Option<Box<Lease>>,
    /// Units that the store does not know, and units that it must give back, as long as the counter is in the queue of
    /// unsynced counters or in a backfill request. They are empty if all were confirmed or refunded meanwhile.
    pub(super) unsynced: Option<Box<UnsyncedUnits>>,
    pub(crate) remote: Option<Box<RemoteCount>>,
    /// Meter of the units that the agent admitted from a bucket while the store was away.
    pub(crate) pace: Option<Box<CounterState>>,
}

/// The count of a counter in the latest signal.
#[derive(Clone, Debug)]
pub(crate) struct RemoteCount {
    /// Admitted units per sub-window.
    pub(crate) admitted: Ring,
    /// Instant of the newest charge that is counted.
    pub(crate) newest_at: Timestamp,
    /// Instant of the newest charge that the store has acknowledged; time 0 if none is known. It ends with the next
    /// signal, and says nothing about a counter that the store has re-based since.
    pub(crate) charged_at: Timestamp,
    /// Admissions by agent.
    pub(crate) flow: Flow,
    /// Budget of a strict counter. It outlives the signal.
    pub(crate) budget: SignalBudget,
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

    /// Returns what is left in the window of the count in the last answer of the store.
    pub(crate) fn store_count(&self, now: Timestamp) -> Option<KnownUnits> {
        self.local.as_ref()?.store_count(now)
    }

    /// Returns the admission of a call of this cost by a lease, unless the store lacks units of the counter.
    #[inline]
    pub(crate) fn leased(&self, facts: &LeaseFacts<'_>, cost: u64) -> Option<LeasedCall> {
        let lease = self.lease.as_ref().filter(|_| self.unsynced.is_none())?;
        lease.admits(facts, cost)
    }

    /// Notes that a call asks the store.
    pub(crate) fn ask_store(&mut self, own_now: Timestamp, now: TimeBounds) {
        if let Some(denial) = &mut self.denial {
            denial.ask(own_now, now);
        }
    }

    /// Returns the units to lease beside a call of this cost, if any are wanted and none are asked for yet.
    pub(crate) fn ask_lease(
        &mut self,
        policy: &LimitPolicy,
        now: TimeBounds,
        own_now: Timestamp,
        cost: u64,
    ) -> Option<NonZeroU32> {
        let units = lease_size(policy, self.local.as_ref()?, now, cost)?;
        self.lease.get_or_insert_default().ask(own_now, policy.deadline).then_some(units)
    }

    /// Returns true if the counter is in the queue of unsynced counters, or in a backfill request.
    pub(crate) fn is_queued(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Returns true if units were admitted that the store does not know.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.unsynced.as_ref().is_some_and(|unsynced| unsynced.has_units())
    }

    /// Returns the size of the units that were admitted and that the store does not know.
    pub(crate) fn unsynced_size(&self) -> UnsyncedSize {
        self.unsynced.as_ref().map_or(UnsyncedSize::default(), |unsynced| unsynced.size())
    }

    /// Returns true if a call can carry all units that the store does not know.
    pub(crate) fn may_ask_store(&self) -> bool {
        self.unsynced.as_ref().is_none_or(|unsynced| unsynced.fits_in_call())
    }

    /// Returns true if units of exactly this instant were admitted and never sent to the store.
    pub(crate) fn holds_unsent(&self, at: Timestamp, units: u64) -> bool {
        self.unsynced.as_ref().is_some_and(|unsynced| unsynced.holds_unsent(at, units))
    }

    /// Returns true if a call holds slots that were never sent to the store.
    pub(crate) fn holds_unsent_slots(&self, call: RequestId) -> bool {
        self.unsynced.as_ref().is_some_and(|unsynced| unsynced.holds_unsent_slots(call))
    }

    /// Returns true if nothing here matters any more. The place of a counter is kept for longer than a cached denial.
    pub(crate) fn is_idle_at(&self, now: Timestamp) -> bool {
        !self.is_queued()
            && self.local.as_ref().is_none_or(|local| local.ring.is_empty_at(now))
            && self.remote.as_ref().is_none_or(|remote| remote.admitted.is_empty_at(now))
            && self.pace.as_ref().is_none_or(|pace| pace.is_idle_at(now))
            && self.lease.as_ref().is_none_or(|lease| lease.is_over_at(now))
    }
}

fn look_back(policy: &LimitPolicy) -> Window {
    match policy.on_failure {
        OnFailure::Limit(quota) => Window::with_default_parts(quota.width_ms()).unwrap_or(policy.window),
        _ => policy.window,
    }
}
