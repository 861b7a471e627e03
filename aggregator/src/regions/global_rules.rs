//! Rules of several regions that an aggregator knows: those with a global scope as the terms that a coordinator proposes, and all
//! of them for the view of their usage.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_aggregator_engine::budget::coordinator::expires_after_ms;
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::ledger::{Region, Terms};
use tollgate_core::rules::{LimitPolicy, Rule, RuleSet, Scope};

/// Minimum and maximum of a term, in ms. Each grant needs two renewals in a term.
const TERM_MS_MIN: u64 = 5_000;
const TERM_MS_MAX: u64 = 60_000;

/// Rules of several regions; clones share them.
#[derive(Clone, Debug)]
pub struct GlobalRules {
    key_fingerprint: u64,
    region: Region,
    known: Arc<Mutex<CurrentRules>>,
}

/// Rule whose usage over all regions is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownRule {
    pub(super) name: Arc<str>,
    pub(super) scope: Scope,
    /// Units of a counter per window, of a global rule over all regions; none if only tiers have a quota.
    pub(super) quota: Option<u64>,
    pub(super) window_ms: Option<u64>,
}

/// Rules of the last set.
#[derive(Clone, Debug, Default)]
struct CurrentRules {
    terms: Arc<[Terms]>,
    /// Rules that limit.
    limiting: Arc<[ShownRule]>,
    regions: Arc<[Region]>,
}

impl GlobalRules {
    /// Returns no rules, for counters under this key and for this region.
    #[must_use]
    pub fn new(key: &DigestKey, region: &str) -> Self {
        Self { key_fingerprint: key.fingerprint(), region: region.into(), known: Arc::default() }
    }

    /// Replaces the rules by those of a set, and logs the promises about each. The set may be that of one region.
    pub fn set(&self, rules: &RuleSet) {
        let region = &*self.region;
        let terms: Arc<[Terms]> = rules.rules.iter().filter_map(|rule| self.terms_of(rules, rule)).collect();
        for terms in &*terms {
            let Terms { rule, quota, window_ms, term_ms, .. } = terms;
            let lost_s = seconds(expires_after_ms(*term_ms, *window_ms));
            let floor = terms.floors.iter().find(|(name, _)| **name == *region).map(|(_, units)| *units);
            if let Some(floor) = floor {
                tracing::info!(
                    %rule, region, quota, floor,
                    "without the ledger, this region has its floor of {floor} units; a lost transfer returns its units after at most term + window + margin = {lost_s} s"
                );
            } else {
                tracing::error!(
                    %rule, region,
                    "the rules do not name this region, so it has no units of this rule; add it under `regions:`, or correct --region"
                );
            }
        }
        let regions: Arc<[Region]> = rules.regions.iter().map(|part| part.region.clone()).collect();
        let limiting = rules.rules.iter().filter(|rule| !rule.deny).map(|rule| ShownRule::of(rule)).collect();
        *self.known.lock() = CurrentRules { terms, limiting, regions };
    }

    pub(super) const fn key_fingerprint(&self) -> u64 {
        self.key_fingerprint
    }

    pub(super) fn terms(&self) -> Arc<[Terms]> {
        self.known.lock().terms.clone()
    }

    /// Returns the rules whose usage is shown: none if the set names no regions.
    pub(super) fn shown(&self) -> Arc<[ShownRule]> {
        let known = self.known.lock();
        if known.regions.is_empty() { Arc::default() } else { known.limiting.clone() }
    }

    /// Returns the difference between the rule of these terms and that of the last set; none if the set does not have it.
    pub(super) fn difference(&self, terms: &Terms) -> Option<String> {
        let known = self.known.lock();
        let own = known.limiting.iter().find(|rule| rule.name == terms.rule)?;
        if own.scope != Scope::Global {
            return Some(
                "it has `scope: regional` in the rules of this region, and `scope: global` in the ledger".to_owned(),
            );
        }
        let window_ms = own.window_ms.filter(|window_ms| *window_ms != terms.window_ms)?;
        let [own, shared] = [window_ms, terms.window_ms].map(shown_ms);
        Some(format!("its window is {own} in the rules of this region, and {shared} in the ledger"))
    }

    pub(super) fn regions(&self) -> Arc<[Region]> {
        self.known.lock().regions.clone()
    }

    fn terms_of(&self, rules: &RuleSet, rule: &Rule) -> Option<Terms> {
        let policy = rule.policy.as_ref().filter(|_| rule.scope == Scope::Global)?;
        let (quota, window_ms) = (policy.units_over_regions(), policy.window.width_ms());
        Some(Terms {
            rule: rule.name.clone(),
            generation: rules.generation,
            quota,
            window_ms,
            term_ms: (window_ms + window_ms / 5).clamp(TERM_MS_MIN, TERM_MS_MAX),
            key_fingerprint: self.key_fingerprint,
            floors: rules.regions.iter().map(|part| (part.region.clone(), part.units_of(quota))).collect(),
        })
    }
}

impl ShownRule {
    fn of(rule: &Rule) -> Self {
        let policy = rule.policy.as_ref();
        Self {
            name: rule.name.clone(),
            scope: rule.scope,
            quota: policy.map(LimitPolicy::units_over_regions),
            window_ms: policy.map(|policy| policy.window.width_ms()),
        }
    }
}

/// Returns true if terms differ in more than their generation.
pub(super) fn differ(terms: &Terms, other: &Terms) -> bool {
    *terms != Terms { generation: terms.generation, ..other.clone() }
}

fn shown_ms(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { format!("{} s", ms / 1_000) } else { format!("{ms} ms") }
}

/// Returns whole seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use tollgate_core::regions::RegionFloorRatio;
    use tollgate_core::rules::Quota;

    use super::*;

    #[test]
    fn only_global_rules_have_terms() {
        let rule = |name, window_ms, scope| {
            let mut rule = Rule::per(name, &["api_key"], Quota::new(1_000, window_ms).unwrap());
            rule.scope = scope;
            rule
        };
        let cases = [("short", 1_000, 5_000), ("usual", 10_000, 12_000), ("long", 3_600_000, 60_000)];
        let global = cases.map(|(name, window_ms, _)| rule(name, window_ms, Scope::Global));
        let mut set = RuleSet::new(3, global.into_iter().chain([rule("own", 1_000, Scope::default())]));
        set.regions = vec![RegionFloorRatio { region: "eu".into(), floor_ppm: 100_000 }];
        let known = GlobalRules::new(&DigestKey::default(), "eu");
        for set in [set.clone(), set.clone().in_region("eu")] {
            known.set(&set);
            let terms = known.terms();
            assert_eq!(terms.len(), cases.len());
            for (terms, (name, window_ms, term_ms)) in terms.iter().zip(cases) {
                let found = (&*terms.rule, terms.window_ms, terms.term_ms, terms.quota);
                assert_eq!(found, (name, window_ms, term_ms, 1_000));
                assert_eq!((terms.generation, &*terms.floors), (3, &[("eu".into(), 100)][..]));
            }
        }
        let shown: Vec<_> = known.shown().iter().map(|rule| (rule.scope, rule.quota, rule.window_ms)).collect();
        assert_eq!(
            (shown.len(), shown[1], shown[3]),
            (4, (Scope::Global, Some(1_000), Some(10_000)), (Scope::Regional, Some(1_000), Some(1_000))),
            "also of the rules of one region"
        );
        assert_eq!(*known.regions(), [Region::from("eu")]);
        let terms = known.terms();
        let newer = Terms { generation: 4, ..terms[0].clone() };
        assert!(!differ(&newer, &terms[0]) && differ(&newer, &terms[1]));
        set.regions.clear();
        known.set(&set);
        assert!(known.shown().is_empty(), "the rules of one region alone");
    }
}
