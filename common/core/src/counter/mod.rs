//! Counters: their names (`id`), the charges of a request (`charge`), the stored record (`stored`), and the reference
//! semantics of charging ([`step()`]).

mod id;
mod charge;
mod stored;
mod step;

pub use charge::{COST_IMPOSSIBLE, Charge, ChargeMode, ChargeResult, ChargeResults};
pub use id::{CounterId, DigestKey, Partition, RequestId, SlotId};
pub use step::{Counters, StepError, step};
pub use stored::StoredCounter;
