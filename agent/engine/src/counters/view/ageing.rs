//! Ageing: the time for which a store can hold units of a policy.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;

/// Time for which a store can hold units of a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ageing {
    pub(super) sub_window_ms: u64,
    /// Time after which the units count nowhere, in ms.
    pub(super) kept_ms: u64,
}

impl Ageing {
    /// Returns the times of a policy. A burst over a window is free again once its reserve is refilled; the level of a
    /// bucket may fall for any time.
    pub(super) fn of(policy: &LimitPolicy) -> Self {
        let (width_ms, sub_window_ms) = (policy.window.width_ms(), policy.window.sub_window_ms());
        if matches!(policy.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
            return Self { sub_window_ms, kept_ms: u64::MAX };
        }
        let refill_ms = u128::from(width_ms) * u128::from(policy.burst) / u128::from(policy.quota.units().max(1));
        let kept_ms = u128::from(width_ms) + u128::from(sub_window_ms) + refill_ms;
        Self { sub_window_ms, kept_ms: u64::try_from(kept_ms).unwrap_or(u64::MAX) }
    }

    /// Returns true if no store holds units of this instant any more, and never will.
    pub(super) fn is_past(self, at: Timestamp, now: Timestamp) -> bool {
        now.ms_since(at) > self.kept_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst is in use for longer than a window, and the level of a bucket for any time.
    #[test]
    fn units_are_kept_as_long_as_a_store_may_hold_them() {
        let policy = LimitPolicy::of("100/min".parse().expect("a quota"));
        let mut with_burst = policy;
        with_burst.burst = 300;
        let kept_ms = |policy: &LimitPolicy| Ageing::of(policy).kept_ms;
        assert_eq!(kept_ms(&policy), 60_000 + policy.window.sub_window_ms());
        assert_eq!(kept_ms(&with_burst), 240_000 + policy.window.sub_window_ms());
        assert_eq!(kept_ms(&policy.counted_by(Algorithm::TokenBucket)), u64::MAX);
    }
}
