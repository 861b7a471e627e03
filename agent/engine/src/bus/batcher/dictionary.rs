//! Dictionary of a batch: values that its rows name by their positions. Values are kept from batch to batch.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

use foldhash::fast::RandomState;
use tollgate_core::messages::calls::{CounterEntry, DescriptorSet};
use tollgate_core::messages::texts::Texts;

/// Maximum number of values that a dictionary keeps from batch to batch.
const KNOWN_LEN_MAX: usize = 4_096;
/// Maximum length of an encoded counter beside its texts, of a text beside its bytes, and of a pair of a descriptor set, in
/// bytes. A set of few pairs has more room than it needs.
const COUNTER_LEN_MAX: usize = 72;
const TEXT_LEN_MAX: usize = 4;
const PAIR_LEN_MAX: usize = 8;

/// Values of the open batch, and those of earlier batches.
pub(super) struct Dictionary<K, V: Values> {
    /// Each value with the number of the last batch that contains it, and its position there.
    known: HashMap<K, (u64, u32, V::Value), RandomState>,
    values: V,
    batch: u64,
    /// Maximum length of the values in a record, in bytes.
    pub(super) encoded_len: usize,
}

/// Values of a batch, in the form in which it holds them.
pub(super) trait Values: Default {
    type Value;

    /// Adds a value. Returns its position and its maximum length in a record, in bytes.
    fn push(&mut self, value: &Self::Value) -> (usize, usize);

    /// Creates an empty list with room for as many values.
    fn empty_like(&self) -> Self;
}

impl<K: Eq + Hash, V: Values> Dictionary<K, V> {
    /// Returns the index of a known value. A value of an earlier batch is added to this one if it holds.
    pub(super) fn index_of(&mut self, key: &K, holds: impl Fn(&V::Value) -> bool) -> Option<u32> {
        let (batch, index, value) = self.known.get_mut(key)?;
        if *batch != self.batch {
            if !holds(value) {
                return None;
            }
            let (position, len) = self.values.push(value);
            (*batch, *index) = (self.batch, as_u32(position));
            self.encoded_len += len;
        }
        Some(*index)
    }

    pub(super) fn add(&mut self, key: K, value: V::Value) -> u32 {
        let (position, len) = self.values.push(&value);
        self.encoded_len += len;
        self.known.insert(key, (self.batch, as_u32(position), value));
        as_u32(position)
    }

    /// Takes the values of the batch. They stay known, up to the cap.
    pub(super) fn take(&mut self) -> V {
        self.batch += 1;
        self.encoded_len = 0;
        if self.known.len() > KNOWN_LEN_MAX {
            self.known.clear();
        }
        let empty = self.values.empty_like();
        mem::replace(&mut self.values, empty)
    }

    /// Forgets all keys. Rows that name values of this batch stay valid.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Returns the hasher of digests that are keys.
    pub(super) fn hasher(&self) -> RandomState {
        self.known.hasher().clone()
    }
}

impl<K, V: Values> Default for Dictionary<K, V> {
    fn default() -> Self {
        Self { known: HashMap::default(), values: V::default(), batch: 0, encoded_len: 0 }
    }
}

impl Values for Texts {
    type Value = Box<str>;

    fn push(&mut self, text: &Box<str>) -> (usize, usize) {
        self.push(text);
        (self.len() - 1, TEXT_LEN_MAX + text.len())
    }

    fn empty_like(&self) -> Self {
        Self::with_capacity(self.len(), self.bytes())
    }
}

impl Values for Vec<CounterEntry> {
    type Value = CounterEntry;

    fn push(&mut self, entry: &CounterEntry) -> (usize, usize) {
        self.push(entry.clone());
        (self.len() - 1, COUNTER_LEN_MAX + entry.label.len() + entry.rule.len())
    }

    fn empty_like(&self) -> Self {
        Self::with_capacity(self.len())
    }
}

impl Values for Vec<DescriptorSet> {
    type Value = DescriptorSet;

    fn push(&mut self, set: &DescriptorSet) -> (usize, usize) {
        self.push(set.clone());
        (self.len() - 1, PAIR_LEN_MAX * (1 + set.len()))
    }

    fn empty_like(&self) -> Self {
        Self::with_capacity(self.len())
    }
}

pub(super) fn as_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
