//! What an agent has to publish: rows gathered into batches, one open batch per partition.
//!
//! Pure but for its locks: it never waits, reads no clock and knows no bus. Whoever drives it asks for what is [due], hands
//! that to the bus and says what came back. All queues have caps; past them rows are dropped and counted, and the agent
//! takes what they told for never heard.
//!
//! [due]: Outbox::due

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tollgate_common::call::Call;
use tollgate_common::charge::{Batch, BatchName, CounterEntry, DescriptorSet, Home, Row};
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::{CounterId, Partition};
use tollgate_common::decision::Source;
use tollgate_common::wire::Record;

use crate::enforce::Sequence;

/// How long rows wait for company, in ms.
pub(crate) const LINGER_MS: u64 = 5;
/// How often every partition gets a batch, if only an empty one, in ms.
pub(crate) const SILENCE_MS_MAX: u64 = 1_000;
/// The most rows of one batch.
const BATCH_ROWS_MAX: usize = 4_096;
/// The most batches of one partition that wait for the bus.
const WAITING_LEN_MAX: usize = 64;

pub(crate) struct Outbox {
    agent: Arc<str>,
    region: Arc<str>,
    epoch: u64,
    hasher: RandomState,
    partitions: Box<[Mutex<Partial>]>,
    dropped_rows: AtomicU64,
}

/// A batch on its way.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) partition: Partition,
    pub(crate) sequence: u64,
    pub(crate) rows: usize,
    pub(crate) payload: Vec<u8>,
}

/// What the outbox is to say of one charge.
pub(crate) struct Publish<'a, 'c> {
    pub(crate) counter: Option<CounterId>,
    pub(crate) row: Row,
    /// For the home row: the call, which rule decided, and who.
    pub(crate) home: Option<(&'a Call<'c>, Option<Arc<str>>, Source)>,
}

/// The open batch of one partition and those that wait.
#[derive(Default)]
struct Partial {
    sequence: u64,
    opened_at: Option<Timestamp>,
    written_at: Timestamp,
    complete_through: Timestamp,
    counters: HashMap<CounterId, u32, RandomState>,
    entries: Vec<CounterEntry>,
    sets: HashMap<u64, u32, RandomState>,
    descriptor_sets: Vec<DescriptorSet>,
    deciders: Vec<Arc<str>>,
    rows: Vec<Row>,
    waiting: VecDeque<Outgoing>,
}

impl Outbox {
    pub(crate) fn new(agent: Arc<str>, region: Arc<str>, epoch: u64, partitions: u32) -> Self {
        let open = || Mutex::new(Partial { sequence: 1, ..Partial::default() });
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

    /// Adds a row; says in which batch it will be. `entry` describes its counter and `set` the call's descriptors, if the
    /// batch does not know them yet.
    pub(crate) fn publish(
        &self,
        partition: Partition,
        now: Timestamp,
        publish: Publish<'_, '_>,
        entry: impl FnOnce(CounterId) -> CounterEntry,
        set: impl FnOnce(&Call<'_>) -> DescriptorSet,
    ) -> Sequence {
        let mut open = self.partitions[partition as usize].lock();
        if open.rows.len() >= BATCH_ROWS_MAX {
            if open.waiting.len() >= WAITING_LEN_MAX {
                self.dropped_rows.fetch_add(1, Ordering::Relaxed);
                return Sequence::Unknown;
            }
            self.close(&mut open, partition, now);
        }
        let mut row = publish.row;
        row.counter = publish.counter.map(|counter| open.index_of_counter(counter, entry));
        row.home = publish.home.map(|(call, decider, source)| Home {
            descriptors: open.index_of_set(self.digest(call), || set(call)),
            decider: decider.map(|decider| open.index_of_decider(decider)),
            source,
        });
        open.opened_at.get_or_insert(now);
        open.rows.push(row);
        Sequence::Batch(open.sequence)
    }

    /// When there will be something due.
    pub(crate) fn due_at(&self) -> Timestamp {
        let due = |partial: &Mutex<Partial>| {
            let partial = partial.lock();
            let silence = partial.written_at.plus_ms(SILENCE_MS_MAX);
            partial.opened_at.map_or(silence, |opened_at| opened_at.plus_ms(LINGER_MS).min(silence))
        };
        self.partitions.iter().map(due).min().unwrap_or_default()
    }

    /// What the bus should get now. `complete_through` is the time before which no later row will be.
    pub(crate) fn due(&self, now: Timestamp, complete_through: Timestamp) -> Vec<Outgoing> {
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

    /// The bus would not take it now: it waits at the front of its queue. Returns its sequence when there is no room left.
    pub(crate) fn refused(&self, outgoing: Outgoing) -> Option<(Partition, u64)> {
        let mut partial = self.partitions[outgoing.partition as usize].lock();
        if partial.waiting.len() >= WAITING_LEN_MAX {
            self.dropped_rows.fetch_add(outgoing.rows as u64, Ordering::Relaxed);
            return Some((outgoing.partition, outgoing.sequence));
        }
        // Those that came after it wait already, in their order.
        let place = partial.waiting.partition_point(|waiting| waiting.sequence < outgoing.sequence);
        partial.waiting.insert(place, outgoing);
        None
    }

    /// Rows that wait, for those who check on caps.
    pub(crate) fn waiting_batches(&self) -> usize {
        self.partitions.iter().map(|partial| partial.lock().waiting.len()).sum()
    }

    fn close(&self, partial: &mut Partial, partition: Partition, now: Timestamp) {
        let rows = std::mem::take(&mut partial.rows);
        let count = rows.len();
        let batch = Batch {
            name: BatchName { agent: self.agent.clone(), epoch: self.epoch, partition, sequence: partial.sequence },
            region: self.region.clone(),
            complete_through: partial.complete_through,
            counters: std::mem::take(&mut partial.entries),
            descriptor_sets: std::mem::take(&mut partial.descriptor_sets),
            deciders: std::mem::take(&mut partial.deciders),
            rows,
        };
        partial.waiting.push_back(Outgoing {
            partition,
            sequence: partial.sequence,
            rows: count,
            payload: batch.encode(),
        });
        partial.counters.clear();
        partial.sets.clear();
        partial.sequence += 1;
        partial.opened_at = None;
        partial.written_at = now;
    }

    fn digest(&self, call: &Call<'_>) -> u64 {
        self.hasher.hash_one(call.descriptors().collect::<smallvec::SmallVec<[_; 8]>>())
    }
}

impl Partial {
    fn index_of_counter(&mut self, id: CounterId, entry: impl FnOnce(CounterId) -> CounterEntry) -> u32 {
        let next = self.entries.len();
        let entries = &mut self.entries;
        *self.counters.entry(id).or_insert_with(|| {
            entries.push(entry(id));
            u32::try_from(next).unwrap_or(u32::MAX)
        })
    }

    fn index_of_set(&mut self, digest: u64, set: impl FnOnce() -> DescriptorSet) -> u32 {
        let next = self.descriptor_sets.len();
        let sets = &mut self.descriptor_sets;
        *self.sets.entry(digest).or_insert_with(|| {
            sets.push(set());
            u32::try_from(next).unwrap_or(u32::MAX)
        })
    }

    fn index_of_decider(&mut self, decider: Arc<str>) -> u32 {
        let index = self.deciders.iter().position(|known| *known == decider).unwrap_or_else(|| {
            self.deciders.push(decider);
            self.deciders.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}
