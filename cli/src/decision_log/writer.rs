//! Thread that writes the lines of a decision log, and its metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
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
use super::sink_report::SinkReport;

/// Maximum number of lines of one write.
const WRITE_LEN_MAX: usize = 1_000;
/// Interval at which waiting lines are tried again, and reports are read.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
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
    sink: Sink,
    totals: Arc<LogTotals>,
    clock: SystemClock,
    throttle: LogThrottle,
    /// Number of skipped decisions that the log has told.
    told: u64,
    /// Reason of the last loss that the log has not told.
    reason: Option<String>,
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
    pub(super) fn new(sink: Sink, totals: Arc<LogTotals>) -> Self {
        Self { sink, totals, clock: SystemClock::start(), throttle: LogThrottle::default(), told: 0, reason: None }
    }

    /// Writes events until the end of the log.
    pub(super) fn run(&mut self, inputs: &Receiver<LogInput>) {
        let (mut events, mut is_stopped) = (Vec::new(), false);
        while !is_stopped {
            let first = match inputs.recv_timeout(REPORT_INTERVAL) {
                Err(RecvTimeoutError::Disconnected) => break,
                first => first.ok(),
            };
            for input in first.into_iter().chain(inputs.try_iter()).take(WRITE_LEN_MAX) {
                match input {
                    LogInput::Event(event) => events.push(*event),
                    LogInput::Stop => is_stopped = true,
                }
            }
            let written = self.sink.write(&events);
            events.clear();
            self.count(written);
            self.tell_skipped(false);
        }
        let written = self.sink.finish(FLUSH_WAIT);
        self.count(written);
        self.tell_skipped(true);
    }

    fn count(&mut self, SinkReport { written, lost, reason }: SinkReport) {
        self.totals.written.add(written as u64);
        self.totals.lost.add(lost as u64);
        if reason.is_some() {
            self.reason = reason;
        }
    }

    /// Logs the number of decisions without a line, at most once a minute and at the end.
    fn tell_skipped(&mut self, is_last: bool) {
        let lines = self.totals.skipped() - self.told;
        if lines == 0 || self.throttle.count(self.clock.now()).is_none() && !is_last {
            return;
        }
        self.told += lines;
        if let Some(reason) = self.reason.take() {
            tracing::warn!(lines, "decision log: decisions have no line: {reason}; make room, or check Kafka");
            return;
        }
        tracing::warn!(
            lines,
            "decision log: decisions have no line, because there were too many: raise --decision-log-lines-max, or log fewer with --decision-log-denials once"
        );
    }
}
