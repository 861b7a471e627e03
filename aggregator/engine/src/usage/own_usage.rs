//! Usage of the counters of one aggregator, for one record.
//!
//! Its memory is that of the rules and their largest counters, however many counters are added.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::usage::{LARGEST_LEN_MAX, RULES_LEN_MAX, UsageOfCounter, UsageOfRule, UsageUnits};

use crate::counting::CountedCounter;

/// Maximum number of counters of one record, of all rules together. It keeps the record far below the largest one that a bus takes.
const COUNTERS_LEN_MAX: usize = 1_000;
/// Maximum length of a label, in characters. The rest of a longer one is left out.
const LABEL_LEN_MAX: usize = 200;

/// Usage of some rules.
#[derive(Clone, Debug)]
pub struct OwnUsage(BTreeMap<Arc<str>, UsageOfRule>);

impl OwnUsage {
    /// Creates the usage of these rules, before any counter is added.
    pub fn of(rules: impl IntoIterator<Item = Arc<str>>) -> Self {
        let unused = |rule: Arc<str>| {
            let usage =
                UsageOfRule { rule: rule.clone(), counters: 0, units: UsageUnits::default(), largest: Vec::new() };
            (rule, usage)
        };
        Self(rules.into_iter().map(unused).collect())
    }

    /// Adds a counter, unless its rule is another one or it has no units in the window.
    pub fn add(&mut self, now: Timestamp, counter: &CountedCounter) {
        let units = UsageUnits { used: counter.used(now), demand: counter.demand(now) };
        self.add_units(&counter.rule, counter.id, &counter.label, units);
    }

    /// Returns the rules that were used, and their largest counters.
    #[must_use]
    pub fn into_rules(self) -> Vec<UsageOfRule> {
        let mut rules: Vec<UsageOfRule> = self.0.into_values().filter(|rule| rule.counters > 0).collect();
        rules.sort_by_key(|rule| Reverse(rule.units.demand));
        rules.truncate(RULES_LEN_MAX);
        let of_each = (COUNTERS_LEN_MAX / rules.len().max(1)).clamp(1, LARGEST_LEN_MAX);
        for rule in &mut rules {
            keep_largest(&mut rule.largest, of_each);
            for counter in &mut rule.largest {
                if let Some((end, _)) = counter.label.char_indices().nth(LABEL_LEN_MAX) {
                    counter.label = counter.label[..end].into();
                }
            }
        }
        rules
    }

    fn add_units(&mut self, rule: &str, counter: CounterId, label: &Arc<str>, units: UsageUnits) {
        let Some(rule) = self.0.get_mut(rule).filter(|_| units.demand > 0) else { return };
        rule.counters += 1;
        rule.units = rule.units.plus(units);
        rule.largest.push(UsageOfCounter { counter, label: label.clone(), units });
        if rule.largest.len() >= 2 * LARGEST_LEN_MAX {
            keep_largest(&mut rule.largest, LARGEST_LEN_MAX);
        }
    }
}

/// Keeps so many counters of the largest demand, the largest first.
fn keep_largest(counters: &mut Vec<UsageOfCounter>, len: usize) {
    counters.sort_unstable_by_key(|of| (Reverse((of.units.demand, of.units.used)), of.counter));
    counters.truncate(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(usage: &mut OwnUsage, rule: &str, id: u128, used: u64, demand: u64) {
        usage.add_units(rule, CounterId::from_u128(id), &format!("c{id}").into(), UsageUnits { used, demand });
    }

    #[test]
    fn the_units_of_followed_rules_are_summed() {
        let mut usage = OwnUsage::of(["a", "b", "unused"].map(Arc::from));
        for (rule, id, used, demand) in [
            ("a", 1, 5, 5),
            ("a", 2, 0, 7),
            ("a", 3, 0, 0),
            ("b", 4, 1, 90),
            ("other", 5, 100, 100),
            ("a", 6, 5, u64::MAX),
        ] {
            add(&mut usage, rule, id, used, demand);
        }
        let rules: Vec<_> = usage
            .into_rules()
            .into_iter()
            .map(|of| {
                let ids: Vec<u128> = of.largest.iter().map(|of| of.counter.as_u128()).collect();
                (of.rule.to_string(), of.counters, of.units.used, of.units.demand, ids)
            })
            .collect();
        assert_eq!(rules, [("a".into(), 3, 10, u64::MAX, vec![6, 2, 1]), ("b".into(), 1, 1, 90, vec![4])]);
    }

    /// capped: a record has a limited length.
    #[test]
    fn only_the_largest_counters_are_named() {
        let mut usage = OwnUsage::of(["many".into()]);
        for id in 0..10_000 {
            // Each value comes once, in another order than that of the ids.
            let demand = id * 7_919 % 10_007;
            add(&mut usage, "many", id.into(), 0, demand);
        }
        assert!(usage.0["many"].largest.len() < 2 * LARGEST_LEN_MAX);
        let of = usage.into_rules().remove(0);
        let mut all: Vec<u64> = (0..10_000).map(|id| id * 7_919 % 10_007).collect();
        all.sort_unstable_by_key(|demand| Reverse(*demand));
        let named: Vec<u64> = of.largest.iter().map(|of| of.units.demand).collect();
        assert_eq!((of.counters, &*named), (9_999, &all[..LARGEST_LEN_MAX]), "one of them has no demand");

        let mut usage = OwnUsage::of((0..2_000).map(|number| number.to_string().into()));
        let long: Arc<str> = "ö".repeat(1_000).into();
        for number in 0..2_000_u64 {
            for id in 0..2 {
                let units = UsageUnits { used: 0, demand: number + 1 };
                usage.add_units(&number.to_string(), CounterId::from_u128(id), &long, units);
            }
        }
        let rules = usage.into_rules();
        assert_eq!((rules.len(), &*rules[0].rule, rules[0].largest.len()), (RULES_LEN_MAX, "1999", 1));
        assert_eq!(rules[0].largest[0].label.chars().count(), LABEL_LEN_MAX);
    }
}
