//! The open batch of one partition, and the closed ones that wait for the bus.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::mem;
use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DescriptorSet, Home, Outcome, Row};
use tollgate_core::messages::texts::Texts;
use tollgate_core::rules::RuleSet;
use tollgate_core::trace_context::TraceContext;
use tollgate_core::window::SubWindow;

use super::closed_batch::{BatchRounds, ClosedBatch};
use super::dictionary::Dictionary;
use crate::bus::row_buffer::{BatchedSubject, BufferedRow, OwnHome, OwnValues, RowBuffer};
use crate::counters::ChargedCounter;

/// Interval after which a partition gets a batch even if it is empty, in ms.
const SILENCE_MS_MAX: u64 = 1_000;
/// Maximum number of rows in one batch. Each takes at most 49 bytes of its record, and 29 more with a trace.
const BATCH_ROWS_MAX: usize = 4_096;
/// Length of the dictionaries after which a batch gets no further subject, in bytes. Brokers refuse records of more than a
/// megabyte.
const DICTIONARIES_LEN_MAX: usize = 500_000;
/// Maximum number of closed batches per partition that wait for the bus.
const WAITING_LEN_MAX: usize = 64;

/// The open batch of one partition, and the closed ones that wait for the bus.
#[derive(Default)]
pub(super) struct OpenBatch {
    name: BatchName,
    region: Arc<str>,
    /// Round of the first row.
    opened_in: u64,
    closed_at: Timestamp,
    complete_through: Timestamp,
    counters: Dictionary<CounterId, Vec<CounterEntry>>,
    /// By the digests of their keys.
    texts: Dictionary<u64, Texts>,
    /// By the digests of their descriptors.
    descriptor_sets: Dictionary<u64, Vec<DescriptorSet>>,
    rows: Vec<Row>,
    traces: Vec<(u32, TraceContext)>,
    /// Sub-window of the newest row, which is mostly that of the next one.
    sub_window: SubWindow,
    waiting: VecDeque<ClosedBatch>,
}

impl OpenBatch {
    pub(super) fn new(name: BatchName, region: Arc<str>) -> Self {
        Self { name, region, ..Self::default() }
    }

    /// Returns true if the batch describes a subject and has room for a row of it.
    #[inline]
    pub(super) fn has_room_for_row_of(&self, subject: &BatchedSubject) -> bool {
        subject.sequence == self.name.sequence && self.rows.len() < BATCH_ROWS_MAX
    }

    /// Closes a batch that is full; returns false if there is no room for another one.
    pub(super) fn make_room(&mut self, round: u64) -> bool {
        let dictionaries = self.counters.encoded_len + self.texts.encoded_len + self.descriptor_sets.encoded_len;
        if self.rows.len() < BATCH_ROWS_MAX && dictionaries < DICTIONARIES_LEN_MAX {
            return true;
        }
        let has_room = self.waiting.len() < WAITING_LEN_MAX;
        if has_room {
            // More rows of the round may follow.
            self.close(round, round - 1);
        }
        has_room
    }

    /// Adds a row of a subject that the batch describes.
    #[inline]
    pub(super) fn push(
        &mut self,
        round: u64,
        subject: &BufferedRow,
        row: OwnValues,
        trace: Option<TraceContext>,
        batched: &BatchedSubject,
    ) {
        if self.rows.is_empty() {
            self.opened_in = round;
        }
        let BatchedSubject { counter, descriptors, decider, .. } = *batched;
        let home = row.home.map(|own| {
            let OwnHome { shadow_denied, denied, remaining } = own;
            Home { descriptors, decider, shadow_denied, denied, remaining }
        });
        // A caller may have been suspended between its decision and its row.
        let at = if home.is_some() { row.at.max(self.complete_through) } else { row.at };
        // Such a row does not tell the instant of its charge.
        let outcome = if at > row.at && row.outcome == Outcome::Charged { Outcome::Admitted } else { row.outcome };
        let sub_window = subject.counter.map_or(0, |counter| {
            if !counter.window.is_in(self.sub_window, row.at) {
                self.sub_window = counter.window.sub_window(row.at);
            }
            self.sub_window
        });
        let index = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        self.traces.extend(trace.map(|trace| (index, trace)));
        let OwnValues { call, shadow_denied, source, .. } = row;
        self.rows.push(Row { call, counter, at, sub_window, cost: subject.cost, outcome, shadow_denied, source, home });
    }

    /// Adds the values of a subject that are not in the batch yet.
    pub(super) fn batched(
        &mut self,
        buffer: &RowBuffer,
        subject: &BufferedRow,
        set: &RuleSet,
        key: &DigestKey,
    ) -> BatchedSubject {
        let BatchName { partition, sequence, .. } = self.name;
        let descriptors = || buffer.descriptors(subject);
        let counter = subject.counter.map(|counter| self.index_of_counter(&counter, set, descriptors(), key));
        let Some((_, decider)) = subject.home else { return BatchedSubject { counter, ..BatchedSubject::default() } };
        BatchedSubject {
            partition,
            sequence,
            counter,
            descriptors: self.index_of_set(descriptors(), |name, value| key.shown(value, set.is_secret(name))),
            decider: decider.map(|decider| self.index_of_text(buffer.text(decider), || buffer.text(decider).into())),
        }
    }

    /// Closes the batch if it is due, or in any case, once it has all rows of a round.
    pub(super) fn close_round(
        &mut self,
        now: Timestamp,
        round: u64,
        complete_through: Timestamp,
        rows_due_at: Timestamp,
        always: bool,
    ) {
        if always || now >= self.closes_at(rows_due_at) && self.waiting.len() < WAITING_LEN_MAX {
            (self.closed_at, self.complete_through) = (now, complete_through);
            self.close(round, round);
        }
    }

    pub(super) fn take_waiting(&mut self) -> Option<ClosedBatch> {
        self.waiting.pop_front()
    }

    /// Puts a batch back at the front; returns false if there is no room.
    pub(super) fn put_back(&mut self, closed: ClosedBatch) -> bool {
        let has_room = self.waiting.len() < WAITING_LEN_MAX;
        if has_room {
            self.waiting.push_front(closed);
        }
        has_room
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn waiting_batches(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the index of a set of descriptors. `shown` makes the printable form of a value that is not known.
    fn index_of_set<'a>(
        &mut self,
        descriptors: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        shown: impl Fn(&str, &str) -> String,
    ) -> u32 {
        let mut digest = self.descriptor_sets.hasher().build_hasher();
        descriptors.clone().for_each(|descriptor| descriptor.hash(&mut digest));
        let digest = digest.finish();
        // The indexes of texts are others in each batch.
        self.descriptor_sets.index_of(&digest, |_| false).unwrap_or_else(|| {
            let pairs = descriptors.map(|(name, value)| {
                let value = self.index_of_text((name, value), || shown(name, value).into());
                (self.index_of_text(name, || name.into()), value)
            });
            let pairs = pairs.collect();
            self.descriptor_sets.add(digest, pairs)
        })
    }

    /// Returns the index of a counter, whose entry is made if it is not known.
    fn index_of_counter<'a>(
        &mut self,
        counter: &ChargedCounter,
        set: &RuleSet,
        descriptors: impl Iterator<Item = (&'a str, &'a str)>,
        key: &DigestKey,
    ) -> u32 {
        let holds = |entry: &CounterEntry| (entry.quota, entry.window) == (counter.quota, counter.window);
        self.counters.index_of(&counter.id, holds).unwrap_or_else(|| {
            let call = descriptors.fold(Call::new(), |call, (name, value)| call.with(name, value));
            self.counters.add(counter.id, entry(counter, set, &call, key))
        })
    }

    fn index_of_text(&mut self, key: impl Hash, text: impl FnOnce() -> Box<str>) -> u32 {
        let digest = self.texts.hasher().hash_one(key);
        self.texts.index_of(&digest, |_| true).unwrap_or_else(|| self.texts.add(digest, text()))
    }

    /// Forgets the values that were made by other rules.
    pub(super) fn forget_known(&mut self) {
        self.counters.forget();
        self.texts.forget();
        self.descriptor_sets.forget();
    }

    /// Returns the time from which the batch is closed: the time of its rows, or that of a silent partition if it has
    /// no rows.
    fn closes_at(&self, rows_due_at: Timestamp) -> Timestamp {
        if self.rows.is_empty() { self.closed_at.plus_ms(SILENCE_MS_MAX) } else { rows_due_at }
    }

    pub(super) fn due_at(&self, rows_due_at: Timestamp) -> Timestamp {
        if self.waiting.is_empty() { self.closes_at(rows_due_at) } else { Timestamp::default() }
    }

    /// Closes the batch in a round. All rows through another round are in this batch or in earlier ones.
    fn close(&mut self, round: u64, through: u64) {
        let first = if self.rows.is_empty() { u64::MAX } else { self.opened_in };
        // A row that came while the round was collected says the next one.
        let rounds = BatchRounds { through, first, last: round + 1 };
        let rows = Vec::with_capacity(self.rows.len());
        let batch = Batch {
            name: self.name.clone(),
            region: self.region.clone(),
            complete_through: self.complete_through,
            counters: self.counters.take(),
            texts: self.texts.take(),
            descriptor_sets: self.descriptor_sets.take(),
            rows: mem::replace(&mut self.rows, rows),
            traces: mem::take(&mut self.traces),
        };
        self.waiting.push_back(ClosedBatch { batch, rounds });
        self.name.sequence += 1;
    }
}

fn entry(counter: &ChargedCounter, set: &RuleSet, call: &Call<'_>, key: &DigestKey) -> CounterEntry {
    let rule = &set.rules[counter.rule];
    let label = set.label(rule, call, key);
    let ChargedCounter { id, quota, window, .. } = *counter;
    CounterEntry { id, rule: rule.name.clone(), label: label.into(), generation: set.generation, quota, window }
}
