//! Epochs of leases: all leases of an agent end at once when it learns that they may not be charged any more, or that it may
//! not know the store's time.
//!
//! A lease names the epoch in which it was requested, so an answer that was under way at the end of an epoch grants nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::counter::PrimaryIndex;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseEpoch(u64);

#[derive(Debug, Default)]
pub(crate) struct LeaseEpochs(AtomicU64);

/// Number of bits of an epoch below the index of its primary.
const EPOCH_BITS: u32 = u64::BITS - 8;

impl LeaseEpochs {
    /// Returns the epochs of a primary, which are different from those of any other one: a counter may move between them.
    pub(crate) fn of(primary: PrimaryIndex) -> Self {
        Self(AtomicU64::new((primary.index() as u64) << EPOCH_BITS))
    }

    #[inline]
    pub(crate) fn current(&self) -> LeaseEpoch {
        LeaseEpoch(self.0.load(Ordering::Acquire))
    }

    /// Begins another epoch, which ends all leases.
    pub(crate) fn end(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
