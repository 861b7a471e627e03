//! What the pump counts, by partition, in OpenMetrics policy.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;

use crate::counting::{Counting, Tally};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPartition {
    partition: Partition,
}

type Counters = Family<OfPartition, Counter>;
type Gauges = Family<OfPartition, Gauge<u64, AtomicU64>>;
type OfTally = fn(&Tally) -> u64;
type Seconds = Family<OfPartition, Gauge<f64, AtomicU64>>;

/// What the pump counts.
#[derive(Clone, Default)]
pub(super) struct Metrics {
    batches: Counters,
    rows: Counters,
    duplicates: Counters,
    poisoned: Counters,
    late: Counters,
    too_old: Counters,
    from_the_future: Counters,
    uncounted: Counters,
    signals: Counters,
    counters: Gauges,
    lag: Seconds,
    lag_records: Gauges,
    watermark_lag: Seconds,
    missed: Counter,
    pub(super) members: Gauge<u64, AtomicU64>,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let m = &metrics;
        let r = registry.sub_registry_with_prefix("tollgate_aggregator");
        r.register("batches", "Batches of calls counted", m.batches.clone());
        r.register("rows", "Charges counted", m.rows.clone());
        r.register("duplicates", "Batches that had been counted before", m.duplicates.clone());
        r.register("poisoned", "Records that could not be read and were set aside", m.poisoned.clone());
        r.register("late", "Charges that came after the watermark had passed their sub-window", m.late.clone());
        r.register("too_old", "Charges whose sub-window had left the window; they count nowhere", m.too_old.clone());
        r.register("from_the_future", "Charges of a time after that of their record", m.from_the_future.clone());
        r.register("uncounted", "Charges of counters past the cap", m.uncounted.clone());
        r.register("signals", "Signals sent", m.signals.clone());
        r.register("counters", "Counters held", m.counters.clone());
        r.register_with_unit("lag", "Age of the newest record that is counted", Unit::Seconds, m.lag.clone());
        r.register("lag_records", "Records in the log that are not counted yet", m.lag_records.clone());
        let help = "Age of the time up to which every live agent has told all";
        r.register_with_unit("watermark_lag", help, Unit::Seconds, m.watermark_lag.clone());
        r.register("missed_records", "Records that the bus dropped before they were read", m.missed.clone());
        r.register("members", "Aggregators that are there, this one included", m.members.clone());
        metrics
    }

    /// Shows one partition as it stands.
    ///
    /// `before` is its tally when it was shown the last time.
    pub(super) fn show(&self, now: Timestamp, partition: Partition, counting: &Counting, before: &mut Tally) {
        let of = OfPartition { partition };
        let tally = counting.tally();
        let families: [(&Counters, OfTally); 9] = [
            (&self.batches, |tally| tally.batches),
            (&self.rows, |tally| tally.rows),
            (&self.duplicates, |tally| tally.duplicates),
            (&self.poisoned, |tally| tally.poisoned),
            (&self.late, |tally| tally.late),
            (&self.too_old, |tally| tally.too_old),
            (&self.from_the_future, |tally| tally.from_the_future),
            (&self.uncounted, |tally| tally.uncounted),
            (&self.signals, |tally| tally.signals),
        ];
        for (family, of_tally) in families {
            family.get_or_create(&of).inc_by(of_tally(&tally) - of_tally(before));
        }
        *before = tally;
        self.counters.get_or_create(&of).set(tally.counters as u64);
        if let Some((_, appended)) = counting.read() {
            self.lag.get_or_create(&of).set(seconds(now.ms_since(appended)));
        }
        if let Some(watermark) = counting.watermark() {
            self.watermark_lag.get_or_create(&of).set(seconds(now.ms_since(watermark)));
        }
    }

    /// Shows how many records of a partition wait.
    pub(super) fn lags_behind(&self, partition: Partition, records: u64) {
        self.lag_records.get_or_create(&OfPartition { partition }).set(records);
    }

    pub(super) fn missed(&self, records: u64) {
        self.missed.inc_by(records.saturating_sub(self.missed.get()));
    }

    /// Forgets what changes of a partition that is another's now; what was counted stays counted.
    pub(super) fn forget(&self, partition: Partition) {
        let of = OfPartition { partition };
        self.counters.remove(&of);
        self.lag.remove(&of);
        self.lag_records.remove(&of);
        self.watermark_lag.remove(&of);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a lag of 2^52 ms is not met")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
