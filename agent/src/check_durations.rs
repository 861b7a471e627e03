//! Histogram of the durations of checks.
//!
//! A check that need not wait for its store takes about as long as two readings of a clock. It is counted under a duration
//! of 0 and not timed, in a cell of the current thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tollgate_engine::StripedTotal;

/// Upper bounds of the buckets, in seconds. A missed deadline of 15 ms lies between two of them.
const BUCKETS_S: [f64; 12] = [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, f64::INFINITY];

/// Histogram of the durations of checks. Clones are the same histogram.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckDurations(Arc<DurationCounts>);

#[derive(Debug, Default)]
struct DurationCounts {
    at_once: StripedTotal,
    waited: [AtomicU64; BUCKETS_S.len()],
    waited_ns: AtomicU64,
}

impl CheckDurations {
    /// Counts a check that did not wait.
    pub(crate) fn at_once(&self) {
        self.0.at_once.add(1);
    }

    /// Counts a check that waited for its store.
    pub(crate) fn waited(&self, time: Duration) {
        let bucket = BUCKETS_S.partition_point(|bound_s| *bound_s < time.as_secs_f64());
        self.0.waited[bucket.min(BUCKETS_S.len() - 1)].fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.waited_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl EncodeMetric for CheckDurations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let mut counts = self.0.waited.each_ref().map(|count| count.load(Ordering::Relaxed));
        counts[0] += self.0.at_once.get();
        let buckets: Vec<_> = BUCKETS_S.into_iter().zip(counts).collect();
        let sum = Duration::from_nanos(self.0.waited_ns.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn checks_that_did_not_wait_are_in_the_first_bucket() {
        let (durations, mut registry) = (CheckDurations::default(), Registry::default());
        registry.register("check", "Checks", durations.clone());
        durations.at_once();
        durations.at_once();
        durations.waited(Duration::from_millis(5));
        durations.waited(Duration::from_secs(90));
        let mut shown = String::new();
        text::encode(&mut shown, &registry).expect("text");
        for line in [
            "check_sum 90.005",
            "check_count 4",
            "check_bucket{le=\"0.00002\"} 2",
            "check_bucket{le=\"0.002\"} 2",
            "check_bucket{le=\"0.005\"} 3",
            "check_bucket{le=\"+Inf\"} 4",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
        }
    }
}
