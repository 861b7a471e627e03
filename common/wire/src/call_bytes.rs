//! Encoding of a batch of calls: the bytes of `v1::CallBatch`, written from the batch itself.
//!
//! An agent encodes each call once, so the twin would cost more than all else that the publishing thread does: copies of all
//! texts, a vector per column, and two passes over each to know its length. The rows are read once here, and each column is
//! written behind its length when all rows are read. A test compares the bytes with those of the generated code.

use tollgate_core::messages::calls::{Batch, CounterEntry, Row};

use super::{Twin, VERSION};

/// Bytes of a record beside its columns, texts and counters, at most; more only costs an allocation.
const HEAD_LEN: usize = 256;
/// Length of a counter beside its texts, and of a text beside its bytes, likewise.
const COUNTER_LEN: usize = 64;
const TEXT_LEN: usize = 4;

/// Wire types of fields.
const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;

/// Fields of a message in the order of their numbers. A number or a text of its default value is not written.
#[derive(Default)]
struct FieldBytes(Vec<u8>);

/// Columns of the rows, by the numbers of their fields.
struct Columns {
    call_delta: FieldBytes,
    counter: FieldBytes,
    at_delta: FieldBytes,
    sub_window_delta: FieldBytes,
    cost: FieldBytes,
    outcome: FieldBytes,
    home_descriptors: FieldBytes,
    home_decider: FieldBytes,
    home_source: FieldBytes,
}

/// Returns the bytes of a batch.
pub(super) fn encode(batch: &Batch) -> Vec<u8> {
    let columns = Columns::of(batch);
    let labels: usize = batch.counters.iter().map(|counter| counter.label.len() + counter.rule.len()).sum();
    let dictionaries = labels
        + batch.counters.len() * COUNTER_LEN
        + batch.texts.bytes()
        + batch.texts.len() * TEXT_LEN
        + batch.descriptor_sets.len() * TEXT_LEN * 2;
    let mut bytes = FieldBytes(Vec::with_capacity(HEAD_LEN + dictionaries + columns.len()));
    bytes.number(1, VERSION.into());
    bytes.text(2, &batch.name.agent);
    bytes.number(3, batch.name.epoch);
    bytes.number(4, batch.name.partition.into());
    bytes.number(5, batch.name.sequence);
    bytes.text(6, &batch.region);
    bytes.number(7, batch.complete_through.as_ms());
    let mut message = FieldBytes::default();
    for counter in &batch.counters {
        message.0.clear();
        message.counter(counter);
        bytes.bytes(8, &message.0);
    }
    for text in batch.texts.iter() {
        bytes.bytes(9, text.as_bytes());
    }
    let (mut lens, mut indexes) = (FieldBytes::default(), FieldBytes::default());
    for set in &batch.descriptor_sets {
        lens.varint(set.len() as u64);
        for (name, value) in set {
            indexes.varint((*name).into());
            indexes.varint((*value).into());
        }
    }
    bytes.column(10, &lens);
    columns.write(&mut bytes);
    bytes.column(20, &indexes);
    bytes.0
}

impl Columns {
    fn of(batch: &Batch) -> Self {
        let column = || FieldBytes(Vec::with_capacity(batch.rows.len()));
        let mut columns = Self {
            call_delta: column(),
            counter: column(),
            at_delta: column(),
            sub_window_delta: column(),
            cost: column(),
            outcome: column(),
            home_descriptors: column(),
            home_decider: column(),
            home_source: column(),
        };
        let (mut call, mut at) = (0, 0);
        for row in &batch.rows {
            columns.add(batch, row, (call, at));
            (call, at) = (row.call, row.at.as_ms());
        }
        columns
    }

    /// Adds a row behind one of this call and time.
    #[inline]
    fn add(&mut self, batch: &Batch, row: &Row, (call, at): (u64, u64)) {
        self.call_delta.signed(row.call.wrapping_sub(call).cast_signed());
        self.at_delta.signed(row.at.as_ms().wrapping_sub(at).cast_signed());
        let window = row.counter.and_then(|index| batch.counters.get(index as usize)).map(|counter| counter.window);
        let sub_window_delta = match window {
            Some(window) if window.is_in(row.sub_window, row.at) => 0,
            window => row.sub_window.wrapping_sub(window.map_or(0, |window| window.sub_window(row.at))).cast_signed(),
        };
        self.sub_window_delta.signed(sub_window_delta);
        self.counter.index(row.counter);
        self.cost.signed(row.cost);
        self.outcome.variant(row.outcome.to_wire());
        self.home_descriptors.index(row.home.as_ref().map(|home| home.descriptors));
        if let Some(home) = &row.home {
            self.home_decider.index(home.decider);
            self.home_source.variant(home.source.to_wire());
        }
    }

    fn in_order(&self) -> [&FieldBytes; 9] {
        let Self { call_delta, counter, at_delta, sub_window_delta, cost, .. } = self;
        let Self { outcome, home_descriptors, home_decider, home_source, .. } = self;
        [call_delta, counter, at_delta, sub_window_delta, cost, outcome, home_descriptors, home_decider, home_source]
    }

    fn len(&self) -> usize {
        self.in_order().map(|column| column.0.len()).iter().sum()
    }

    fn write(&self, bytes: &mut FieldBytes) {
        for (column, number) in self.in_order().into_iter().zip(11..) {
            bytes.column(number, column);
        }
    }
}

impl FieldBytes {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a digest")]
    fn counter(&mut self, counter: &CounterEntry) {
        let id = counter.id.as_u128();
        self.fixed(1, (id >> 64) as u64);
        self.fixed(2, id as u64);
        self.text(3, &counter.rule);
        self.text(4, &counter.label);
        self.number(5, counter.generation);
        self.number(6, counter.quota);
        self.number(7, counter.window.width_ms());
        self.number(8, counter.window.parts().into());
    }

    fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
    }

    fn fixed(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, FIXED_64);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Writes the values of a repeated field; nothing if there are none.
    fn column(&mut self, field: u32, values: &Self) {
        if !values.0.is_empty() {
            self.bytes(field, &values.0);
        }
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// Writes an optional index as index + 1, or 0 for none.
    #[inline]
    fn index(&mut self, index: Option<u32>) {
        self.varint(index.map_or(0, |index| u64::from(index) + 1));
    }

    #[inline]
    fn variant(&mut self, variant: i32) {
        self.varint(i64::from(variant).cast_unsigned());
    }

    /// Writes a number so that one near zero is short.
    #[inline]
    fn signed(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63).cast_unsigned());
    }

    #[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
