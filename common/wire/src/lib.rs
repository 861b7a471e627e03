//! Encoding of Tollgate's messages as Protobuf, and validated decoding.
//!
//! Domain types are not serializable; each has a twin generated from `common/proto/tollgate/v1/tollgate.proto`.
//! Decoding validates everything that a domain type guarantees (indexes, lengths, windows), so an undecodable record is an
//! error here and never reaches other code. There is one file per topic; readers turn errors into dead letters.
//!
//! The generated code is checked in, so that a build needs neither `protoc` nor a build script.

mod calls;
mod signals;
mod presence;
mod rules;
mod ledger;
mod usage;
mod rollups;
pub mod decisions;

use std::sync::Arc;

use prost::Message;

use tollgate_core::counter::CounterId;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, CounterEntry, DenialCause};
use tollgate_core::messages::ledger::LedgerRecord;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::messages::rules::Published;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::messages::usage::UsageRecord;
use tollgate_core::window::{Window, WindowError};

#[expect(unreachable_pub, reason = "generated")]
mod v1 {
    include!("tollgate.v1.rs");
}

/// Version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Maximum number of counters, descriptor sets or rows of one batch. Larger batches are not decoded.
pub const BATCH_ROWS_LEN_MAX: usize = 65_536;

/// Maximum length of a record in bytes, above that of any record that Tollgate writes.
pub const RECORD_LEN_MAX: usize = 1 << 20;

/// Error of bytes that are not a valid record.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Bytes that are not Protobuf of this message.
    #[error("malformed record: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// Record of an unknown version.
    #[error("unknown record version {0}; this process reads version {VERSION}: upgrade it before the writers")]
    Version(u32),
    /// Window that cannot be represented.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// Violation of another guarantee of the domain type.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Message that can be encoded and decoded.
pub trait Record: Sized {
    /// Encodes the message.
    fn encode(&self) -> Vec<u8>;

    /// Decodes a message.
    ///
    /// # Errors
    /// Returns an error if the bytes are malformed, have an unknown version, or violate a guarantee of the domain type.
    fn decode(bytes: &[u8]) -> Result<Self, WireError>;
}

/// Implements [`Record`] by the functions of a topic's file.
macro_rules! record {
    ($message:ty, $topic:ident, $wire:ty) => {
        impl Record for $message {
            fn encode(&self) -> Vec<u8> {
                $topic::to_wire(self).encode_to_vec()
            }

            fn decode(bytes: &[u8]) -> Result<Self, WireError> {
                // Checked before anything is allocated: a short record can contain a million empty messages.
                check(bytes.len() <= RECORD_LEN_MAX, "the record exceeds the maximum length of 1 MiB")?;
                let wire = <$wire>::decode(bytes)?;
                if wire.version != VERSION {
                    return Err(WireError::Version(wire.version));
                }
                $topic::from_wire(wire)
            }
        }
    };
}

record!(Batch, calls, v1::CallBatch);
record!(SignalBatch, signals, v1::SignalBatch);
record!(Presence, presence, v1::Presence);
record!(Published, rules, v1::Rules);
record!(LedgerRecord, ledger, v1::LedgerRecord);
record!(UsageRecord, usage, v1::UsageRecord);

/// Enum with a twin in the schema.
trait Twin: Sized {
    fn to_wire(self) -> i32;
    fn from_wire(written: i32) -> Result<Self, WireError>;
}

/// Implements [`Twin`] for an enum whose twin has the same name and the same variants.
macro_rules! twin {
    ($name:ident { $($variant:ident),+ }, $otherwise:literal) => {
        impl Twin for $name {
            fn to_wire(self) -> i32 {
                #[allow(unreachable_patterns, reason = "only enums that may grow need the last arm; a test covers them")]
                match self { $(Self::$variant => v1::$name::$variant.into(),)+ _ => v1::$name::Unspecified.into() }
            }

            fn from_wire(written: i32) -> Result<Self, WireError> {
                match v1::$name::try_from(written) {
                    $(Ok(v1::$name::$variant) => Ok(Self::$variant),)+
                    _ => Err(WireError::Invalid($otherwise)),
                }
            }
        }
    };
}

twin!(DenialCause { Count, List, Late, Fallback, Emergency }, "a row has an unknown reason of a denial");
twin!(Source { Local, Store, Signal, Fallback }, "a row has an unknown source");
twin!(Role { Agent, Aggregator }, "the member has an unknown role");

#[expect(clippy::cast_possible_truncation, reason = "the digest is split into its two halves")]
fn counter_to_wire(entry: &CounterEntry) -> v1::Counter {
    let id = entry.id.as_u128();
    v1::Counter {
        id_high: (id >> 64) as u64,
        id_low: id as u64,
        rule: entry.rule.to_string(),
        label: entry.label.to_string(),
        generation: entry.generation,
        quota: entry.quota,
        window_ms: entry.window.width_ms(),
        sub_windows: entry.window.sub_windows(),
    }
}

/// `known` is the rule of the previous counter, whose allocation is reused if it is the same rule.
fn counter_from_wire(counter: v1::Counter, known: Option<&Arc<str>>) -> Result<CounterEntry, WireError> {
    let known = known.filter(|rule| ***rule == *counter.rule).cloned();
    Ok(CounterEntry {
        id: CounterId::from_u128(u128::from(counter.id_high) << 64 | u128::from(counter.id_low)),
        rule: known.unwrap_or_else(|| counter.rule.into()),
        label: counter.label.into(),
        generation: counter.generation,
        quota: counter.quota,
        window: Window::new(counter.window_ms, counter.sub_windows)?,
    })
}

fn check(holds: bool, otherwise: &'static str) -> Result<(), WireError> {
    if holds { Ok(()) } else { Err(WireError::Invalid(otherwise)) }
}

#[cfg(test)]
mod tests;
