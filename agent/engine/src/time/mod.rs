//! Time of the store: the bounds that an agent can prove, and the epochs in which leases live.

mod time_bounds;
mod lease_epoch;

pub(crate) use lease_epoch::{LeaseEpoch, LeaseEpochs};
pub use time_bounds::TimeBounds;
pub(crate) use time_bounds::{ClockStepMs, DRIFT_PPM, ServerClock};
