//! Batches of calls: the publishing thread gathers the rows of all buffers into one open batch per partition.
//!
//! Rows become numbers of dictionaries here and not in the call. Descriptions of counters and texts that were made once are
//! kept from batch to batch. [`crate::exchange`] closes the batches that are due and hands them to the bus. All queues have
//! caps; a row past them is refused.

mod dictionary;
mod open_batch;

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{DigestKey, Partition};
use tollgate_core::messages::calls::{Batch, BatchName};

use crate::active_rules::ActiveRules;
use crate::row_buffer::{BatchedSubject, BufferedRow, RowBuffer};
use dictionary::as_u32;
use open_batch::OpenBatch;

/// Open and waiting batches of all partitions.
pub(crate) struct Batcher {
    key: DigestKey,
    /// Rules by which the newest row was decided. The texts that a batch may show depend on them.
    rules: Option<Arc<ActiveRules>>,
    partitions: Box<[OpenBatch]>,
}

/// A batch that waits for the bus.
#[derive(Debug)]
pub(crate) struct ClosedBatch {
    pub(crate) batch: Batch,
    pub(crate) rounds: BatchRounds,
}

/// Rounds of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchRounds {
    /// Round up to which this batch and the earlier ones of its partition contain all rows.
    pub(crate) through: u64,
    /// First and last round that its rows may say.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Batcher {
    pub(crate) fn new(key: &DigestKey, agent: &Arc<str>, region: &Arc<str>, epoch: u64, partitions: u32) -> Self {
        let name = |partition| BatchName { agent: agent.clone(), epoch, partition, sequence: 1 };
        let partitions = (0..partitions).map(|partition| OpenBatch::new(name(partition), region.clone())).collect();
        Self { key: key.clone(), rules: None, partitions }
    }

    /// Adds a row of a buffer that was taken in this round.
    ///
    /// # Errors
    /// If there is no room; returns the partition of the row.
    pub(crate) fn add(
        &mut self,
        round: u64,
        buffer: &RowBuffer,
        row: &BufferedRow,
        subject: &mut BatchedSubject,
    ) -> Result<(), Partition> {
        let partitions = as_u32(self.partitions.len());
        let rules = &buffer.rules[row.rules];
        if self.rules.as_ref().is_none_or(|known| !Arc::ptr_eq(known, rules)) {
            self.rules = Some(rules.clone());
            self.partitions.iter_mut().for_each(OpenBatch::forget_known);
        }
        let placed_by = row.counter.map_or_else(|| self.key.call(buffer.descriptors(row)), |counter| counter.id);
        let partition = placed_by.partition(partitions);
        let is_added = self.partitions[partition as usize].add(round, buffer, row, subject, &rules.set, &self.key);
        if is_added { Ok(()) } else { Err(partition) }
    }

    /// Returns the time from which a batch is due for the bus; the past if one waits already.
    pub(crate) fn due_at(&self) -> Timestamp {
        self.partitions.iter().map(OpenBatch::due_at).min().unwrap_or_default()
    }

    /// Closes the batches with rows, those of silent partitions, or all, once the rows of a round are added. No later row will
    /// be of a time before `complete_through`.
    pub(crate) fn close(&mut self, now: Timestamp, round: u64, complete_through: Timestamp, all: bool) {
        self.partitions.iter_mut().for_each(|open| open.close_round(now, round, complete_through, all));
    }

    /// Takes the oldest batch that waits in a partition.
    pub(crate) fn take_waiting(&mut self, partition: Partition) -> Option<ClosedBatch> {
        self.partitions[partition as usize].take_waiting()
    }

    /// Puts a batch that the bus refused back at the front; returns false if there is no room.
    pub(crate) fn put_back(&mut self, closed: ClosedBatch) -> bool {
        self.partitions[closed.batch.name.partition as usize].put_back(closed)
    }

    /// Returns the number of rows in open batches.
    pub(crate) fn open_rows(&self) -> usize {
        self.partitions.iter().map(OpenBatch::rows).sum()
    }

    /// Returns the number of closed batches that wait for the bus.
    pub(crate) fn waiting_batches(&self) -> usize {
        self.partitions.iter().map(OpenBatch::waiting_batches).sum()
    }
}
