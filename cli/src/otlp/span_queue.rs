//! Decisions that wait for their export as spans: chosen, counted, and lost past a cap.
//!
//! [`SpanQueue::take`] runs in calls, so it never blocks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tollgate::store::StoreError;
use tollgate::{AskedDecision, LocalAnswer, Name, Source};
use tollgate_core::clock::unix_time;
use tollgate_core::trace_context::{CallTrace, TraceContext};
use tollgate_engine::{ADMISSIONS_ALL, Total};
use tollgate_metrics::{MetricName, encode_metric};

/// Maximum number of spans that wait for the thread.
pub(super) const QUEUE_LEN_MAX: usize = 2_048;

/// Decision of which a span is made.
#[derive(Clone, Debug)]
pub(super) struct SpanFacts {
    /// Trace and span of the caller; none begins a trace.
    pub(super) parent: Option<TraceContext>,
    /// Rule in the answer; none if no rule applies.
    pub(super) rule: Option<Name>,
    pub(super) allowed: bool,
    pub(super) source: Source,
    pub(super) by: Option<LocalAnswer>,
    /// Unix time of the answer, or of the deadline.
    pub(super) ended: Duration,
    pub(super) took: Duration,
    pub(super) error: Option<StoreError>,
}

/// End of the queue into which calls put spans.
pub(super) struct SpanQueue {
    waiting: Sender<SpanFacts>,
    /// Part of the calls without a trace that begins one, in parts of [`ADMISSIONS_ALL`].
    sample: u32,
    totals: Arc<SpanTotals>,
}

/// Numbers of spans.
#[derive(Debug, Default)]
pub(super) struct SpanTotals {
    /// Spans that found room in the queue.
    pub(super) queued: Total,
    /// Spans that the collector has taken.
    pub(super) exported: Total,
    /// Spans that found no room.
    overflowed: Total,
    /// Spans that found room and that the collector did not take.
    pub(super) dropped: Total,
}

#[derive(Debug)]
struct SpanCollector(Arc<SpanTotals>);

/// Returns a queue and its other end.
pub(super) fn span_queue(sample: u32) -> (SpanQueue, Receiver<SpanFacts>, Arc<SpanTotals>) {
    let ((waiting, taken), totals) = (channel(QUEUE_LEN_MAX), Arc::new(SpanTotals::default()));
    (SpanQueue { waiting, sample, totals: totals.clone() }, taken, totals)
}

impl SpanQueue {
    /// Takes a decision if its trace is sampled, or if it has none and is one of the sample.
    pub(super) fn take(&self, asked: AskedDecision<'_>) {
        let parent = match asked.trace {
            CallTrace::NotSampled => return,
            CallTrace::Sampled(parent) => Some(**parent),
            CallTrace::Untold if fastrand::u32(..ADMISSIONS_ALL) >= self.sample => return,
            CallTrace::Untold => None,
        };
        let AskedDecision { decision, took, error, .. } = asked;
        let facts = SpanFacts {
            parent,
            rule: decision.status.as_ref().map(|status| status.rule.clone()),
            allowed: decision.allowed,
            source: decision.source,
            by: decision.by,
            ended: unix_time(),
            took,
            error,
        };
        let total = if self.waiting.try_send(facts).is_ok() { &self.totals.queued } else { &self.totals.overflowed };
        total.add(1);
    }
}

impl SpanTotals {
    /// Returns the number of spans that the collector never gets.
    pub(super) fn lost(&self) -> u64 {
        self.overflowed.get() + self.dropped.get()
    }

    /// Counts the spans that still wait as lost, at the end of the process. Returns their number.
    pub(super) fn drop_rest(&self) -> u64 {
        let rest = self.queued.get().saturating_sub(self.exported.get() + self.dropped.get());
        self.dropped.add(rest);
        rest
    }

    /// Returns the metrics of the export as OpenMetrics text.
    pub(super) fn encode(self: &Arc<Self>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(SpanCollector(self.clone())));
        tollgate_metrics::encode(&registry)
    }
}

impl Collector for SpanCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let exported = MetricName("tollgate_otlp_spans", "Spans that the collector of OpenTelemetry has taken.", None);
        encode_metric(&mut encoder, exported, &ConstCounter::new(self.0.exported.get()))?;
        let lost = MetricName(
            "tollgate_otlp_spans_lost",
            "Spans that were lost, because the collector of OpenTelemetry did not take them or not in time.",
            None,
        );
        encode_metric(&mut encoder, lost, &ConstCounter::new(self.0.lost()))
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Decision, DecisionId};
    use tollgate_core::clock::Timestamp;

    use super::*;

    fn take(queue: &SpanQueue, trace: &CallTrace, calls: usize) {
        let id = DecisionId { life: "gw-1-1".into(), call: 1, partition: None };
        let decision = Decision::new(true, Source::Store, Timestamp::default(), id);
        for _ in 0..calls {
            queue.take(AskedDecision { decision: &decision, trace, took: Duration::ZERO, error: None });
        }
    }

    #[test]
    fn a_trace_decides_by_its_flag_and_a_call_without_one_by_the_sample() {
        let parent = TraceContext::new(1, 2);
        let sampled = CallTrace::from(parent);
        for (trace, sample, parents) in [
            (&sampled, 0, vec![Some(parent)]),
            (&CallTrace::NotSampled, ADMISSIONS_ALL, vec![]),
            (&CallTrace::Untold, ADMISSIONS_ALL, vec![None]),
            (&CallTrace::Untold, 0, vec![]),
        ] {
            let (queue, mut taken, _) = span_queue(sample);
            take(&queue, trace, 1);
            let found: Vec<_> = std::iter::from_fn(|| taken.try_recv().ok()).map(|facts| facts.parent).collect();
            assert_eq!(found, parents, "{trace:?} at {sample}");
        }
    }

    /// `capped`: a queue that nobody empties takes no more than its cap, and each further span is counted.
    #[test]
    fn past_the_cap_spans_are_lost_and_counted() {
        let (queue, mut taken, totals) = span_queue(ADMISSIONS_ALL);
        take(&queue, &CallTrace::Untold, QUEUE_LEN_MAX + 7);
        assert_eq!((totals.queued.get(), totals.lost()), (QUEUE_LEN_MAX as u64, 7));
        assert!(totals.encode().contains("tollgate_otlp_spans_lost_total 7\n"), "{}", totals.encode());
        assert!(taken.try_recv().is_ok());
        totals.exported.add(1);
        assert_eq!(totals.drop_rest(), QUEUE_LEN_MAX as u64 - 1);
        assert_eq!(totals.lost(), QUEUE_LEN_MAX as u64 + 6);
    }
}
