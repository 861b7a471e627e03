//! Contenders: the algorithms of the product with their parameters.

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::rules::{LimitPolicy, Quota};
use tollgate_core::window::{Estimate, Window};

use crate::scenario::arrivals::MINUTE_MS;

/// An algorithm with its parameters.
pub(super) struct Contender {
    pub(super) name: String,
    algorithm: Algorithm,
    /// Number of sub-windows; none if the algorithm has none.
    parts: Option<u32>,
    /// True if a bucket has a burst of the whole quota, and not of the units of a second, which is the default.
    has_whole_burst: bool,
}

pub(super) fn contenders(sub_windows: &[u32]) -> Vec<Contender> {
    let estimates = [("interpolated", Estimate::Interpolated), ("conservative", Estimate::Conservative)];
    let mut contenders = Vec::new();
    for (name, estimate) in estimates {
        contenders.extend(sub_windows.iter().map(|parts| Contender {
            name: format!("{name} {parts}"),
            algorithm: Algorithm::SlidingWindow(estimate),
            parts: Some(*parts),
            has_whole_burst: false,
        }));
    }
    let others = [
        ("sliding_log", Algorithm::SlidingLog, false),
        ("fixed_window", Algorithm::FixedWindow, false),
        ("token_bucket 1s", Algorithm::TokenBucket, false),
        ("token_bucket 60s", Algorithm::TokenBucket, true),
        ("leaky_bucket 1s", Algorithm::LeakyBucket, false),
        ("leaky_bucket 60s", Algorithm::LeakyBucket, true),
    ];
    contenders.extend(others.into_iter().map(|(name, algorithm, has_whole_burst)| Contender {
        name: name.to_owned(),
        algorithm,
        parts: None,
        has_whole_burst,
    }));
    contenders
}

/// Returns the number of sub-windows of a minute that rules have by default.
pub(super) fn default_parts() -> u32 {
    Window::with_default_sub_windows(MINUTE_MS).map_or(1, Window::sub_windows)
}

impl Contender {
    pub(super) fn limit(&self, quota: Quota) -> Limit {
        let mut limit = LimitPolicy::of(quota).counted_by(self.algorithm).limit();
        if let Some(window) = self.parts.and_then(|parts| Window::new(MINUTE_MS, parts).ok()) {
            limit.window = window;
        }
        if self.has_whole_burst {
            limit.burst = quota.units();
        }
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_default_burst_or_the_whole_quota() {
        let quota = Quota::new(120, MINUTE_MS).unwrap();
        let burst = |name: &str| {
            let all = contenders(&[12]);
            all.iter().find(|contender| contender.name == name).map(|contender| contender.limit(quota).burst)
        };
        for (name, expected) in [("token_bucket 1s", 2), ("leaky_bucket 60s", 120), ("interpolated 12", 0)] {
            assert_eq!(burst(name), Some(expected), "{name}");
        }
    }
}
