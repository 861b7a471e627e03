//! Metrics of the budgets, in the OpenMetrics format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::Topic;

use super::usage_state::UsageState;
use crate::metrics::{DeadLetterTotals, seconds};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabel {
    rule: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct UsageLabel {
    rule: String,
    region: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegionLabel {
    region: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RegionMetrics {
    pub(super) appended: Counter,
    pub(super) voids: Counter,
    pub(super) moves: Counter,
    pub(super) dead_letters: DeadLetterTotals,
    /// 1 while the ledger can be read and written; set by the thread that prepares its bus.
    pub(super) connected: Gauge<u64, AtomicU64>,
    granted: Family<RuleLabel, Gauge<u64, AtomicU64>>,
    budget_age: Family<RuleLabel, Gauge<f64, AtomicU64>>,
    used: Family<UsageLabel, Gauge<u64, AtomicU64>>,
    demand: Family<UsageLabel, Gauge<u64, AtomicU64>>,
    usage_age: Family<RegionLabel, Gauge<f64, AtomicU64>>,
    /// Labels of the usage that is shown.
    shown: BTreeSet<UsageLabel>,
}

impl RegionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let r = registry.sub_registry_with_prefix("tollgate_regions");
        r.register("entries_appended", "Entries that this aggregator appended to the ledger", metrics.appended.clone());
        r.register("void_entries", "Entries of the ledger that changed nothing", metrics.voids.clone());
        r.register("moves", "Grants and give-backs of all regions, as read from the ledger", metrics.moves.clone());
        r.register("ledger_connected", "1 while the ledger can be read and written", metrics.connected.clone());
        r.register("granted_units", "Units that this region holds beside its floors", metrics.granted.clone());
        let help = "Longest time since a grant or a renewal of this region was read";
        r.register_with_unit("budget_age", help, Unit::Seconds, metrics.budget_age.clone());
        r.register("used_units", "Units that a region admitted in the last window", metrics.used.clone());
        r.register(
            "demand_units",
            "Units that callers of a region asked for in the last window",
            metrics.demand.clone(),
        );
        let help = "Time since the last record of a region's usage was read";
        r.register_with_unit("usage_age", help, Unit::Seconds, metrics.usage_age.clone());
        metrics.dead_letters.register(registry, &[Topic::Ledger, Topic::Usage]);
        metrics
    }

    /// Replaces the usage of all regions. A region that is unknown has no units.
    pub(super) fn show_usage(&mut self, now: Timestamp, usage: &UsageState) {
        let mut shown = BTreeSet::new();
        for (rule, over) in usage.rules(now, 0) {
            for (region, units) in &over.regions {
                let label = UsageLabel { rule: rule.name.to_string(), region: region.to_string() };
                self.used.get_or_create(&label).set(units.used);
                self.demand.get_or_create(&label).set(units.demand);
                shown.insert(label);
            }
        }
        for label in self.shown.difference(&shown) {
            self.used.remove(label);
            self.demand.remove(label);
        }
        self.shown = shown;
        for (region, age_ms) in usage.ages_ms(now) {
            let label = RegionLabel { region: region.to_string() };
            age_ms.map(|age_ms| self.usage_age.get_or_create(&label).set(seconds(age_ms)));
        }
    }

    /// Replaces the units that the region holds of each rule, and their ages.
    pub(super) fn hold(&self, units: &BTreeMap<Arc<str>, u64>, ages_ms: &BTreeMap<Arc<str>, u64>) {
        for (rule, units) in units {
            self.granted.get_or_create(&RuleLabel { rule: rule.to_string() }).set(*units);
        }
        for (rule, age_ms) in ages_ms {
            self.budget_age.get_or_create(&RuleLabel { rule: rule.to_string() }).set(seconds(*age_ms));
        }
    }
}
