//! The log `calls` of the world.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

/// A record that lies in the log.
#[derive(Clone, Debug)]
pub struct Stored {
    /// When it was appended.
    pub appended: Timestamp,
    /// The record.
    pub payload: Vec<u8>,
}

/// The log `calls`.
#[derive(Debug)]
pub struct SimBus {
    partitions: Vec<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    first: Offset,
    records: VecDeque<Stored>,
}

impl SimBus {
    pub(super) fn new(partitions: u32) -> Self {
        Self { partitions: (0..partitions).map(|_| Kept::default()).collect() }
    }

    pub(super) fn append(&mut self, partition: Partition, appended: Timestamp, payload: Vec<u8>) -> Offset {
        let kept = &mut self.partitions[partition as usize];
        kept.records.push_back(Stored { appended, payload });
        kept.first + kept.records.len() as Offset - 1
    }

    /// Drops what lies in a partition; offsets go on.
    pub(super) fn forget(&mut self, partition: Partition) {
        let kept = &mut self.partitions[partition as usize];
        kept.first += kept.records.len() as Offset;
        kept.records.clear();
    }

    /// The records of a partition from an offset on, as far as they are kept.
    pub fn from(&self, partition: Partition, offset: Offset) -> impl Iterator<Item = (Offset, &Stored)> {
        let kept = &self.partitions[partition as usize];
        let from = offset.max(kept.first);
        (from..).zip(kept.records.iter().skip(usize::try_from(from - kept.first).unwrap_or(usize::MAX)))
    }
}
