//! Batches of calls: rows of all calls are gathered into one open batch per partition.
//!
//! Calls add rows under the lock of one partition and never wait; [`crate::exchange`] closes the batches that are due and
//! hands them to the bus. All queues have caps. Past them, rows are dropped and counted, and their units count as if no
//! signal would ever contain them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atomic_waker::AtomicWaker;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DescriptorSet, Row};

use crate::view::Sequence;

/// Time for which an open batch waits for further rows, in ms.
pub(crate) const LINGER_MS: u64 = 5;
/// Interval after which a partition gets a batch even if it is empty, in ms.
const SILENCE_MS_MAX: u64 = 1_000;
/// Maximum number of rows in one batch.
const BATCH_ROWS_MAX: usize = 4_096;
/// Text after which a batch gets no further row, in bytes. Brokers refuse records of more than a megabyte.
const BATCH_TEXT_BYTES_MAX: usize = 256 << 10;
/// Maximum number of closed batches per partition that wait for the bus.
const WAITING_LEN_MAX: usize = 64;

/// Open and waiting batches of all partitions.
pub(crate) struct Batcher {
    /// Wakes the shell of the exchange.
    pub(crate) waker: AtomicWaker,
    agent: Arc<str>,
    region: Arc<str>,
    epoch: u64,
    partitions: Box<[Mutex<OpenBatch>]>,
    dropped_rows: AtomicU64,
}

/// The open batch of one partition, and the closed ones that wait for the bus.
#[derive(Default)]
pub(crate) struct OpenBatch {
    hasher: RandomState,
    sequence: u64,
    opened_at: Option<Timestamp>,
    closed_at: Timestamp,
    complete_through: Timestamp,
    counters: HashMap<CounterId, u32, RandomState>,
    entries: Vec<CounterEntry>,
    text_indexes: HashMap<u64, u32, RandomState>,
    texts: Vec<String>,
    text_bytes: usize,
    sets: HashMap<u64, u32, RandomState>,
    descriptor_sets: Vec<DescriptorSet>,
    rows: Vec<Row>,
    waiting: VecDeque<Batch>,
}

impl Batcher {
    pub(crate) fn new(agent: Arc<str>, region: Arc<str>, epoch: u64, partitions: u32) -> Self {
        let open = || Mutex::new(OpenBatch { sequence: 1, ..OpenBatch::default() });
        Self {
            waker: AtomicWaker::default(),
            agent,
            region,
            epoch,
            partitions: (0..partitions).map(|_| open()).collect(),
            dropped_rows: AtomicU64::new(0),
        }
    }

    /// Returns the number of rows that never reached the log in this life.
    pub(crate) fn dropped_rows(&self) -> u64 {
        self.dropped_rows.load(Ordering::Relaxed)
    }

    /// Counts rows that the bus lost.
    pub(crate) fn count_lost(&self, rows: usize) {
        self.dropped_rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Adds a row and returns the number of its batch. The row is made with the dictionaries of the batch.
    pub(crate) fn publish(
        &self,
        partition: Partition,
        now: Timestamp,
        row: impl FnOnce(&mut OpenBatch) -> Row,
    ) -> Sequence {
        let mut open = self.partitions[partition as usize].lock();
        if open.rows.len() >= BATCH_ROWS_MAX || open.text_bytes >= BATCH_TEXT_BYTES_MAX {
            if open.waiting.len() >= WAITING_LEN_MAX {
                self.dropped_rows.fetch_add(1, Ordering::Relaxed);
                return Sequence::Unknown;
            }
            self.close(&mut open, partition, now);
        }
        let row = row(&mut open);
        open.rows.push(row);
        if open.opened_at.is_none() {
            open.opened_at = Some(now);
            self.waker.wake();
        }
        Sequence::Batch(open.sequence)
    }

    /// Returns the time from which a batch is due for the bus; the past if one waits already.
    pub(crate) fn due_at(&self) -> Timestamp {
        let due_at = |open: &Mutex<OpenBatch>| {
            let open = open.lock();
            if !open.waiting.is_empty() {
                return Timestamp::default();
            }
            let silent_at = open.closed_at.plus_ms(SILENCE_MS_MAX);
            open.opened_at.map_or(silent_at, |opened_at| opened_at.plus_ms(LINGER_MS).min(silent_at))
        };
        self.partitions.iter().map(due_at).min().unwrap_or_default()
    }

    /// Closes the batches that are due. No later row will be of a time before `complete_through`.
    pub(crate) fn close_due(&self, now: Timestamp, complete_through: Timestamp) {
        self.close_where(now, complete_through, |open| {
            let lingered = open.opened_at.is_some_and(|opened_at| now.ms_since(opened_at) >= LINGER_MS);
            let silent = now.ms_since(open.closed_at) >= SILENCE_MS_MAX;
            (lingered || silent) && open.waiting.len() < WAITING_LEN_MAX
        });
    }

    /// Closes all batches.
    pub(crate) fn close_all(&self, now: Timestamp, complete_through: Timestamp) {
        self.close_where(now, complete_through, |_| true);
    }

    /// Takes the oldest batch that waits in a partition.
    pub(crate) fn take_waiting(&self, partition: Partition) -> Option<Batch> {
        self.partitions[partition as usize].lock().waiting.pop_front()
    }

    /// Puts a batch that the bus refused back at the front. If there is no room, its rows are dropped, and its name is
    /// returned.
    pub(crate) fn put_back(&self, batch: Batch) -> Option<(Partition, u64)> {
        let mut open = self.partitions[batch.name.partition as usize].lock();
        if open.waiting.len() >= WAITING_LEN_MAX {
            self.count_lost(batch.rows.len());
            return Some((batch.name.partition, batch.name.sequence));
        }
        open.waiting.push_front(batch);
        None
    }

    /// Returns the number of closed batches that wait for the bus.
    pub(crate) fn waiting_batches(&self) -> usize {
        self.partitions.iter().map(|open| open.lock().waiting.len()).sum()
    }

    fn close_where(&self, now: Timestamp, complete_through: Timestamp, is_due: impl Fn(&OpenBatch) -> bool) {
        for (partition, open) in (0..).zip(&self.partitions) {
            let mut open = open.lock();
            if is_due(&open) {
                open.complete_through = complete_through;
                self.close(&mut open, partition, now);
            }
        }
    }

    fn close(&self, open: &mut OpenBatch, partition: Partition, now: Timestamp) {
        let rows = std::mem::take(&mut open.rows);
        let batch = Batch {
            name: BatchName { agent: self.agent.clone(), epoch: self.epoch, partition, sequence: open.sequence },
            region: self.region.clone(),
            complete_through: open.complete_through,
            counters: std::mem::take(&mut open.entries),
            descriptor_sets: std::mem::take(&mut open.descriptor_sets),
            texts: std::mem::take(&mut open.texts),
            rows,
        };
        open.waiting.push_back(batch);
        open.counters.clear();
        open.sets.clear();
        open.text_indexes.clear();
        open.text_bytes = 0;
        open.sequence += 1;
        open.opened_at = None;
        open.closed_at = now;
    }
}

impl OpenBatch {
    /// Returns the index of a call's descriptors. `shown` makes the printable form of a value that is new to the batch.
    pub(crate) fn index_of_set(&mut self, call: &Call<'_>, shown: impl Fn(&str, &str) -> String) -> u32 {
        let mut digest = self.hasher.build_hasher();
        call.descriptors().for_each(|descriptor| descriptor.hash(&mut digest));
        let digest = digest.finish();
        if let Some(index) = self.sets.get(&digest) {
            return *index;
        }
        let pairs = call.descriptors().map(|(name, value)| {
            (self.index_of_text(name, || name.to_owned()), self.index_of_text((name, value), || shown(name, value)))
        });
        let pairs = pairs.collect();
        let index = u32::try_from(self.descriptor_sets.len()).unwrap_or(u32::MAX);
        self.descriptor_sets.push(pairs);
        self.sets.insert(digest, index);
        index
    }

    /// Returns the index of a counter, whose entry is made if it is new to the batch.
    pub(crate) fn index_of_counter(&mut self, id: CounterId, entry: impl FnOnce() -> CounterEntry) -> u32 {
        let next = self.entries.len();
        let (entries, text_bytes) = (&mut self.entries, &mut self.text_bytes);
        *self.counters.entry(id).or_insert_with(|| {
            let entry = entry();
            *text_bytes += entry.label.len() + entry.rule.len();
            entries.push(entry);
            u32::try_from(next).unwrap_or(u32::MAX)
        })
    }

    /// Returns the index of the text with this key.
    pub(crate) fn index_of_text(&mut self, key: impl Hash, text: impl FnOnce() -> String) -> u32 {
        let digest = self.hasher.hash_one(key);
        let next = self.texts.len();
        let (texts, text_bytes) = (&mut self.texts, &mut self.text_bytes);
        *self.text_indexes.entry(digest).or_insert_with(|| {
            let text = text();
            *text_bytes += text.len();
            texts.push(text);
            u32::try_from(next).unwrap_or(u32::MAX)
        })
    }
}
