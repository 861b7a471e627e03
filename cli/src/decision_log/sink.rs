//! Places for the lines of a decision log.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tollgate_core::messages::decisions::DecisionEvent;
use tollgate_wire::decisions::decision_line;

use super::kafka_sink::KafkaSink;
use super::log_file::LogFile;
use super::sink_report::SinkReport;

/// Place for lines.
pub(super) enum Sink {
    Stderr,
    File(LogFile),
    Kafka(KafkaSink),
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

    /// Writes events, and reports on these and on earlier ones.
    pub(super) fn write(&mut self, events: &[DecisionEvent]) -> SinkReport {
        if let Self::Kafka(kafka) = self {
            return kafka.write(events);
        }
        if events.is_empty() {
            return SinkReport::default();
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
        match written {
            Ok(()) => SinkReport { written: events.len(), ..SinkReport::default() },
            Err(error) => SinkReport { lost: events.len(), reason: Some(error.to_string()), ..SinkReport::default() },
        }
    }

    /// Waits until everything is written, at most this long, and reports on it.
    pub(super) fn finish(&mut self, wait: Duration) -> SinkReport {
        if let Self::Kafka(kafka) = self { kafka.finish(wait) } else { SinkReport::default() }
    }
}
