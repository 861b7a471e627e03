//! Batches of calls: the publishing thread gathers the rows of all buffers into one open batch per partition.
//!
//! Rows become numbers of dictionaries here and not in the call. Descriptions of counters and texts that were made once are
//! kept from batch to batch. `housekeeping/exchange` closes the batches that are due and hands them to the bus. All queues have
//! caps; a row past them is refused.

mod dictionary;
mod closed_batch;
mod open_batch;

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{DigestKey, Partition};
use tollgate_core::messages::calls::BatchName;

use crate::bus::row_buffer::{BatchedSubject, BufferedRow, OwnValues, RowBuffer};
use crate::rules::ActiveRules;
pub(crate) use closed_batch::{BatchRounds, ClosedBatch};
use dictionary::as_u32;
use open_batch::OpenBatch;

pub(crate) struct Batcher {
    key: DigestKey,
    /// Rules by which the newest row was decided. The texts that a batch may show depend on them.
    rules: Option<Arc<ActiveRules>>,
    partitions: Box<[OpenBatch]>,
    /// Time from which the rows of the open batches are due for the bus.
    rows_due_at: Timestamp,
}

impl Batcher {
    pub(crate) fn new(key: &DigestKey, agent: &Arc<str>, region: &Arc<str>, epoch: u64, partitions: u32) -> Self {
        let name = |partition| BatchName { agent: agent.clone(), epoch, partition, sequence: 1 };
        let partitions = (0..partitions).map(|partition| OpenBatch::new(name(partition), region.clone())).collect();
        Self { key: key.clone(), rules: None, partitions, rows_due_at: Timestamp::default() }
    }

    /// Begins a round, whose rows are due at this time. Rows of earlier rounds that are still open keep their time.
    pub(crate) fn begin_round(&mut self, rows_due_at: Timestamp) {
        if self.open_rows() == 0 {
            self.rows_due_at = rows_due_at;
        }
    }

    /// Adds a row of a subject that was taken in this round. The subject is a row of its buffer.
    ///
    /// # Errors
    /// If there is no room; returns the partition of the row.
    #[inline]
    pub(crate) fn add(
        &mut self,
        round: u64,
        buffer: &RowBuffer,
        subject: &BufferedRow,
        row: OwnValues,
        batched: &mut BatchedSubject,
    ) -> Result<(), Partition> {
        let trace = row.trace.and_then(|index| buffer.trace(index));
        match self.partitions.get_mut(batched.partition as usize) {
            Some(open) if open.has_room_for_row_of(batched) => open.push(round, subject, row, trace, batched),
            _ => self.add_subject(round, buffer, subject, row, batched)?,
        }
        Ok(())
    }

    /// Adds a row, and the values of its subject that its open batch does not contain yet.
    #[cold]
    fn add_subject(
        &mut self,
        round: u64,
        buffer: &RowBuffer,
        subject: &BufferedRow,
        row: OwnValues,
        batched: &mut BatchedSubject,
    ) -> Result<(), Partition> {
        let rules = &buffer.rules[subject.rules];
        if self.rules.as_ref().is_none_or(|known| !Arc::ptr_eq(known, rules)) {
            self.rules = Some(rules.clone());
            self.partitions.iter_mut().for_each(OpenBatch::forget_known);
        }
        let placed_by =
            subject.counter.map_or_else(|| self.key.call(buffer.descriptors(subject)), |counter| counter.id);
        let partition = placed_by.partition(as_u32(self.partitions.len()));
        let open = &mut self.partitions[partition as usize];
        if !open.make_room(round) {
            return Err(partition);
        }
        *batched = open.batched(buffer, subject, &rules.set, &self.key);
        open.push(round, subject, row, row.trace.and_then(|index| buffer.trace(index)), batched);
        Ok(())
    }

    /// Returns the time from which a batch is due for the bus; a time in the past if one waits already.
    pub(crate) fn due_at(&self) -> Timestamp {
        self.partitions.iter().map(|open| open.due_at(self.rows_due_at)).min().unwrap_or_default()
    }

    /// Closes the batches with rows and those of silent partitions, once the rows of a round are added. Only batches
    /// that are due are closed, unless `all` is set. No later row will be of a time before `complete_through`.
    pub(crate) fn close(&mut self, now: Timestamp, round: u64, complete_through: Timestamp, all: bool) {
        let due_at = self.rows_due_at;
        self.partitions.iter_mut().for_each(|open| open.close_round(now, round, complete_through, due_at, all));
    }

    pub(crate) fn take_waiting(&mut self, partition: Partition) -> Option<ClosedBatch> {
        self.partitions[partition as usize].take_waiting()
    }

    /// Puts a batch that the bus refused back at the front; returns false if there is no room.
    pub(crate) fn put_back(&mut self, closed: ClosedBatch) -> bool {
        self.partitions[closed.batch.name.partition as usize].put_back(closed)
    }

    pub(crate) fn open_rows(&self) -> usize {
        self.partitions.iter().map(OpenBatch::rows).sum()
    }

    pub(crate) fn waiting_batches(&self) -> usize {
        self.partitions.iter().map(OpenBatch::waiting_batches).sum()
    }
}
