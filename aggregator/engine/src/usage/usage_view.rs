//! View of the usage of all regions: the newest record of each writer, and the sums by rule, region and counter.
//!
//! Ages count from the reading of a record, because the clocks of regions are never compared. A region is unknown as soon as none
//! of its records is young. A successor counts the same calls from the log, so its record takes its partitions from the
//! other writers of its region.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::ledger::Region;
use tollgate_core::messages::usage::{UsageOfRule, UsageRecord, UsageUnits};

/// Age from which on a record counts no more, in ms. A region without a younger one is unknown.
pub const UNKNOWN_AFTER_MS: u64 = 10_000;
/// Maximum number of writers, and of regions. Records of further ones are refused.
const WRITERS_LEN_MAX: usize = 1_000;

/// Newest records of the writers of all regions.
#[derive(Clone, Debug, Default)]
pub struct UsageView {
    reports: BTreeMap<(Region, u64), Report>,
    /// Instants at which the last record of each region was read.
    heard: BTreeMap<Region, Timestamp>,
}

/// Usage of a rule over all regions that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleOverRegions {
    /// Units of all counters, by region.
    pub regions: BTreeMap<Region, UsageUnits>,
    /// Counters of the largest demand, the largest first.
    pub counters: Vec<CounterOverRegions>,
}

/// Usage of a counter over the regions that name it among their largest ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOverRegions {
    /// Identifier of the counter.
    pub counter: CounterId,
    /// Label for display.
    pub label: Arc<str>,
    /// Units in these regions together.
    pub units: UsageUnits,
    /// Units by region.
    pub regions: BTreeMap<Region, UsageUnits>,
}

#[derive(Clone, Debug)]
struct Report {
    read_at: Timestamp,
    at: Timestamp,
    /// Partitions that no other writer of the region has reported since.
    partitions: BTreeSet<Partition>,
    rules: Vec<UsageOfRule>,
}

impl UsageView {
    /// Reads a record. Returns false if it is refused, because there are too many writers.
    pub fn read(&mut self, now: Timestamp, record: UsageRecord) -> bool {
        let UsageRecord { region, writer, at, partitions, rules } = record;
        self.reports.retain(|_, report| report.is_young(now));
        let key = (region.clone(), writer);
        let known = self.reports.get(&key);
        if known.is_none() && self.reports.len() >= WRITERS_LEN_MAX {
            return false;
        }
        if self.heard.len() >= WRITERS_LEN_MAX && !self.heard.contains_key(&region) {
            return false;
        }
        // A mirror may repeat records.
        if known.is_some_and(|known| at < known.at) {
            return true;
        }
        // Another writer may have counted these partitions before: it has ended, or it hands them over.
        for (_, other) in self.reports.range_mut((region.clone(), u64::MIN)..=(region.clone(), u64::MAX)) {
            other.partitions.retain(|partition| !partitions.contains(partition));
        }
        self.reports.retain(|_, report| !report.partitions.is_empty());
        self.reports.insert(key, Report { read_at: now, at, partitions: partitions.into_iter().collect(), rules });
        self.heard.insert(region, now);
        true
    }

    /// Returns the regions of which a record was read, each with the age of the last one in ms.
    pub fn regions(&self, now: Timestamp) -> impl Iterator<Item = (&Region, u64)> {
        self.heard.iter().map(move |(region, at)| (region, now.ms_since(*at)))
    }

    /// Returns the usage of a rule, with so many of its counters.
    #[must_use]
    pub fn rule(&self, now: Timestamp, rule: &str, counters_max: usize) -> RuleOverRegions {
        let mut over = RuleOverRegions::default();
        let mut counters: BTreeMap<CounterId, CounterOverRegions> = BTreeMap::new();
        for ((region, _), report) in self.reports.iter().filter(|(_, report)| report.is_young(now)) {
            let of_region = over.regions.entry(region.clone()).or_default();
            let Some(used) = report.rules.iter().find(|used| &*used.rule == rule) else { continue };
            *of_region = of_region.plus(used.units);
            for of in &used.largest {
                let counter = counters.entry(of.counter).or_insert_with(|| CounterOverRegions {
                    counter: of.counter,
                    label: of.label.clone(),
                    units: UsageUnits::default(),
                    regions: BTreeMap::new(),
                });
                counter.units = counter.units.plus(of.units);
                let in_region = counter.regions.entry(region.clone()).or_default();
                *in_region = in_region.plus(of.units);
            }
        }
        over.counters = counters.into_values().collect();
        over.counters.sort_by_key(|of| (Reverse((of.units.demand, of.units.used)), of.counter));
        over.counters.truncate(counters_max);
        over
    }
}

impl RuleOverRegions {
    /// Returns the units of all counters in all known regions.
    #[must_use]
    pub fn units(&self) -> UsageUnits {
        self.regions.values().fold(UsageUnits::default(), |sum, units| sum.plus(*units))
    }
}

impl Report {
    fn is_young(&self, now: Timestamp) -> bool {
        now.ms_since(self.read_at) < UNKNOWN_AFTER_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::messages::usage::UsageOfCounter;

    const RULE: &str = "rule";

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn units(used: u64, demand: u64) -> UsageUnits {
        UsageUnits { used, demand }
    }

    fn counter(id: u128, used: u64, demand: u64) -> UsageOfCounter {
        UsageOfCounter { counter: CounterId::from_u128(id), label: "".into(), units: units(used, demand) }
    }

    /// Record with one rule, whose units are those of the counters.
    fn record(region: &str, writer: u64, at: u64, partitions: &[Partition], largest: &[UsageOfCounter]) -> UsageRecord {
        let sum = largest.iter().fold(UsageUnits::default(), |sum, of| sum.plus(of.units));
        let (rule, counters) = (RULE.into(), largest.len() as u64);
        let rules = vec![UsageOfRule { rule, counters, units: sum, largest: largest.to_vec() }];
        UsageRecord { region: region.into(), writer, at: ms(at), partitions: partitions.to_vec(), rules }
    }

    fn by_region(view: &UsageView, now: u64) -> Vec<(String, u64)> {
        let of = view.rule(ms(now), RULE, 9);
        of.regions.iter().map(|(region, units)| (region.to_string(), units.used)).collect()
    }

    #[test]
    fn the_newest_records_of_all_writers_are_summed() {
        let mut view = UsageView::default();
        for record in [
            record("eu", 1, 1, &[0], &[counter(7, 10, 30)]),
            record("eu", 1, 2, &[0], &[counter(7, 20, 60), counter(8, 1, 1)]),
            record("eu", 2, 1, &[1], &[counter(9, 50, 50)]),
            record("us", 3, 1, &[0], &[counter(7, 5, 5), counter(6, 2, 2)]),
        ] {
            assert!(view.read(ms(100), record));
        }
        let of = view.rule(ms(100), RULE, 3);
        assert_eq!(of.regions, [("eu".into(), units(71, 111)), ("us".into(), units(7, 7))].into());
        assert_eq!(of.units(), units(78, 118));
        let counters: Vec<(u128, UsageUnits)> = of.counters.iter().map(|of| (of.counter.as_u128(), of.units)).collect();
        assert_eq!(counters, [(7, units(25, 65)), (9, units(50, 50)), (6, units(2, 2))]);
        assert_eq!(of.counters[0].regions, [("eu".into(), units(20, 60)), ("us".into(), units(5, 5))].into());
        let other = view.rule(ms(100), "other", 3);
        assert_eq!((other.units(), other.regions.len(), other.counters.len()), (UsageUnits::default(), 2, 0));
    }

    #[test]
    fn a_region_is_unknown_when_its_records_are_old() {
        let mut view = UsageView::default();
        view.read(ms(0), record("eu", 1, 90_000, &[0], &[counter(7, 1, 1)]));
        view.read(ms(4_000), record("us", 2, 5, &[0], &[counter(7, 2, 2)]));
        let known = |regions: &[(&str, u64)]| -> Vec<(String, u64)> {
            regions.iter().map(|(region, used)| ((*region).to_owned(), *used)).collect()
        };
        let cases = [(9_999, known(&[("eu", 1), ("us", 2)])), (10_000, known(&[("us", 2)])), (14_000, known(&[]))];
        for (now, expected) in cases {
            assert_eq!(by_region(&view, now), expected, "at {now}");
            let ages: Vec<u64> = view.regions(ms(now)).map(|(_, age_ms)| age_ms).collect();
            assert_eq!(ages, [now, now - 4_000]);
        }
        // Its clock was set back: the old record must not hide new ones for ever.
        assert!(view.read(ms(10_000), record("eu", 1, 3, &[0], &[counter(7, 9, 9)])));
        assert_eq!(by_region(&view, 10_000), known(&[("eu", 9), ("us", 2)]));
    }

    #[test]
    fn a_repeated_record_and_the_record_of_a_predecessor_are_not_counted_twice() {
        let read = |records: &[UsageRecord]| {
            let mut view = UsageView::default();
            for record in records {
                assert!(view.read(ms(1), record.clone()));
            }
            view.rule(ms(1), RULE, 9).units().used
        };
        let of = |writer, at, partitions: &[Partition], used| {
            record("eu", writer, at, partitions, &[counter(7, used, used)])
        };
        for (case, records, expected) in [
            ("repeated by a mirror", &[of(1, 2, &[0], 5), of(1, 1, &[0], 3)][..], 5),
            ("restarted", &[of(1, 9, &[0, 1], 5), of(2, 1, &[0, 1], 6)], 6),
            ("taken over by one", &[of(1, 9, &[0], 5), of(2, 1, &[1], 1), of(2, 2, &[0, 1], 6)], 6),
            ("taken over by two", &[of(1, 9, &[0, 1], 5), of(2, 1, &[0, 2], 3), of(3, 1, &[1, 3], 4)], 7),
            ("half of it handed over", &[of(1, 1, &[0, 1], 5), of(2, 1, &[1], 2), of(1, 2, &[0], 3)], 5),
        ] {
            assert_eq!(read(records), expected, "{case}");
        }
        let others = [of(1, 1, &[0], 5), record("us", 1, 1, &[0], &[counter(7, 2, 2)])];
        assert_eq!(read(&others), 7, "the same partition of another region");
    }

    /// capped: writers that were never there leave within seconds.
    #[test]
    fn further_writers_are_refused_until_others_are_forgotten() {
        let mut view = UsageView::default();
        let of = |writer: u64| record("eu", writer, 1, &[u32::try_from(writer).expect("small")], &[]);
        let taken = (0..2_000).filter(|writer| view.read(ms(5), of(*writer))).count();
        assert_eq!(taken, WRITERS_LEN_MAX);
        assert!(view.read(ms(5), of(1)), "a known one");
        assert!(!view.read(ms(10_004), of(1_500)) && view.read(ms(10_005), of(1_500)));
        assert_eq!(view.reports.len(), 1);
        let regions = (0..2_000).filter(|number| {
            let later = ms(20_000 * (number + 1));
            view.read(later, record(&number.to_string(), 1, 1, &[0], &[]))
        });
        assert_eq!(regions.count(), WRITERS_LEN_MAX - 1);
    }
}
