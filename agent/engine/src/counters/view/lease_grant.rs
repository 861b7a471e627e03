//! The grant of leased units by the store, the time in which they may be spent, and the facts that decide it.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResult};
use tollgate_core::rules::{Generation, LimitPolicy};

use crate::report::RuleCounts;
use crate::time::{DRIFT_PPM, LeaseEpoch, TimeBounds};

/// Maximum time by which the agent's clock is read too late, in ms.
const READ_MS: u64 = 2;

/// Number of the call whose request brought a lease; unique in the life of an agent.
pub(crate) type LeaseNumber = u64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseFacts<'a> {
    pub(crate) policy: &'a LimitPolicy,
    pub(crate) generation: Generation,
    pub(crate) own_now: Timestamp,
    pub(crate) store_now: TimeBounds,
    pub(crate) epoch: LeaseEpoch,
}

/// Units that the store has charged to this agent without a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseGrant<'a> {
    pub(crate) number: LeaseNumber,
    pub(crate) charge: &'a Charge,
    pub(crate) result: &'a ChargeResult,
    pub(crate) units: u64,
    /// Agent's own time at which they were requested, and the epoch then.
    pub(crate) sent_at: Timestamp,
    pub(crate) epoch: LeaseEpoch,
    pub(crate) counts: &'a Arc<RuleCounts>,
}

impl LeaseGrant<'_> {
    /// Returns true if the units may still be spent at the agent's own `now`.
    pub(crate) fn is_live(&self, now: Timestamp, epoch: LeaseEpoch) -> bool {
        self.charge.limit.leases() && self.epoch == epoch && now < ends_at(self)
    }

    /// Counts units that ended before they could be spent.
    pub(crate) fn strand(&self) {
        self.counts.lease_units.add(self.units);
        self.counts.lease_units_stranded.add(self.units);
    }
}

/// Returns the last instant of store time at which a grant may be spent.
pub(super) fn last_at(grant: &LeaseGrant<'_>) -> Timestamp {
    let (ChargeResult { at, limit_until, .. }, window) = (*grant.result, grant.charge.limit.window);
    let last_at = window.end_of(window.sub_window(at));
    limit_until.map_or(last_at, |until| last_at.min(until.minus_ms(1)))
}

/// Returns the agent's own time from which the last instant of a grant may have passed. The store's clock reads whole
/// milliseconds.
pub(super) fn ends_at(grant: &LeaseGrant<'_>) -> Timestamp {
    let left_ms = last_at(grant).ms_since(grant.result.at);
    let drift_ms = (left_ms.saturating_mul(DRIFT_PPM)).div_ceil(1_000_000);
    grant.sent_at.plus_ms(left_ms.saturating_sub(drift_ms + READ_MS))
}
