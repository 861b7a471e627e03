//! Metrics of the budgets, in the OpenMetrics format.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tollgate_core::messages::Topic;

use crate::metrics::DeadLetterTotals;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeldLabel {
    rule: String,
}

/// Metrics of the budgets of a region.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionMetrics {
    pub(super) appended: Counter,
    pub(super) voids: Counter,
    pub(super) dead_letters: DeadLetterTotals,
    /// 1 while the ledger can be read and written; set by the thread that prepares its bus.
    pub(super) connected: Gauge<u64, AtomicU64>,
    held: Family<HeldLabel, Gauge<u64, AtomicU64>>,
}

impl RegionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let r = registry.sub_registry_with_prefix("tollgate_regions");
        r.register("entries_appended", "Entries that this aggregator appended to the ledger", metrics.appended.clone());
        r.register("void_entries", "Entries of the ledger that changed nothing", metrics.voids.clone());
        r.register("ledger_connected", "1 while the ledger can be read and written", metrics.connected.clone());
        r.register("held_units", "Units that this region holds beside its floors", metrics.held.clone());
        metrics.dead_letters.register(registry, &[Topic::Ledger]);
        metrics
    }

    /// Replaces the units that the region holds of each rule.
    pub(super) fn hold(&self, units: &BTreeMap<Arc<str>, u64>) {
        for (rule, units) in units {
            self.held.get_or_create(&HeldLabel { rule: rule.to_string() }).set(*units);
        }
    }
}
