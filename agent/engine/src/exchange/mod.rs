//! Exchange with the bus: batches of calls go out, signals and presence come in.

pub(crate) mod batcher;
pub(crate) mod fleet;
pub(crate) mod signals;

pub use fleet::FLEET_EXPECTED_DEFAULT;
