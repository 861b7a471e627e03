//! What an agent has to publish: rows gathered into batches, one open batch per partition.
//!
//! Pure but for its locks: it never waits, reads no clock and knows no bus. Whoever drives it asks for what is [due], hands
//! that to the bus and says what came back. All queues have caps; past them rows are dropped and counted, and the agent
//! takes what they told for never heard.
//!
//! [due]: Batcher::due

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DescriptorSet, Home, Row};

use crate::view::Sequence;

/// How long rows wait for company, in ms.
pub(crate) const LINGER_MS: u64 = 5;
/// How often every partition gets a batch, if only an empty one, in ms.
pub(crate) const SILENCE_MS_MAX: u64 = 1_000;
/// The most rows of one batch.
const BATCH_ROWS_MAX: usize = 4_096;
/// A batch with so many bytes of text gets no further row: brokers take a megabyte.
const BATCH_TEXT_BYTES_MAX: usize = 256 << 10;
/// The most batches of one partition that wait for the bus.
const WAITING_LEN_MAX: usize = 64;

pub(crate) struct Batcher {
    agent: Arc<str>,
    region: Arc<str>,
    epoch: u64,
    hasher: RandomState,
    partitions: Box<[Mutex<OpenBatch>]>,
    dropped_rows: AtomicU64,
}

/// What the outbox is to say of one charge.
pub(crate) struct Publish<'a, 'c, T> {
    /// The counter, and what its entry is made of.
    pub(crate) counter: Option<(CounterId, &'a T)>,
    pub(crate) row: Row,
    /// For the home row: the call, which rule decided, and who.
    pub(crate) home: Option<(&'a Call<'c>, Option<Arc<str>>, Source)>,
}

/// The open batch of one partition and those that wait.
#[derive(Default)]
struct OpenBatch {
    sequence: u64,
    opened_at: Option<Timestamp>,
    written_at: Timestamp,
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
            agent,
            region,
            epoch,
            hasher: RandomState::default(),
            partitions: (0..partitions).map(|_| open()).collect(),
            dropped_rows: AtomicU64::new(0),
        }
    }

    pub(crate) fn dropped_rows(&self) -> u64 {
        self.dropped_rows.load(Ordering::Relaxed)
    }

    /// Rows that were handed over never reached the log.
    pub(crate) fn lost(&self, rows: usize) {
        self.dropped_rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Adds a row; says in which batch it will be. `entry` describes its counter, and `shown` says how the value of a
    /// descriptor may be shown, if the batch does not know them yet.
    pub(crate) fn publish<T>(
        &self,
        partition: Partition,
        now: Timestamp,
        publish: Publish<'_, '_, T>,
        entry: impl FnOnce(&T) -> CounterEntry,
        shown: impl Fn(&str, &str) -> String,
    ) -> Sequence {
        let mut open = self.partitions[partition as usize].lock();
        if open.rows.len() >= BATCH_ROWS_MAX || open.text_bytes >= BATCH_TEXT_BYTES_MAX {
            if open.waiting.len() >= WAITING_LEN_MAX {
                self.dropped_rows.fetch_add(1, Ordering::Relaxed);
                return Sequence::Unknown;
            }
            self.close(&mut open, partition, now);
        }
        let mut row = publish.row;
        row.counter = publish.counter.map(|(counter, of)| open.index_of_counter(counter, || entry(of)));
        row.home = publish.home.map(|(call, decider, source)| Home {
            descriptors: self.index_of_set(&mut open, call, shown),
            decider: decider.map(|decider| open.index_of_text(self.hasher.hash_one(&decider), || decider.to_string())),
            source,
        });
        open.opened_at.get_or_insert(now);
        open.rows.push(row);
        Sequence::Batch(open.sequence)
    }

    /// When there will be something due.
    pub(crate) fn due_at(&self) -> Timestamp {
        let due = |partial: &Mutex<OpenBatch>| {
            let partial = partial.lock();
            let silence = partial.written_at.plus_ms(SILENCE_MS_MAX);
            partial.opened_at.map_or(silence, |opened_at| opened_at.plus_ms(LINGER_MS).min(silence))
        };
        self.partitions.iter().map(due).min().unwrap_or_default()
    }

    /// What the bus should get now. `complete_through` is the time before which no later row will be.
    pub(crate) fn due(&self, now: Timestamp, complete_through: Timestamp) -> Vec<Batch> {
        let mut due = Vec::new();
        for (partition, partial) in (0..).zip(&self.partitions) {
            let mut partial = partial.lock();
            let lingered = partial.opened_at.is_some_and(|opened_at| now.ms_since(opened_at) >= LINGER_MS);
            let silent = now.ms_since(partial.written_at) >= SILENCE_MS_MAX;
            if (lingered || silent) && partial.waiting.len() < WAITING_LEN_MAX {
                partial.complete_through = complete_through;
                self.close(&mut partial, partition, now);
            }
            due.extend(partial.waiting.drain(..));
        }
        due
    }

    /// Everything, whether it is due or not.
    pub(crate) fn left(&self, now: Timestamp, complete_through: Timestamp) -> Vec<Batch> {
        let mut left = Vec::new();
        for (partition, partial) in (0..).zip(&self.partitions) {
            let mut partial = partial.lock();
            partial.complete_through = complete_through;
            self.close(&mut partial, partition, now);
            left.extend(partial.waiting.drain(..));
        }
        left
    }

    /// The bus would not take it now: it waits at the front of its queue. Returns its sequence when there is no room left.
    pub(crate) fn refused(&self, outgoing: Batch) -> Option<(Partition, u64)> {
        let mut partial = self.partitions[outgoing.name.partition as usize].lock();
        if partial.waiting.len() >= WAITING_LEN_MAX {
            self.dropped_rows.fetch_add(outgoing.rows.len() as u64, Ordering::Relaxed);
            return Some((outgoing.name.partition, outgoing.name.sequence));
        }
        // Those that came after it wait already, in their order.
        let place = partial.waiting.partition_point(|waiting| waiting.name.sequence < outgoing.name.sequence);
        partial.waiting.insert(place, outgoing);
        None
    }

    /// Rows that wait, for those who check on caps.
    pub(crate) fn waiting_batches(&self) -> usize {
        self.partitions.iter().map(|partial| partial.lock().waiting.len()).sum()
    }

    fn close(&self, partial: &mut OpenBatch, partition: Partition, now: Timestamp) {
        let rows = std::mem::take(&mut partial.rows);
        let batch = Batch {
            name: BatchName { agent: self.agent.clone(), epoch: self.epoch, partition, sequence: partial.sequence },
            region: self.region.clone(),
            complete_through: partial.complete_through,
            counters: std::mem::take(&mut partial.entries),
            descriptor_sets: std::mem::take(&mut partial.descriptor_sets),
            texts: std::mem::take(&mut partial.texts),
            rows,
        };
        partial.waiting.push_back(batch);
        partial.counters.clear();
        partial.sets.clear();
        partial.text_indexes.clear();
        partial.text_bytes = 0;
        partial.sequence += 1;
        partial.opened_at = None;
        partial.written_at = now;
    }

    fn index_of_set(&self, open: &mut OpenBatch, call: &Call<'_>, shown: impl Fn(&str, &str) -> String) -> u32 {
        let mut digest = self.hasher.build_hasher();
        call.descriptors().for_each(|descriptor| descriptor.hash(&mut digest));
        let digest = digest.finish();
        if let Some(index) = open.sets.get(&digest) {
            return *index;
        }
        let pairs = call.descriptors().map(|(name, value)| {
            let name_index = open.index_of_text(self.hasher.hash_one(name), || name.to_owned());
            (name_index, open.index_of_text(self.hasher.hash_one((name, value)), || shown(name, value)))
        });
        let pairs = pairs.collect();
        let index = u32::try_from(open.descriptor_sets.len()).unwrap_or(u32::MAX);
        open.descriptor_sets.push(pairs);
        open.sets.insert(digest, index);
        index
    }
}

impl OpenBatch {
    fn index_of_counter(&mut self, id: CounterId, entry: impl FnOnce() -> CounterEntry) -> u32 {
        let next = self.entries.len();
        let (entries, text_bytes) = (&mut self.entries, &mut self.text_bytes);
        *self.counters.entry(id).or_insert_with(|| {
            let entry = entry();
            *text_bytes += entry.label.len() + entry.rule.len();
            entries.push(entry);
            u32::try_from(next).unwrap_or(u32::MAX)
        })
    }

    fn index_of_text(&mut self, digest: u64, text: impl FnOnce() -> String) -> u32 {
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
