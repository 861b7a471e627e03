//! Rules written in code: `Rule::per("per-key", &["api_key"], "100/min".parse()?)`.

use std::collections::HashMap;

use super::{Charging, Consistency, LimitPolicy, Matches, Quota, Rule};
use crate::algorithm::Algorithm;
use crate::window::Estimate;

impl Rule {
    /// A rule for all calls that have these descriptors: sliding window, interpolated, bounded.
    #[must_use]
    pub fn per(name: &str, per: &[&str], quota: Quota) -> Self {
        Self {
            name: name.into(),
            group: None,
            matches: Vec::new(),
            per: per.iter().map(|name| (*name).into()).collect(),
            policy: Some(LimitPolicy::of(quota)),
            by_tier: Vec::new(),
            by_key: HashMap::new(),
            quota_from: None,
            cost: None,
            costs: None,
            charge: Charging::AllOrNone,
            deny: false,
            shadow: false,
            replaces: Vec::new(),
        }
    }

    /// A rule that denies every call which matches.
    #[must_use]
    pub fn denying(name: &str, matches: Matches) -> Self {
        Self { matches, policy: None, deny: true, ..Self::per(name, &[], Quota::ONE) }
    }

    /// The same rule, counted so. A bucket without a burst holds what its rate gives in a second.
    #[must_use]
    pub fn counted_by(mut self, algorithm: Algorithm) -> Self {
        self.policy = self.policy.map(|policy| policy.counted_by(algorithm));
        self
    }

    /// The same rule on other policy.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut LimitPolicy)) -> Self {
        if let Some(policy) = &mut self.policy {
            change(policy);
        }
        self
    }

    /// The same rule, never over its quota: strict, and conservative where it estimates.
    #[must_use]
    pub fn strict(self) -> Self {
        self.with(|policy| {
            policy.consistency = Consistency::Strict;
            if let Algorithm::SlidingWindow(estimate) = &mut policy.algorithm {
                *estimate = Estimate::Conservative;
            }
        })
    }
}
