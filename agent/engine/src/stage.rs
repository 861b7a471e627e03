//! First stage of an operation: it is done, or the store must apply charges.
//!
//! The operations return it; [`operation`](crate::operation) makes a request to the store of it, or charges the own table.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::counter::Charge;

/// Deadline of requests to the store that no call waits for: settlements, releases, backfills and those of the maintenance.
pub const UNATTENDED_DEADLINE: Duration = Duration::from_millis(50);

/// Charges of one request to the store, in the order of its answer.
pub(crate) type Charges = SmallVec<[Charge; 2]>;

/// Result `T` of an operation, or the state `P` with which it continues after the store has applied the charges within the
/// deadline.
#[expect(clippy::large_enum_variant, reason = "it lives for one call, and a box would cost an allocation")]
pub(crate) enum Stage<T, P> {
    Done(T),
    NeedsStore(Charges, Duration, P),
}
