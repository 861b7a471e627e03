//! Rules with a global scope that an aggregator knows, as the terms that a coordinator proposes.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_aggregator_engine::budget::coordinator::expires_after_ms;
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::ledger::{Region, Terms};
use tollgate_core::rules::{Rule, RuleSet, Scope};

/// Minimum and maximum of a term, in ms. Each grant needs two renewals in a term.
const TERM_MS_MIN: u64 = 5_000;
const TERM_MS_MAX: u64 = 60_000;

/// Rules with a global scope; clones share them.
#[derive(Clone, Debug)]
pub struct GlobalRules {
    key_fingerprint: u64,
    region: Region,
    terms: Arc<Mutex<Arc<[Terms]>>>,
}

impl GlobalRules {
    /// Returns no rules, for counters under this key and for this region.
    #[must_use]
    pub fn new(key: &DigestKey, region: &str) -> Self {
        Self { key_fingerprint: key.fingerprint(), region: region.into(), terms: Arc::new(Mutex::new(Arc::from([]))) }
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
        *self.terms.lock() = terms;
    }

    pub(super) const fn key_fingerprint(&self) -> u64 {
        self.key_fingerprint
    }

    pub(super) fn terms(&self) -> Arc<[Terms]> {
        self.terms.lock().clone()
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

/// Returns true if terms differ in more than their generation.
pub(super) fn differ(terms: &Terms, other: &Terms) -> bool {
    *terms != Terms { generation: terms.generation, ..other.clone() }
}

/// Returns whole seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use tollgate_core::regions::RegionFloorPart;
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
        set.regions = vec![RegionFloorPart { region: "eu".into(), floor_ppm: 100_000 }];
        let known = GlobalRules::new(&DigestKey::default(), "eu");
        for set in [set.clone(), set.in_region("eu")] {
            known.set(&set);
            let terms = known.terms();
            assert_eq!(terms.len(), cases.len());
            for (terms, (name, window_ms, term_ms)) in terms.iter().zip(cases) {
                let found = (&*terms.rule, terms.window_ms, terms.term_ms, terms.quota);
                assert_eq!(found, (name, window_ms, term_ms, 1_000));
                assert_eq!((terms.generation, &*terms.floors), (3, &[("eu".into(), 100)][..]));
            }
        }
        let terms = known.terms();
        let newer = Terms { generation: 4, ..terms[0].clone() };
        assert!(!differ(&newer, &terms[0]) && differ(&newer, &terms[1]));
    }
}
