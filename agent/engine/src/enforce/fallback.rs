//! Answers without the store: by signal while signals are fresh, by the rule's `on_failure` when nothing is.

use tollgate_core::algorithm::{Algorithm, CounterState, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::Estimate;

use super::{Authority, Facts, FreshSignals};
use crate::time_bounds::TimeBounds;
use crate::view::{CounterView, RemoteCount};

/// How long a caller waits whom only the return of the store can help, in ms.
const LOOK_AGAIN_MS: u64 = 1_000;

/// By a fresh signal: what all agents may admit beyond it is what it leaves free, in equal parts.
pub(crate) fn by_signal(
    policy: &LimitPolicy,
    seen: &mut CounterView,
    facts: &Facts,
    heard: &FreshSignals,
    cost: u64,
) -> Verdict {
    let now = facts.now;
    let quota = policy.quota.units();
    // A counter that was not signalled again since may hold anything below the threshold.
    let unsignalled = quota.saturating_mul(u64::from(heard.threshold_permille)) / 1_000;
    let told = seen.signal.as_ref().map_or(0, |told| used(told, policy, now.earliest));
    let free = quota.saturating_sub(told.max(unsignalled));
    let share = free / u64::from(facts.fleet.get());
    let spent = seen.own(policy).uncovered(&heard.covered, now.earliest, policy.window.width_ms());
    let left = share.saturating_sub(spent);
    let reset_at = seen.signal.as_ref().map_or(now.earliest, |told| falls_to(told, policy, 0, now.earliest));
    if let Some(remaining) = left.checked_sub(cost) {
        Verdict { admitted: true, remaining, retry_at: now.earliest, reset_at, delay_ms: 0 }
    } else {
        let retry_at = next_sub_window(policy, now).max(now.earliest.plus_ms(1));
        Verdict { admitted: false, remaining: left, retry_at, reset_at: reset_at.max(retry_at), delay_ms: 0 }
    }
}

/// A signal of any age may deny while its ring alone still fills the window.
pub(crate) fn denied_by_old_signal(
    policy: &LimitPolicy,
    seen: &CounterView,
    now: TimeBounds,
    cost: u64,
) -> Option<Verdict> {
    let told = seen.signal.as_ref()?;
    let room = policy.quota.units().checked_sub(cost)?;
    // The window as late as it may be: what is still inside then is inside.
    let used = used(told, policy, now.latest);
    (used > room).then(|| Verdict {
        admitted: false,
        remaining: policy.quota.units().saturating_sub(used),
        retry_at: falls_to(told, policy, room, now.earliest),
        reset_at: falls_to(told, policy, 0, now.earliest),
        delay_ms: 0,
    })
}

/// By the rule's `on_failure`, from the agent's own admissions alone.
pub(crate) fn on_failure(policy: &LimitPolicy, seen: &mut CounterView, facts: &Facts, cost: u64) -> Verdict {
    let now = facts.now.earliest;
    let limit = match policy.on_failure {
        OnFailure::Open => {
            let own = seen.own(policy);
            let remaining = policy.quota.units().saturating_sub(own.used(now).saturating_add(cost));
            return Verdict { admitted: true, remaining, retry_at: now, reset_at: own.falls_to(0, now), delay_ms: 0 };
        }
        OnFailure::Closed => {
            let later = now.plus_ms(LOOK_AGAIN_MS);
            return Verdict { admitted: false, remaining: 0, retry_at: later, reset_at: later, delay_ms: 0 };
        }
        OnFailure::Share => policy.quota.units() / u64::from(facts.fleet.get()),
        OnFailure::Limit(quota) => quota.units(),
    };
    let own = seen.own(policy);
    let left = limit.saturating_sub(own.used(now));
    let reset_at = own.falls_to(0, now);
    match (left.checked_sub(cost), limit.checked_sub(cost)) {
        (Some(remaining), _) => Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 },
        (None, Some(room)) => {
            let retry_at = own.falls_to(room, now);
            Verdict { admitted: false, remaining: left, retry_at, reset_at, delay_ms: 0 }
        }
        // More than this agent's part: only the store's return can help.
        (None, None) => {
            let retry_at = now.plus_ms(LOOK_AGAIN_MS);
            Verdict { admitted: false, remaining: left, retry_at, reset_at: reset_at.max(retry_at), delay_ms: 0 }
        }
    }
}

/// A bucket passes no more at once, and a queue goes no faster, because the store is away: beside the window a meter of this
/// agent's part of rate and burst is spent. Only who is to admit all admits all.
pub(crate) fn paced(
    policy: &LimitPolicy,
    seen: &mut CounterView,
    facts: &Facts,
    cost: u64,
    verdict: Verdict,
) -> Verdict {
    let is_bucket = matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
    let alone = matches!(facts.authority, Authority::Fallback);
    let limit = match policy.on_failure {
        _ if !is_bucket || !verdict.admitted => return verdict,
        OnFailure::Open if alone => return verdict,
        OnFailure::Limit(quota) if alone => policy.with_quota(quota).limit(),
        _ => {
            let part = |units: u64| (units / u64::from(facts.fleet.get())).max(1);
            let limit = policy.limit();
            Limit { units: part(limit.units), burst: part(limit.burst), ..limit }
        }
    };
    let meter = seen.alone.get_or_insert_with(|| Box::new(CounterState::new(&limit)));
    meter.fit(&limit);
    let now = meter.advance(facts.now.earliest).now;
    let by_meter = meter.evaluate(&limit, now, cost);
    if by_meter.admitted {
        meter.charge(now, cost);
        let remaining = verdict.remaining.min(by_meter.remaining);
        return Verdict { remaining, delay_ms: by_meter.delay_ms, ..verdict };
    }
    Verdict { reset_at: verdict.reset_at.max(by_meter.reset_at), ..by_meter }
}

fn used(told: &RemoteCount, policy: &LimitPolicy, now: Timestamp) -> u64 {
    told.admitted.used(now, estimate(policy))
}

fn falls_to(told: &RemoteCount, policy: &LimitPolicy, units: u64, now: Timestamp) -> Timestamp {
    told.admitted.falls_to(units, now, estimate(policy))
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
