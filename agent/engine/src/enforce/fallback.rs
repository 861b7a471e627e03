//! Verdicts without the store: by the signals while they are fresh, otherwise by the rule's `on_failure`.
//!
//! [`plan`](super::plan()) chooses among these functions by the authority.

use tollgate_core::algorithm::{Algorithm, CounterState, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::Estimate;

use super::{Authority, Facts, FreshSignals};
use crate::time_bounds::TimeBounds;
use crate::view::{CounterView, LocalUsage, RemoteCount};

/// `Retry-After` of a denial that only the return of the store can end, in ms.
const STORE_RETRY_MS: u64 = 1_000;

/// Decides by fresh signals: each agent may admit an equal part of the units that the signal leaves free.
pub(crate) fn by_signal(
    policy: &LimitPolicy,
    view: &CounterView,
    facts: &Facts,
    fresh: &FreshSignals,
    cost: u64,
) -> Verdict {
    let now = facts.now.earliest;
    let quota = policy.quota.units();
    // A counter without a newer signal may hold any count below the threshold.
    let unsignalled = quota.saturating_mul(u64::from(fresh.threshold_permille)) / 1_000;
    let remote = view.remote.as_ref().map_or(0, |remote| used(remote, policy, now));
    let share = facts.part.of(quota.saturating_sub(remote.max(unsignalled)));
    let spent = |local: &LocalUsage| local.uncovered.beyond(&fresh.covered, now, policy.window.width_ms());
    let left = share.saturating_sub(view.local.as_deref().map_or(0, spent));
    let reset_at = view.remote.as_ref().map_or(now, |remote| falls_to(remote, policy, 0, now));
    let next_sub_window = || policy.window.start_of(policy.window.sub_window(now) + 1);
    verdict(now, left, cost, reset_at, || next_sub_window().max(now.plus_ms(1)))
}

/// Returns a denial by a signal of any age whose count alone still fills the window.
pub(crate) fn denied_by_old_signal(
    policy: &LimitPolicy,
    view: &CounterView,
    now: TimeBounds,
    cost: u64,
) -> Option<Verdict> {
    let remote = view.remote.as_ref()?;
    let room = policy.quota.units().checked_sub(cost)?;
    // At the latest possible time: units that are still in the window then are in the window.
    let used = used(remote, policy, now.latest);
    (used > room).then(|| Verdict {
        admitted: false,
        remaining: policy.quota.units().saturating_sub(used),
        retry_at: falls_to(remote, policy, room, now.earliest),
        reset_at: falls_to(remote, policy, 0, now.earliest),
        delay_ms: 0,
    })
}

/// Decides by the rule's `on_failure`, from the local usage alone.
pub(crate) fn on_failure(policy: &LimitPolicy, view: &CounterView, facts: &Facts, cost: u64) -> Verdict {
    let now = facts.now.earliest;
    let store_retry_at = now.plus_ms(STORE_RETRY_MS);
    let admitted = view.admitted(policy);
    let used = admitted.as_ref().map_or(0, |ring| ring.used(now, Estimate::Conservative));
    let falls_to = |units| admitted.as_ref().map_or(now, |ring| ring.falls_to(units, now, Estimate::Conservative));
    let limit = match policy.on_failure {
        OnFailure::Open => {
            let remaining = policy.quota.units().saturating_sub(used.saturating_add(cost));
            return Verdict { admitted: true, remaining, retry_at: now, reset_at: falls_to(0), delay_ms: 0 };
        }
        OnFailure::Closed => {
            let (retry_at, reset_at) = (store_retry_at, store_retry_at);
            return Verdict { admitted: false, remaining: 0, retry_at, reset_at, delay_ms: 0 };
        }
        OnFailure::Share => facts.part.of(policy.quota.units()),
        OnFailure::Limit(quota) => quota.units(),
    };
    // More than this agent's part: only the store's return can end the denial.
    let retry_at = || limit.checked_sub(cost).map_or(store_retry_at, falls_to);
    verdict(now, limit.saturating_sub(used), cost, falls_to(0), retry_at)
}

/// Returns the limit that paces admissions under a bucket: this agent's part of rate and burst. While the store is away, a
/// burst is no larger and a queue no faster. `on_failure: open` without signals admits everything.
pub(crate) fn pace(policy: &LimitPolicy, facts: &Facts) -> Option<Limit> {
    if !matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
        return None;
    }
    let is_alone = matches!(facts.authority, Authority::Fallback);
    match policy.on_failure {
        OnFailure::Open if is_alone => None,
        OnFailure::Limit(quota) if is_alone => Some(policy.with_quota(quota).limit()),
        _ => {
            let part = |units: u64| facts.part.of(units).max(1);
            let limit = policy.limit();
            Some(Limit { units: part(limit.units), burst: part(limit.burst), ..limit })
        }
    }
}

/// Holds an admission to the limit that paces it.
pub(crate) fn paced(limit: &Limit, view: &CounterView, now: Timestamp, cost: u64, verdict: Verdict) -> Verdict {
    let mut meter = view.pace.as_deref().map_or_else(|| CounterState::new(limit), CounterState::clone);
    let by_meter = meter.step(limit, now, cost);
    if by_meter.admitted {
        let remaining = verdict.remaining.min(by_meter.remaining);
        return Verdict { remaining, delay_ms: by_meter.delay_ms, ..verdict };
    }
    Verdict { reset_at: verdict.reset_at.max(by_meter.reset_at), ..by_meter }
}

/// Returns the verdict on `cost` units of which `left` are free.
fn verdict(now: Timestamp, left: u64, cost: u64, reset_at: Timestamp, retry_at: impl FnOnce() -> Timestamp) -> Verdict {
    if let Some(remaining) = left.checked_sub(cost) {
        return Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 };
    }
    let retry_at = retry_at();
    Verdict { admitted: false, remaining: left, retry_at, reset_at: reset_at.max(retry_at), delay_ms: 0 }
}

fn used(remote: &RemoteCount, policy: &LimitPolicy, now: Timestamp) -> u64 {
    remote.admitted.used(now, estimate(policy))
}

fn falls_to(remote: &RemoteCount, policy: &LimitPolicy, units: u64, now: Timestamp) -> Timestamp {
    remote.admitted.falls_to(units, now, estimate(policy))
}

fn estimate(policy: &LimitPolicy) -> Estimate {
    match policy.algorithm {
        Algorithm::SlidingWindow(estimate) => estimate,
        Algorithm::FixedWindow => Estimate::Ignored,
        Algorithm::TokenBucket | Algorithm::LeakyBucket => Estimate::Interpolated,
        Algorithm::SlidingLog | Algorithm::Concurrency => Estimate::Conservative,
    }
}
