//! The pace of a limit with a burst without the store: a meter holds the agent's admissions to its part of rate and
//! burst. While the store is away, a burst is no larger, it is refilled no sooner, and a queue is no faster. With the
//! window alone, all calls of a queue could leave at once. With the quota alone, a caller that has most of a burst left
//! would be denied.

use tollgate_core::algorithm::{Algorithm, CounterState, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{LimitPolicy, OnFailure};

use super::facts::{Authority, Facts};
use super::part;
use crate::counters::view::CounterView;

/// Returns the limit that paces admissions under a policy with a burst; none if `on_failure` is `open`.
pub(crate) fn pace(policy: &LimitPolicy, facts: &Facts, view: &CounterView) -> Option<Limit> {
    let has_reserve = matches!(policy.algorithm, Algorithm::SlidingWindow(_)) && policy.burst > 0;
    if !has_reserve && !matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
        return None;
    }
    match policy.on_failure {
        OnFailure::Open | OnFailure::Closed => None,
        OnFailure::Limit(quota) => Some(policy.with_quota(quota).limit()),
        OnFailure::Share => {
            let part = |units: u64| match facts.authority {
                Authority::Signals(_) => part::by_flow(policy, facts, view, units).max(1),
                _ => facts.part.of(units).max(1),
            };
            let limit = policy.limit();
            Some(Limit { units: part(limit.units), burst: part(limit.burst), ..limit })
        }
    }
}

pub(crate) fn paced(limit: &Limit, view: &CounterView, now: Timestamp, cost: u64, verdict: Verdict) -> Verdict {
    let mut meter = view.lease_or_pace.pace().map_or_else(|| CounterState::new(limit), CounterState::clone);
    let by_meter = meter.step(limit, now, cost);
    if by_meter.admitted {
        let remaining = verdict.remaining.min(by_meter.remaining);
        return Verdict { remaining, delay_ms: by_meter.delay_ms, ..verdict };
    }
    Verdict { reset_at: verdict.reset_at.max(by_meter.reset_at), ..by_meter }
}
