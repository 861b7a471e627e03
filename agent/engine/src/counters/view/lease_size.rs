//! Size of a lease: the demand of the counter at this agent for as long as the lease lasts, and for a few seconds at most.

use std::num::NonZeroU32;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;

use super::demand::period_ms;
use super::local_usage::LocalUsage;
use crate::time::TimeBounds;

/// Largest part of the quota, in percent, that all agents may use while a lease may be as large as the demand. Unspent
/// leases are included.
const AMPLE_PERCENT: u128 = 85;
/// Standard deviations of the count that must be free as well.
const AMPLE_DEVIATIONS: u128 = 4;
/// Least ratio of the free units to the leases of all agents, while a lease of a sub-window that is longer than the demand is
/// observed may be as large as the demand.
const AMPLE_LEASES: u64 = 8;
/// Largest part of the quota that the leases of all agents may be, in percent: however the demand changes, no more is left unspent
/// in a sub-window, unless each agent has [`FEW_CALLS`].
const HELD_PERCENT: u64 = 3;
/// Number of calls for which an agent may hold a lease whatever its part of the quota.
const FEW_CALLS: u64 = 3;
/// Thousandths of a unit, in which demands are computed.
const MILLI: u128 = 1_000;
/// Least number of calls for which a lease may be as large as the demand, in thousandths. Of a smaller lease, too large
/// a part is never spent.
const CALLS_MIN: u128 = FEW_CALLS as u128 * MILLI;
/// Least number of calls in a period for which a lease is asked for near the quota.
const CALLS_MIN_NEAR_QUOTA: u128 = 15;

/// Returns the number of calls of this cost for which units may be leased, under this quota: the demand at this agent until the
/// lease ends. Where the counter is used up to its quota, a lease is two standard deviations smaller, so that it is nearly always
/// spent. Units that nobody spends are denied to other agents for a window. Arrivals are taken as a Poisson process.
///
/// A lease of a long sub-window is the demand of the next seconds, and is not lost at their end. So only the free units count.
///
/// No lease is asked for while the sub-window may be about to end, because the store might charge the demand of the
/// next one into it.
pub(super) fn lease_calls(
    policy: &LimitPolicy,
    quota: u64,
    local: &LocalUsage,
    now: TimeBounds,
    cost: u64,
    agents: NonZeroU32,
) -> u64 {
    let sub_window = policy.window.sub_window(now.latest);
    if !policy.may_lease() || policy.window.sub_window(now.earliest) != sub_window {
        return 0;
    }
    let now = now.latest;
    let (cost, period_ms) = (cost.max(1), period_ms(policy));
    let (admitted, observed_ms) = local.demand.lately(policy, now);
    let left_ms = policy.window.start_of(sub_window + 1).ms_since(now);
    let calls_max = (quota / u64::from(agents.get()) * HELD_PERCENT / 100 / cost).max(FEW_CALLS);
    let rest_ms = left_ms.min(period_ms);
    let over = |ms: u64| u128::from(admitted) * u128::from(ms) * MILLI / u128::from(observed_ms.max(1));
    let demand = over(rest_ms);
    if policy.window.sub_window_ms() > period_ms {
        let units = u64::try_from(demand / MILLI).unwrap_or(u64::MAX);
        let leases = units.saturating_mul(agents.get().into()).saturating_mul(AMPLE_LEASES);
        let is_ample = left_ms > period_ms && free_units(policy, quota, local, now).is_some_and(|free| free >= leases);
        return if is_ample { (units / cost).min(calls_max) } else { 0 };
    }
    // The variance of the arrivals, and of their number in the time that was observed.
    let calls = demand / u128::from(cost);
    let variance = calls + calls * u128::from(rest_ms) / u128::from(observed_ms.max(1));
    let deviation = (variance * MILLI).isqrt() * u128::from(cost);
    let units = match is_ample(policy, quota, local, now, cost) {
        true if calls >= CALLS_MIN => demand.div_ceil(MILLI),
        false if over(period_ms) < CALLS_MIN_NEAR_QUOTA * u128::from(cost) * MILLI => 0,
        _ => demand.saturating_sub(2 * deviation) / MILLI,
    };
    u64::try_from(units / u128::from(cost)).unwrap_or(u64::MAX).min(calls_max)
}

/// Returns the units of the quota that are free by the last answer of the store and the agent's own admissions; none if no answer
/// tells.
pub(super) fn free_units(policy: &LimitPolicy, quota: u64, local: &LocalUsage, now: Timestamp) -> Option<u64> {
    let known = local.store_count(policy, now)?;
    Some(quota.saturating_sub(known.units.saturating_add(known.since)))
}

/// Returns true if the counter is used far below its quota, by the count in the last answer of the store, and the
/// admissions of this agent before and after it. The count of a window that is not full yet is extrapolated, but that of
/// a sliding window not from its first sub-window alone. A count fluctuates, so a small quota needs a larger part of it
/// free, and so does a count of a short time.
fn is_ample(policy: &LimitPolicy, quota: u64, local: &LocalUsage, now: Timestamp, cost: u64) -> bool {
    let Some(known) = local.store_count(policy, now) else { return false };
    let is_fixed = policy.algorithm == Algorithm::FixedWindow;
    let window = if is_fixed { policy.window } else { local.ring.window() };
    let oldest =
        if is_fixed { Some(window.sub_window(now)) } else { local.ring.counts().next().map(|(oldest, _)| oldest) };
    let counted_ms = oldest.map_or(0, |oldest| now.ms_since(window.start_of(oldest)).min(window.width_ms()));
    let own = local.ring.used(now, policy.algorithm.estimate());
    let own_before = own.saturating_sub(known.since);
    if own_before == 0 || counted_ms == 0 || !is_fixed && counted_ms < window.sub_window_ms() {
        return false;
    }
    let counted = u128::from(known.units) * u128::from(own) / u128::from(own_before);
    let extrapolated = |units: u128| units * u128::from(window.width_ms()) / u128::from(counted_ms);
    let in_window = extrapolated(counted);
    let fluctuation = extrapolated(AMPLE_DEVIATIONS * (counted * u128::from(cost)).isqrt());
    in_window * 100 <= u128::from(quota) * AMPLE_PERCENT && in_window + fluctuation <= u128::from(quota)
}
