//! Counters: their names (`id`, `digest_key`), the charges of a request (`charge`), the stored record (`stored`), the reference
//! semantics of charging ([`step()`]), and the errors of stores (`store_error`).

mod id;
mod primary;
mod known_counters;
mod digest_key;
mod charge;
mod store_error;
mod stored;
mod step;

pub use charge::{Charge, ChargeMode, ChargeResult, ChargeResults};
pub use digest_key::DigestKey;
pub use id::{CLUSTER_SLOTS, CallCorrection, CounterId, HashSlotId, Partition, RequestId};
pub use primary::{PRIMARIES_MAX, PrimaryIndex};
pub use step::{Counters, step, step_at_once, step_one};
pub use store_error::StoreError;
pub use stored::StoredCounter;
