//! Verdicts without the store: by the signals while they are fresh, otherwise by the rule's `on_failure`.
//!
//! [`plan`](super::plan()) chooses among these functions by the authority.

use tollgate_core::algorithm::{Algorithm, CounterState, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::Estimate;

use super::{Authority, Facts, FreshSignals};
use crate::time_bounds::TimeBounds;
use crate::view::{CounterView, RemoteCount};

/// `Retry-After` of a denial that only the return of the store can end, in ms.
const STORE_RETRY_MS: u64 = 1_000;

/// Decides by fresh signals: each agent may admit an equal part of the units that the signal leaves free.
pub(crate) fn by_signal(
    policy: &LimitPolicy,
    view: &mut CounterView,
    facts: &Facts,
    fresh: &FreshSignals,
    cost: u64,
) -> Verdict {
    let now = facts.now;
    let quota = policy.quota.units();
    // A counter without a newer signal may hold any count below the threshold.
    let unsignalled = quota.saturating_mul(u64::from(fresh.threshold_permille)) / 1_000;
    let remote = view.remote.as_ref().map_or(0, |remote| used(remote, policy, now.earliest));
    let free = quota.saturating_sub(remote.max(unsignalled));
    let share = free / u64::from(facts.fleet.get());
    let spent = view.local(policy).uncovered(&fresh.covered, now.earliest, policy.window.width_ms());
    let left = share.saturating_sub(spent);
    let reset_at = view.remote.as_ref().map_or(now.earliest, |remote| falls_to(remote, policy, 0, now.earliest));
    if let Some(remaining) = left.checked_sub(cost) {
        Verdict { admitted: true, remaining, retry_at: now.earliest, reset_at, delay_ms: 0 }
    } else {
        let retry_at = next_sub_window(policy, now).max(now.earliest.plus_ms(1));
        Verdict { admitted: false, remaining: left, retry_at, reset_at: reset_at.max(retry_at), delay_ms: 0 }
    }
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
pub(crate) fn on_failure(policy: &LimitPolicy, view: &mut CounterView, facts: &Facts, cost: u64) -> Verdict {
    let now = facts.now.earliest;
    let limit = match policy.on_failure {
        OnFailure::Open => {
            let local = view.local(policy);
            let remaining = policy.quota.units().saturating_sub(local.used(now).saturating_add(cost));
            return Verdict { admitted: true, remaining, retry_at: now, reset_at: local.falls_to(0, now), delay_ms: 0 };
        }
        OnFailure::Closed => {
            let later = now.plus_ms(STORE_RETRY_MS);
            return Verdict { admitted: false, remaining: 0, retry_at: later, reset_at: later, delay_ms: 0 };
        }
        OnFailure::Share => policy.quota.units() / u64::from(facts.fleet.get()),
        OnFailure::Limit(quota) => quota.units(),
    };
    let local = view.local(policy);
    let left = limit.saturating_sub(local.used(now));
    let reset_at = local.falls_to(0, now);
    match (left.checked_sub(cost), limit.checked_sub(cost)) {
        (Some(remaining), _) => Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 },
        (None, Some(room)) => {
            let retry_at = local.falls_to(room, now);
            Verdict { admitted: false, remaining: left, retry_at, reset_at, delay_ms: 0 }
        }
        // More than this agent's part: only the store's return can end the denial.
        (None, None) => {
            let retry_at = now.plus_ms(STORE_RETRY_MS);
            Verdict { admitted: false, remaining: left, retry_at, reset_at: reset_at.max(retry_at), delay_ms: 0 }
        }
    }
}

/// Holds an admission under a bucket to this agent's part of rate and burst: while the store is away, a burst is no larger and
/// a queue no faster. `on_failure: open` without signals admits everything.
pub(crate) fn paced(
    policy: &LimitPolicy,
    view: &mut CounterView,
    facts: &Facts,
    cost: u64,
    verdict: Verdict,
) -> Verdict {
    let is_bucket = matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
    let is_alone = matches!(facts.authority, Authority::Fallback);
    let limit = match policy.on_failure {
        _ if !is_bucket || !verdict.admitted => return verdict,
        OnFailure::Open if is_alone => return verdict,
        OnFailure::Limit(quota) if is_alone => policy.with_quota(quota).limit(),
        _ => {
            let part = |units: u64| (units / u64::from(facts.fleet.get())).max(1);
            let limit = policy.limit();
            Limit { units: part(limit.units), burst: part(limit.burst), ..limit }
        }
    };
    let meter = view.pace.get_or_insert_with(|| Box::new(CounterState::new(&limit)));
    let by_meter = meter.step(&limit, facts.now.earliest, cost);
    if by_meter.admitted {
        let remaining = verdict.remaining.min(by_meter.remaining);
        return Verdict { remaining, delay_ms: by_meter.delay_ms, ..verdict };
    }
    Verdict { reset_at: verdict.reset_at.max(by_meter.reset_at), ..by_meter }
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

fn next_sub_window(policy: &LimitPolicy, now: TimeBounds) -> Timestamp {
    policy.window.start_of(policy.window.sub_window(now.earliest) + 1)
}
