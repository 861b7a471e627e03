//! Counters: their identifiers (`id`) and the charges that a store applies to them (`charge`).

mod id;
mod charge;

pub use charge::{Charge, ChargeMode, ChargeResult, ChargeResults};
pub use id::{CounterId, DigestKey, Partition, RequestId, SlotId};
