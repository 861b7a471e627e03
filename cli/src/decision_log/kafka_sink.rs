//! The topic `decisions` as a place for lines. It has a connection of its own, so that a missing topic stops no limit.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings, KafkaWriter, TopicSet};
use tollgate_bus::{Bus, BusError, LogWriter, QueueFull, Topic, supervise};
use tollgate_core::messages::decisions::DecisionEvent;
use tollgate_wire::decisions::decision_line;

use super::sink_report::SinkReport;

/// Maximum number of lines that wait for the topic.
const HELD_LEN_MAX: usize = 8_192;

/// Writer of the topic.
pub(super) struct KafkaSink {
    writer: KafkaWriter,
    partitions: u32,
    /// Lines that the writer has no room for, with their partitions, or that wait until the topic can be used.
    held: VecDeque<(u32, Vec<u8>)>,
    /// Number of lines that the writer has and did not report on.
    unreported: usize,
    stop: Arc<AtomicBool>,
}

impl KafkaSink {
    /// Connects to the topic. Kafka may be unavailable.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub(super) fn connect(settings: KafkaSettings) -> anyhow::Result<Self> {
        let bus = KafkaBus::new(settings.carrying(TopicSet::Decisions))?;
        let stop = Arc::new(AtomicBool::new(false));
        let report = |prepared: Result<(), &BusError>| {
            if let Err(error) = prepared {
                tracing::warn!(
                    "decision log: up to {HELD_LEN_MAX} lines wait for the topic `decisions`, and limits do not depend on it: {error}"
                );
            }
        };
        supervise(bus.clone(), stop.clone(), report)?;
        let (writer, partitions) = (bus.writer(Topic::Decisions), bus.partitions(Topic::Decisions));
        Ok(Self { writer, partitions, held: VecDeque::new(), unreported: 0, stop })
    }

    /// Hands events to the writer, after those that wait. Decisions on a caller under one rule are in one partition, in order.
    pub(super) fn write(&mut self, events: &[DecisionEvent]) -> SinkReport {
        let mut report = SinkReport::default();
        for event in events {
            if self.held.len() >= HELD_LEN_MAX {
                report.lost += 1;
                report.reason = Some("Kafka does not take the lines".to_owned());
                continue;
            }
            let mut caller = DefaultHasher::new();
            event.limit.as_ref().map(|limit| (&limit.rule, &limit.caller)).hash(&mut caller);
            let partition = u32::try_from(caller.finish() % u64::from(self.partitions)).unwrap_or_default();
            self.held.push_back((partition, decision_line(event).into_bytes()));
        }
        self.hand_over();
        self.take_reports(&mut report);
        report
    }

    /// Waits for the reports on all lines. Those without one are lost.
    pub(super) fn finish(&mut self, wait: Duration) -> SinkReport {
        let mut report = SinkReport::default();
        self.hand_over();
        self.writer.flush(wait);
        self.take_reports(&mut report);
        let rest = self.held.len() + self.unreported;
        if rest > 0 {
            report.lost += rest;
            report.reason = Some(format!("Kafka has not acknowledged the lines within {wait:?}"));
        }
        (self.held, self.unreported) = (VecDeque::new(), 0);
        report
    }

    fn hand_over(&mut self) {
        while let Some((partition, line)) = self.held.pop_front() {
            if let Err(QueueFull(line)) = self.writer.append(partition, line, 0) {
                self.held.push_front((partition, line));
                return;
            }
            self.unreported += 1;
        }
    }

    fn take_reports(&mut self, report: &mut SinkReport) {
        for delivered in self.writer.reports() {
            self.unreported = self.unreported.saturating_sub(1);
            if delivered.offset.is_some() {
                report.written += 1;
            } else {
                report.lost += 1;
                report.reason = Some("Kafka rejected the lines".to_owned());
            }
        }
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
