//! A closed batch, which waits for the bus or is in flight.

use tollgate_core::messages::calls::Batch;

#[derive(Debug)]
pub(crate) struct ClosedBatch {
    pub(crate) batch: Batch,
    pub(crate) rounds: BatchRounds,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchRounds {
    /// Round up to which this batch and the earlier ones of its partition contain all rows.
    pub(crate) through: u64,
    /// First and last round that its rows may name.
    pub(crate) first: u64,
    pub(crate) last: u64,
}
