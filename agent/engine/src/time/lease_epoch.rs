//! Epochs of leases: all leases of an agent end at once when it learns that they may not be charged any more, or that it may
//! not know the store's time.
//!
//! A lease names the epoch in which it was requested, so an answer that was under way at the end of an epoch grants nothing.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseEpoch(u64);

#[derive(Debug, Default)]
pub(crate) struct LeaseEpochs(AtomicU64);

impl LeaseEpochs {
    #[inline]
    pub(crate) fn current(&self) -> LeaseEpoch {
        LeaseEpoch(self.0.load(Ordering::Acquire))
    }

    /// Begins another epoch, which ends all leases.
    pub(crate) fn end(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
