//! Places for the lines of a decision log.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use tollgate_bus::kafka::{KafkaBus, KafkaSettings, KafkaWriter, TopicSet};
use tollgate_bus::{Bus, BusError, LogWriter, Topic, supervise};
use tollgate_core::messages::decisions::DecisionEvent;
use tollgate_wire::decisions::decision_line;

use super::log_file::LogFile;

/// Place for lines.
pub(super) enum Sink {
    Stderr,
    File(LogFile),
    Kafka(KafkaSink),
}

/// Writer of the topic `decisions`. It has a connection of its own, so that a missing topic stops no limit.
pub(super) struct KafkaSink {
    writer: KafkaWriter,
    partitions: u32,
    stop: Arc<AtomicBool>,
}

impl Sink {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn file(path: &Path) -> anyhow::Result<Self> {
        let reason = || {
            let path = path.display();
            format!("--decision-log: cannot write {path}; create its folder, or name a file that this user may write")
        };
        LogFile::open(path).map(Self::File).with_context(reason)
    }

    /// Connects to the topic. Kafka may be unavailable.
    ///
    /// # Errors
    /// If a setting is not valid.
    pub(super) fn kafka(settings: KafkaSettings) -> anyhow::Result<Self> {
        let bus = KafkaBus::new(settings.carrying(TopicSet::Decisions))?;
        let stop = Arc::new(AtomicBool::new(false));
        let report = |prepared: Result<(), &BusError>| {
            if let Err(error) = prepared {
                tracing::warn!(
                    "decision log: lines wait for the topic `decisions`, and limits do not depend on it: {error}"
                );
            }
        };
        supervise(bus.clone(), stop.clone(), report)?;
        let partitions = bus.partitions(Topic::Decisions);
        Ok(Self::Kafka(KafkaSink { writer: bus.writer(Topic::Decisions), partitions, stop }))
    }

    /// Writes events. Returns the number of those that were lost, with the reason.
    pub(super) fn write(&mut self, events: &[DecisionEvent]) -> Result<(), (usize, String)> {
        if let Self::Kafka(kafka) = self {
            return kafka.write(events);
        }
        let mut lines = String::new();
        for event in events {
            lines.push_str(&decision_line(event));
            lines.push('\n');
        }
        let written = match self {
            Self::File(file) => file.write(lines.as_bytes()),
            _ => std::io::stderr().write_all(lines.as_bytes()),
        };
        written.map_err(|error| (events.len(), error.to_string()))
    }

    /// Waits until everything is written.
    pub(super) fn flush(&mut self, wait: std::time::Duration) {
        if let Self::Kafka(kafka) = self {
            kafka.writer.flush(wait);
        }
    }
}

impl KafkaSink {
    /// Decisions on one caller are in one partition, in order.
    fn write(&mut self, events: &[DecisionEvent]) -> Result<(), (usize, String)> {
        self.writer.reports();
        let refused = events.iter().filter(|event| {
            let mut caller = DefaultHasher::new();
            event.limit.as_ref().map(|limit| (&limit.rule, &limit.caller)).hash(&mut caller);
            let partition = u32::try_from(caller.finish() % u64::from(self.partitions)).unwrap_or_default();
            self.writer.append(partition, decision_line(event).into_bytes(), 0).is_err()
        });
        match refused.count() {
            0 => Ok(()),
            refused => Err((refused, "the queue for Kafka is full".to_owned())),
        }
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
