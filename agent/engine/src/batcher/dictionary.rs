//! Dictionary of a batch: values that its rows name by their positions. Values are kept from batch to batch.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;
use tollgate_core::messages::calls::{CounterEntry, DescriptorSet};

/// Maximum number of values that a dictionary keeps from batch to batch.
const KNOWN_LEN_MAX: usize = 4_096;

/// Values of the open batch, and those of earlier batches.
pub(super) struct Dictionary<K, V> {
    /// Each value with the number of the last batch that contains it, and its position there.
    known: HashMap<K, (u64, u32, V), RandomState>,
    values: Vec<V>,
    /// Number of the open batch.
    batch: u64,
    pub(super) text_bytes: usize,
}

/// Value with text.
pub(super) trait TextLen {
    /// Returns the length of the text in bytes.
    fn text_len(&self) -> usize;
}

impl<K: Eq + Hash, V: Clone + TextLen> Dictionary<K, V> {
    /// Returns the index of a known value. One of an earlier batch is added to this one if it holds.
    pub(super) fn index_of(&mut self, key: &K, holds: impl Fn(&V) -> bool) -> Option<u32> {
        let (batch, index, value) = self.known.get_mut(key)?;
        if *batch != self.batch {
            if !holds(value) {
                return None;
            }
            (*batch, *index) = (self.batch, as_u32(self.values.len()));
            self.text_bytes += value.text_len();
            self.values.push(value.clone());
        }
        Some(*index)
    }

    /// Adds a value and returns its index.
    pub(super) fn add(&mut self, key: K, value: V) -> u32 {
        let index = as_u32(self.values.len());
        self.text_bytes += value.text_len();
        self.values.push(value.clone());
        self.known.insert(key, (self.batch, index, value));
        index
    }

    /// Takes the values of the batch. They stay known, up to the cap.
    pub(super) fn take(&mut self) -> Vec<V> {
        self.batch += 1;
        self.text_bytes = 0;
        if self.known.len() > KNOWN_LEN_MAX {
            self.known.clear();
        }
        std::mem::take(&mut self.values)
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

impl<K, V> Default for Dictionary<K, V> {
    fn default() -> Self {
        Self { known: HashMap::default(), values: Vec::new(), batch: 0, text_bytes: 0 }
    }
}

impl TextLen for String {
    fn text_len(&self) -> usize {
        self.len()
    }
}

impl TextLen for CounterEntry {
    fn text_len(&self) -> usize {
        self.label.len() + self.rule.len()
    }
}

impl TextLen for DescriptorSet {
    fn text_len(&self) -> usize {
        0
    }
}

pub(super) fn as_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
