//! Bus: the partitioned logs that carry calls, signals, presence and rules between agents and aggregators, and the ledger
//! and the usage of all regions.
//!
//! No call waits for the bus. Writers enqueue records and receive their offsets later ([`LogWriter::reports`]); readers
//! run on their own threads. Records are bytes on every backend, the [`embedded`] one included, so that code
//! that works in one process also works in many. Every backend passes the same [conformance] suite. `tollgate-wire`
//! encodes the records.

mod error;
mod logs;
mod reports;
pub mod embedded;
pub mod link;
#[cfg(feature = "kafka")]
pub mod kafka;
mod supervise;
#[doc(hidden)]
pub mod conformance;

pub use error::BusError;
pub use logs::{Bus, BusRecord, DeliveryReport, LogReader, LogWriter, QueueFull, ReadFrom};
pub use supervise::supervise;
pub use tollgate_core::messages::Topic;
