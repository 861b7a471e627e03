//! First calls of a log and its formats, by which a user sees that the log is read as it is meant.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_core::one_line::one_line;

use super::input::{BadLine, ReplayInput};
use super::log::ClientSource;
use super::report::utc;
use crate::figures::wrapped;

/// Formats of a log, and its first calls.
#[derive(Clone, Debug, Serialize)]
pub struct LogSample {
    formats: BTreeMap<String, u64>,
    calls: Vec<SampleCall>,
    bad_lines: u64,
    bad_lines_shown: Vec<BadLine>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct SampleCall {
    time: String,
    descriptors: Map<String, Value>,
    /// Fields that name the client, and the addresses that were passed over.
    client: Option<ClientSource>,
    cost: u64,
}

impl LogSample {
    /// Returns the formats and all calls of an input that is read to be shown.
    #[must_use]
    pub fn of(input: &ReplayInput) -> Self {
        let calls = input.recording.calls().zip(&input.sources).map(|((at, call), (_, source))| SampleCall {
            time: utc(at),
            descriptors: call.descriptors().map(|(name, value)| (name.to_owned(), value.into())).collect(),
            client: source.clone(),
            cost: call.cost(),
        });
        Self {
            formats: input.lines.formats.clone(),
            calls: calls.collect(),
            bad_lines: input.lines.bad,
            bad_lines_shown: input.lines.bad_shown.clone(),
            warnings: input.warnings(),
        }
    }
}

impl fmt::Display for LogSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for format in self.formats.keys() {
            writeln!(f, "{}", wrapped(&format!("format: {format}")))?;
        }
        if self.calls.is_empty() {
            writeln!(f, "no calls")?;
        }
        for call in &self.calls {
            writeln!(f, "\n{}", call.time)?;
            for (name, value) in &call.descriptors {
                let text = format!("  {name:<12} {}", value.as_str().unwrap_or_default());
                writeln!(f, "{}", wrapped(&one_line(&text)))?;
            }
            for (name, value) in call.client.iter().flat_map(ClientSource::rows) {
                writeln!(f, "{}", wrapped(&one_line(&format!("  {name:<12} {value}"))))?;
            }
            if call.cost != 1 {
                writeln!(f, "  {:<12} {}", "cost", call.cost)?;
            }
        }
        for bad in &self.bad_lines_shown {
            writeln!(f, "{}", wrapped(&one_line(&format!("not read: {}: {}", bad.place, bad.reason))))?;
        }
        for warning in &self.warnings {
            writeln!(f, "{}", wrapped(&one_line(&format!("warning: {warning}"))))?;
        }
        Ok(())
    }
}
