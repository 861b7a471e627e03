//! Size of a lease: the demand of the counter at this agent for as long as the lease lasts.

use std::num::NonZeroU32;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;
use tollgate_core::window::Estimate;

use super::local_usage::LocalUsage;
use crate::time_bounds::TimeBounds;

/// Largest part of the quota, in percent, that all agents may use while a lease may be as large as the demand. Unspent
/// leases are included.
const AMPLE_PERCENT: u128 = 85;
/// Thousandths of a unit, in which demands are computed.
const MILLI: u128 = 1_000;
/// Least number of calls for which a lease may be as large as the demand, in thousandths. Of a smaller lease, too large
/// a part is never spent.
const CALLS_MIN: u128 = 3_000;

/// Returns the units to lease beside a call of this cost, under this quota. They are the demand at this agent until the
/// sub-window ends, by its admissions since the last one began. Where the counter is used up to its quota, a lease is
/// two standard deviations smaller, so that it is nearly always spent. Units that nobody spends are denied to other
/// agents for a window. Arrivals are taken as a Poisson process.
///
/// No lease is asked for while the sub-window may be about to end, because the store might charge the demand of the
/// next one into it.
pub(super) fn lease_size(
    policy: &LimitPolicy,
    quota: u64,
    local: &LocalUsage,
    now: TimeBounds,
    cost: u64,
) -> Option<NonZeroU32> {
    let sub_window = policy.window.sub_window(now.latest);
    if !policy.may_lease() || policy.window.sub_window(now.earliest) != sub_window {
        return None;
    }
    let now = now.latest;
    let (window, cost, admitted) = (local.ring.window(), cost.max(1), local.admitted_lately(now));
    let observed_ms = window.sub_window_ms() + now.ms_since(window.start_of(window.sub_window(now)));
    let rest_ms = policy.window.start_of(sub_window + 1).ms_since(now);
    let demand = u128::from(admitted) * u128::from(rest_ms) * MILLI / u128::from(observed_ms.max(1));
    // The variance of the arrivals, and of their number in the time that was observed.
    let calls = demand / u128::from(cost);
    let variance = calls + calls * u128::from(rest_ms) / u128::from(observed_ms.max(1));
    let deviation = (variance * MILLI).isqrt() * u128::from(cost);
    let units = if calls >= CALLS_MIN && is_ample(quota, local, now) {
        demand.div_ceil(MILLI)
    } else {
        demand.saturating_sub(2 * deviation) / MILLI
    };
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    NonZeroU32::new(units).filter(|units| u64::from(units.get()) >= cost)
}

/// Returns true if the counter is used far below its quota, by the count in the last answer of the store, and the
/// admissions of this agent before and after it. The count of a window that is not full yet is extrapolated, but not
/// from the first sub-window alone.
fn is_ample(quota: u64, local: &LocalUsage, now: Timestamp) -> bool {
    let (Some(known), window) = (local.store_count(now), local.ring.window()) else { return false };
    let oldest = local.ring.counts().next().map_or(now, |(sub_window, _)| window.start_of(sub_window));
    let counted_ms = now.ms_since(oldest).min(window.width_ms());
    let own = local.ring.used(now, Estimate::Conservative);
    let own_before = own.saturating_sub(known.since);
    if own_before == 0 || counted_ms < window.sub_window_ms() {
        return false;
    }
    let counted = u128::from(known.units) * u128::from(own) / u128::from(own_before);
    let in_window = counted * u128::from(window.width_ms()) / u128::from(counted_ms);
    in_window * 100 <= u128::from(quota) * AMPLE_PERCENT
}
