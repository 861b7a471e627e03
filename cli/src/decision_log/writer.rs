//! Thread that writes the lines of a decision log, and its metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::log_throttle::LogThrottle;
use tollgate_core::messages::decisions::DecisionEvent;
use tollgate_engine::{DecisionSampler, Total};
use tollgate_metrics::{MetricName, encode_metric};

use super::sink::Sink;

/// Maximum number of lines of one write.
const WRITE_LEN_MAX: usize = 1_000;
/// Time for which a stop waits until Kafka has the last lines.
const FLUSH_WAIT: Duration = Duration::from_secs(5);

/// Message for the thread.
pub(super) enum LogInput {
    Event(Box<DecisionEvent>),
    Stop,
}

/// Numbers of lines.
#[derive(Debug)]
pub(super) struct LogTotals {
    sampler: Arc<DecisionSampler>,
    written: Total,
    lost: Total,
}

pub(super) struct LogWriterThread {
    pub(super) sink: Sink,
    pub(super) totals: Arc<LogTotals>,
}

impl LogTotals {
    pub(super) fn new(sampler: Arc<DecisionSampler>) -> Self {
        Self { sampler, written: Total::default(), lost: Total::default() }
    }

    /// Returns the number of decisions that should have a line and have none.
    fn skipped(&self) -> u64 {
        self.sampler.skipped() + self.lost.get()
    }

    /// Returns the metrics of the log as OpenMetrics text.
    pub(super) fn encode(self: &Arc<Self>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(TotalsCollector(self.clone())));
        tollgate_metrics::encode(&registry)
    }
}

#[derive(Debug)]
struct TotalsCollector(Arc<LogTotals>);

impl Collector for TotalsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let written = MetricName("tollgate_decision_log_lines", "Lines of the decision log.", None);
        encode_metric(&mut encoder, written, &ConstCounter::new(self.0.written.get()))?;
        let skipped = MetricName(
            "tollgate_decision_log_skipped",
            "Decisions without a line, past the cap on lines per second, or because a line could not be written.",
            None,
        );
        encode_metric(&mut encoder, skipped, &ConstCounter::new(self.0.skipped()))
    }
}

impl LogWriterThread {
    /// Writes events until the end of the log.
    pub(super) fn run(&mut self, inputs: &Receiver<LogInput>) {
        let (clock, mut throttle, mut told) = (SystemClock::start(), LogThrottle::default(), 0);
        let (mut events, mut is_stopped) = (Vec::new(), false);
        while !is_stopped {
            let Ok(first) = inputs.recv() else { break };
            for input in std::iter::once(first).chain(inputs.try_iter()).take(WRITE_LEN_MAX) {
                match input {
                    LogInput::Event(event) => events.push(*event),
                    LogInput::Stop => is_stopped = true,
                }
            }
            let written = self.sink.write(&events);
            let (lost, reason) = written.err().map_or((0, None), |(lost, reason)| (lost, Some(reason)));
            self.totals.written.add((events.len() - lost) as u64);
            self.totals.lost.add(lost as u64);
            events.clear();
            let skipped = self.totals.skipped();
            if skipped > told && throttle.count(clock.now()).is_some() {
                let reason = reason.unwrap_or_else(|| "more than --decision-log-lines-max in a second".to_owned());
                tracing::warn!(
                    lines = skipped - told,
                    "decision log: decisions have no line: {reason}; raise the cap, log fewer (--decision-log-denials once), or make room"
                );
                told = skipped;
            }
        }
        self.sink.flush(FLUSH_WAIT);
    }
}
