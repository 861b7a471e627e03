//! The batches of `rollups` on their way to the log.

use std::collections::BTreeMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;

/// Maximum number of records without a report. Losses of further ones are not repeated.
const UNREPORTED_LEN_MAX: usize = 10_000;

/// The batches of `rollups` that were published and not reported on, by their tags: partition and minute.
#[derive(Clone, Debug, Default)]
pub(super) struct PublishedRollups {
    pub(super) at: Timestamp,
    last_tag: u64,
    unreported: BTreeMap<u64, (Partition, u64)>,
}

impl PublishedRollups {
    /// Adds a batch and returns its tag.
    pub(super) fn add(&mut self, partition: Partition, minute: u64) -> u64 {
        self.last_tag += 1;
        if self.unreported.len() < UNREPORTED_LEN_MAX {
            self.unreported.insert(self.last_tag, (partition, minute));
        }
        self.last_tag
    }

    /// Returns partition and minute of a batch that is reported.
    pub(super) fn reported(&mut self, tag: u64) -> Option<(Partition, u64)> {
        self.unreported.remove(&tag)
    }
}
