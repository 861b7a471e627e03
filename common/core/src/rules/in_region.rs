//! Rules as one region enforces them.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::{Rule, RuleSet, Scope};

impl RuleSet {
    /// Returns the rules as a region enforces them: the quota of a rule with a global scope is the region's floor, which the
    /// store raises by the units that the region has been granted. A region that the set does not name has a floor of one unit,
    /// and is never granted more.
    #[doc(hidden)]
    #[must_use]
    pub fn in_region(mut self, region: &str) -> Self {
        let floor = self.regions.iter().find(|part| &*part.region == region);
        for rule in self.rules.iter_mut().filter(|rule| rule.scope == Scope::Global) {
            let floor_of = |quota: u64| floor.map_or(1, |part| part.units_of(quota));
            *rule = Arc::new(rule.with_floor(floor_of));
        }
        self
    }
}

impl Rule {
    /// Returns the same rule with the floor of a region as its quota.
    fn with_floor(&self, floor_of: impl Fn(u64) -> u64) -> Self {
        self.clone().with(|policy| {
            let quota = policy.units_over_regions();
            let floor = policy.quota.with_units(floor_of(quota));
            if let Some(floor) = floor {
                policy.quota = floor;
                policy.global_quota = NonZeroU64::new(quota);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::RegionFloorRatio;

    #[test]
    fn a_global_quota_is_the_floor_of_the_region() {
        let global = Rule { scope: Scope::Global, ..Rule::per("global", &["api_key"], "100/min".parse().unwrap()) };
        let regional = Rule::per("regional", &["api_key"], "70/min".parse().unwrap());
        let mut set = RuleSet::new(1, [global, regional]);
        set.regions = vec![RegionFloorRatio { region: "eu".into(), floor_ppm: 200_000 }];
        for (region, floor) in [("eu", 20), ("us", 1)] {
            let set = set.clone().in_region(region).in_region(region);
            let policies = set.rules.iter().map(|rule| rule.policy.expect("a policy"));
            let units = policies.map(|policy| (policy.quota.units(), policy.global_quota.map(NonZeroU64::get)));
            assert_eq!(units.collect::<Vec<_>>(), [(floor, Some(100)), (70, None)], "{region}");
        }
    }
}
