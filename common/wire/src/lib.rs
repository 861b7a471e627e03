//! The wire: domain types to bytes and back.
//!
//! Domain types are not serializable; each has a twin generated from `proto/tollgate/v1/tollgate.proto`. Reading checks
//! everything that a domain type promises (indexes, lengths, windows), so a poisoned record is an error here and nothing
//! further in.

mod calls;
mod signals;
mod presence;
mod rules;

use std::sync::Arc;

use prost::Message;

use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{Batch, CounterEntry};
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::rules::Published;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::window::{Window, WindowError};

#[expect(clippy::pedantic, unreachable_pub, reason = "generated")]
mod v1 {
    include!("tollgate.v1.rs");
}

/// The version that is written. A reader accepts this one only, until there is another.
pub const VERSION: u32 = 1;
/// The most counters, descriptor sets or rows of one batch; more is poison.
pub const BATCH_ROWS_LEN_MAX: usize = 65_536;

/// The longest record that is read, in bytes; more than any agent or aggregator writes.
pub const RECORD_LEN_MAX: usize = 1 << 20;

/// Why bytes are not the record that was expected.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Not protobuf of this form.
    #[error("not a record of this form: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// Written by a newer Tollgate.
    #[error("version {0} is not known here; this reader knows version {VERSION}: upgrade it first")]
    Version(u32),
    /// A window that cannot be.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// Anything else that a record must hold.
    #[error("{0}")]
    Invalid(&'static str),
}

/// A record that can be written to a log and read back.
pub trait Record: Sized {
    /// The bytes of the record.
    fn encode(&self) -> Vec<u8>;

    /// The record of these bytes.
    ///
    /// # Errors
    /// When the bytes are of another form, of an unknown version, or break a promise of the record.
    fn decode(bytes: &[u8]) -> Result<Self, WireError>;
}

impl Record for Batch {
    fn encode(&self) -> Vec<u8> {
        calls::to_wire(self).encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check_len(bytes)?;
        calls::from_wire(v1::CallBatch::decode(bytes)?)
    }
}

impl Record for SignalBatch {
    fn encode(&self) -> Vec<u8> {
        signals::to_wire(self).encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check_len(bytes)?;
        signals::from_wire(v1::SignalBatch::decode(bytes)?)
    }
}

impl Record for Presence {
    fn encode(&self) -> Vec<u8> {
        presence::to_wire(self).encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check_len(bytes)?;
        presence::from_wire(v1::Presence::decode(bytes)?)
    }
}

impl Record for Published {
    fn encode(&self) -> Vec<u8> {
        rules::to_wire(self).encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check_len(bytes)?;
        rules::from_wire(v1::Rules::decode(bytes)?)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "each half is cut out of the whole")]
fn counter_to_wire(entry: &CounterEntry) -> v1::Counter {
    let id = entry.id.as_u128();
    v1::Counter {
        id_high: (id >> 64) as u64,
        id_low: id as u64,
        rule: entry.rule.to_string(),
        label: entry.label.clone(),
        generation: entry.generation,
        quota: entry.quota,
        window_ms: entry.window.width_ms(),
        sub_windows: entry.window.parts(),
    }
}

/// Reads a counter; `known` is the rule of the one before it, which mostly is its rule, too.
fn counter_from_wire(counter: v1::Counter, known: Option<&Arc<str>>) -> Result<CounterEntry, WireError> {
    let known = known.filter(|rule| ***rule == *counter.rule).cloned();
    Ok(CounterEntry {
        id: CounterId::from_u128(u128::from(counter.id_high) << 64 | u128::from(counter.id_low)),
        rule: known.unwrap_or_else(|| counter.rule.into()),
        label: counter.label,
        generation: counter.generation,
        quota: counter.quota,
        window: Window::new(counter.window_ms, counter.sub_windows)?,
    })
}

/// Before anything is made of them: a short record can hold a million empty things.
fn check_len(bytes: &[u8]) -> Result<(), WireError> {
    check(bytes.len() <= RECORD_LEN_MAX, "a record is longer than any that is written here")
}

fn check_version(version: u32) -> Result<(), WireError> {
    if version == VERSION { Ok(()) } else { Err(WireError::Version(version)) }
}

fn check(holds: bool, otherwise: &'static str) -> Result<(), WireError> {
    if holds { Ok(()) } else { Err(WireError::Invalid(otherwise)) }
}

fn shared(texts: Vec<String>) -> Vec<Arc<str>> {
    texts.into_iter().map(Arc::from).collect()
}

#[cfg(test)]
mod tests;
