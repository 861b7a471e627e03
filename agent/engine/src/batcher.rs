//! Batches of calls: rows of all calls are gathered into one open batch per partition.
//!
//! Calls add rows under the lock of one partition and never wait; [`crate::exchange`] closes the batches that are due and
//! hands them to the bus. All queues have caps. Past them, rows are dropped and counted, and their units count as if no
//! signal would ever contain them.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use atomic_waker::AtomicWaker;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use parking_lot::Mutex;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DescriptorSet, Row};

use crate::metrics::Total;
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
    /// Rows that never reached the log in this life.
    pub(crate) dropped_rows: Total,
    region: Arc<str>,
    partitions: Box<[Mutex<OpenBatch>]>,
}

/// The open batch of one partition, and the closed ones that wait for the bus.
#[derive(Default)]
pub(crate) struct OpenBatch {
    name: BatchName,
    opened_at: Option<Timestamp>,
    closed_at: Timestamp,
    complete_through: Timestamp,
    counters: Dictionary<CounterId, CounterEntry>,
    /// By the digests of their keys.
    texts: Dictionary<u64, String>,
    text_bytes: usize,
    /// By the digests of their descriptors.
    descriptor_sets: Dictionary<u64, DescriptorSet>,
    rows: Vec<Row>,
    waiting: VecDeque<Batch>,
}

/// Values that the rows of a batch name by their positions.
type Dictionary<K, V> = IndexMap<K, V, RandomState>;

impl Batcher {
    pub(crate) fn new(agent: &Arc<str>, region: &Arc<str>, epoch: u64, partitions: u32) -> Self {
        let name = |partition| BatchName { agent: agent.clone(), epoch, partition, sequence: 1 };
        let open = |partition| Mutex::new(OpenBatch { name: name(partition), ..OpenBatch::default() });
        Self {
            waker: AtomicWaker::new(),
            dropped_rows: Total::default(),
            region: region.clone(),
            partitions: (0..partitions).map(open).collect(),
        }
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
                self.dropped_rows.add(1);
                return None;
            }
            open.close(now, &self.region);
        }
        let row = row(&mut open);
        open.rows.push(row);
        if open.opened_at.is_none() {
            open.opened_at = Some(now);
            self.waker.wake();
        }
        Some(open.name.sequence)
    }

    /// Returns the time from which a batch is due for the bus; the past if one waits already.
    pub(crate) fn due_at(&self) -> Timestamp {
        let due_at = |open: &Mutex<OpenBatch>| {
            let open = open.lock();
            if open.waiting.is_empty() { open.closes_at() } else { Timestamp::default() }
        };
        self.partitions.iter().map(due_at).min().unwrap_or_default()
    }

    /// Closes the batches that are due, or all. No later row will be of a time before `complete_through`.
    pub(crate) fn close(&self, now: Timestamp, complete_through: Timestamp, all: bool) {
        for open in &self.partitions {
            let mut open = open.lock();
            if all || now >= open.closes_at() && open.waiting.len() < WAITING_LEN_MAX {
                open.complete_through = complete_through;
                open.close(now, &self.region);
            }
        }
    }

    /// Takes the oldest batch that waits in a partition.
    pub(crate) fn take_waiting(&self, partition: Partition) -> Option<Batch> {
        self.partitions[partition as usize].lock().waiting.pop_front()
    }

    /// Puts a batch that the bus refused back at the front; returns false if there is no room.
    pub(crate) fn put_back(&self, batch: Batch) -> bool {
        let mut open = self.partitions[batch.name.partition as usize].lock();
        let has_room = open.waiting.len() < WAITING_LEN_MAX;
        if has_room {
            open.waiting.push_front(batch);
        }
        has_room
    }

    /// Returns the number of closed batches that wait for the bus.
    pub(crate) fn waiting_batches(&self) -> usize {
        self.partitions.iter().map(|open| open.lock().waiting.len()).sum()
    }
}

impl OpenBatch {
    /// Returns the index of a call's descriptors. `shown` makes the printable form of a value that is new to the batch.
    pub(crate) fn index_of_set(&mut self, call: &Call<'_>, shown: impl Fn(&str, &str) -> String) -> u32 {
        let mut digest = self.descriptor_sets.hasher().build_hasher();
        call.descriptors().for_each(|descriptor| descriptor.hash(&mut digest));
        let digest = digest.finish();
        if let Some(index) = self.descriptor_sets.get_index_of(&digest) {
            return index_in_batch(index);
        }
        let pairs = call.descriptors().map(|(name, value)| {
            (self.index_of_text(name, || name.to_owned()), self.index_of_text((name, value), || shown(name, value)))
        });
        let pairs = pairs.collect();
        index_in_batch(self.descriptor_sets.insert_full(digest, pairs).0)
    }

    /// Returns the index of a counter, whose entry is made if it is new to the batch.
    pub(crate) fn index_of_counter(&mut self, id: CounterId, entry: impl FnOnce() -> CounterEntry) -> u32 {
        index_of(&mut self.counters, id, || {
            let entry = entry();
            self.text_bytes += entry.label.len() + entry.rule.len();
            entry
        })
    }

    /// Returns the index of the text with this key.
    pub(crate) fn index_of_text(&mut self, key: impl Hash, text: impl FnOnce() -> String) -> u32 {
        let digest = self.texts.hasher().hash_one(key);
        index_of(&mut self.texts, digest, || {
            let text = text();
            self.text_bytes += text.len();
            text
        })
    }

    /// Returns the time from which the batch is closed: its first row has waited long enough, or the partition is silent.
    fn closes_at(&self) -> Timestamp {
        let silent_at = self.closed_at.plus_ms(SILENCE_MS_MAX);
        self.opened_at.map_or(silent_at, |opened_at| opened_at.plus_ms(LINGER_MS).min(silent_at))
    }

    fn close(&mut self, now: Timestamp, region: &Arc<str>) {
        self.waiting.push_back(Batch {
            name: self.name.clone(),
            region: region.clone(),
            complete_through: self.complete_through,
            counters: values(&mut self.counters),
            texts: values(&mut self.texts),
            descriptor_sets: values(&mut self.descriptor_sets),
            rows: std::mem::take(&mut self.rows),
        });
        self.name.sequence += 1;
        self.text_bytes = 0;
        self.opened_at = None;
        self.closed_at = now;
    }
}

/// Takes the values of a dictionary, which keeps its capacity.
fn values<K, V>(dictionary: &mut Dictionary<K, V>) -> Vec<V> {
    dictionary.drain(..).map(|(_, value)| value).collect()
}

/// Returns the index of the value with this key, which is made if it is new.
fn index_of<K: Eq + Hash, V>(dictionary: &mut Dictionary<K, V>, key: K, value: impl FnOnce() -> V) -> u32 {
    let place = dictionary.entry(key);
    let index = place.index();
    place.or_insert_with(value);
    index_in_batch(index)
}

fn index_in_batch(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
