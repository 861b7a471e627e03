//! A shard of the table: entries in chunks that never move as a whole, and their positions by counter.
//!
//! A table that doubles holds half its bytes for nothing and copies all entries at once; chunks do neither, and a sweep
//! frees the chunks that it empties. Only the positions, 5 bytes each, are in a hash table.

use hashbrown::HashTable;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{
    Charge, ChargeResult, CounterId, Counters, PrimaryIndex, StoreError, StoredCounter, step_one,
};

use super::counter_places::RuleTag;
use crate::counters::view::{CounterView, end_denial, move_to_primary, rebase, update_in_step};

const CHUNK_LEN: usize = 256;
/// Minimum time for which a place is kept, in ms: the longest `deadline`. No sweep comes between a call's match and its
/// charge or its answer, after which the counter would come back without its rule.
pub(super) const PLACE_KEPT_MS: u64 = 10_000;
/// Time by which a place is kept longer, in ms, so that most calls do not write it.
pub(super) const PLACE_KEPT_STEP_MS: u64 = 1_000;

#[derive(Default)]
pub(super) struct TableShard {
    positions: HashTable<u32>,
    /// Entries; all chunks but the last are full.
    chunks: Vec<Vec<TableEntry>>,
    pub(super) swept_at: Timestamp,
}

pub(crate) struct TableEntry {
    pub(super) id: CounterId,
    pub(super) rule: RuleTag,
    pub(super) kept_until: Timestamp,
    pub(crate) view: CounterView,
    /// Primary that holds the counter.
    pub(super) primary: PrimaryIndex,
    /// State, if the counts live here.
    pub(super) stored: Option<Box<StoredCounter>>,
}

impl TableShard {
    pub(super) fn find(&mut self, counter: CounterId) -> Option<&mut TableEntry> {
        let position = self.position(counter)?;
        Some(entry_mut(&mut self.chunks, position))
    }

    /// Returns the entry of a counter, which was found at this position last. Entries move when others are dropped.
    #[inline]
    pub(super) fn find_near(&mut self, counter: CounterId, position: &mut u32) -> Option<&mut TableEntry> {
        let (chunk, offset) = split(*position);
        if self.chunks.get(chunk).and_then(|chunk| chunk.get(offset)).is_none_or(|entry| entry.id != counter) {
            *position = self.position(counter)?;
        }
        Some(entry_mut(&mut self.chunks, *position))
    }

    pub(super) fn find_or_insert(
        &mut self,
        counter: CounterId,
        rule_and_kept_until: impl FnOnce() -> (RuleTag, Timestamp),
    ) -> &mut TableEntry {
        let position = self.position(counter).unwrap_or_else(|| {
            let (rule, kept_until) = rule_and_kept_until();
            self.insert(counter, rule, kept_until)
        });
        entry_mut(&mut self.chunks, position)
    }

    fn position(&self, counter: CounterId) -> Option<u32> {
        self.positions.find(hash(counter), |position| entry(&self.chunks, *position).id == counter).copied()
    }

    /// Adds a counter that is absent.
    pub(super) fn insert(&mut self, counter: CounterId, rule: RuleTag, kept_until: Timestamp) -> u32 {
        let Self { positions, chunks, .. } = self;
        if chunks.last().is_none_or(|last| last.len() == CHUNK_LEN) {
            // The first chunk grows: most tables are small.
            chunks.push(Vec::with_capacity(if chunks.is_empty() { 0 } else { CHUNK_LEN }));
        }
        let (full, last) = (chunks.len() - 1, chunks.last_mut().expect("it was pushed"));
        last.push(TableEntry {
            id: counter,
            rule,
            kept_until,
            view: CounterView::default(),
            primary: PrimaryIndex::ONLY,
            stored: None,
        });
        let position = u32::try_from(full * CHUNK_LEN + last.len() - 1).expect("a shard holds less than 2^32 counters");
        positions.insert_unique(hash(counter), position, |position| hash(entry(chunks, *position).id));
        position
    }

    /// Drops the idle counters, and counts the stranded units of leases; returns the rules of the dropped counters.
    pub(super) fn sweep(&mut self, now: Timestamp) -> Vec<RuleTag> {
        self.swept_at = now;
        let mut dropped = Vec::new();
        for position in (0..self.positions.len()).rev() {
            let position = u32::try_from(position).expect("positions are small");
            let swept = entry_mut(&mut self.chunks, position);
            swept.view.count_stranded(now);
            if swept.is_idle_at(now) {
                dropped.push(self.swap_remove(position).rule);
            }
        }
        if self.positions.capacity() > 4 * self.positions.len() + 64 {
            let chunks = &self.chunks;
            self.positions.shrink_to_fit(|position| hash(entry(chunks, *position).id));
            self.chunks.shrink_to_fit();
        }
        dropped
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>().max(self.positions.capacity())
    }

    pub(super) fn rebase(&mut self, primary: PrimaryIndex, by_ms: u64, now: Timestamp) {
        self.swept_at = self.swept_at.min(now);
        let entries = self.chunks.iter_mut().flatten().filter(|entry| entry.primary == primary);
        entries.for_each(|entry| entry.rebase(by_ms, now));
    }

    pub(super) fn end_denials(&mut self) {
        self.chunks.iter_mut().flatten().for_each(|entry| end_denial(&mut entry.view));
    }

    /// Removes an entry, into whose place the last one moves.
    fn swap_remove(&mut self, position: u32) -> TableEntry {
        let Self { positions, chunks, .. } = self;
        let is = |wanted: u32| move |position: &u32| *position == wanted;
        let removed = hash(entry(chunks, position).id);
        if let Ok(found) = positions.find_entry(removed, is(position)) {
            found.remove();
        }
        let full = chunks.len() - 1;
        let moved = chunks[full].pop().expect("no chunk is empty");
        let last = u32::try_from(full * CHUNK_LEN + chunks[full].len()).expect("positions are small");
        if chunks[full].is_empty() {
            chunks.pop();
        }
        if last == position {
            return moved;
        }
        if let Some(found) = positions.find_mut(hash(moved.id), is(last)) {
            *found = position;
        }
        std::mem::replace(entry_mut(chunks, position), moved)
    }
}

impl TableEntry {
    /// Drops or re-bases all that is kept in store time, after the store's clock stepped back by `by_ms` to `now`.
    pub(super) fn rebase(&mut self, by_ms: u64, now: Timestamp) {
        self.kept_until = self.kept_until.min(now.plus_ms(PLACE_KEPT_MS + PLACE_KEPT_STEP_MS));
        rebase(&mut self.view, by_ms, now);
    }

    /// Does the same for a counter that another primary holds now.
    pub(super) fn move_to_primary(&mut self, by_ms: u64, now: Timestamp) {
        self.kept_until = self.kept_until.min(now.plus_ms(PLACE_KEPT_MS + PLACE_KEPT_STEP_MS));
        move_to_primary(&mut self.view, by_ms, now);
    }

    /// Keeps the place of a counter that is in use.
    #[inline]
    pub(super) fn keep(&mut self, now: Timestamp) {
        if self.kept_until < now.plus_ms(PLACE_KEPT_MS) {
            self.kept_until = now.plus_ms(PLACE_KEPT_MS + PLACE_KEPT_STEP_MS);
        }
    }

    /// Applies the only charge of a call to the counts that live here, and updates the view. The second result is true if a
    /// cached denial ended before its time.
    #[inline]
    pub(crate) fn charge(&mut self, charge: &Charge, now: Timestamp) -> Result<(ChargeResult, bool), StoreError> {
        let result = step_one(self, charge, now)?;
        let ends_denial = update_in_step(&mut self.view, charge, &result, now, false);
        Ok((result, ends_denial))
    }

    /// Returns true if neither the place, the view nor the counts matter any more.
    fn is_idle_at(&self, now: Timestamp) -> bool {
        self.kept_until <= now
            && self.view.is_idle_at(now)
            && self.stored.as_ref().is_none_or(|stored| stored.is_idle_at(now))
    }
}

/// The counter as a container of itself.
impl Counters for TableEntry {
    fn get(&mut self, _: CounterId) -> Option<&mut StoredCounter> {
        self.stored.as_deref_mut()
    }

    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        Some(self.stored.get_or_insert_with(|| Box::new(StoredCounter::new(charge))))
    }

    fn remove(&mut self, _: CounterId) {
        self.stored = None;
    }
}

fn entry(chunks: &[Vec<TableEntry>], position: u32) -> &TableEntry {
    let (chunk, offset) = split(position);
    &chunks[chunk][offset]
}

fn entry_mut(chunks: &mut [Vec<TableEntry>], position: u32) -> &mut TableEntry {
    let (chunk, offset) = split(position);
    &mut chunks[chunk][offset]
}

/// Returns the chunk of a position, and the offset in it.
const fn split(position: u32) -> (usize, usize) {
    (position as usize / CHUNK_LEN, position as usize % CHUNK_LEN)
}

/// Returns the hash of a digest, which is one already: the bits that do not select the shard.
#[expect(clippy::cast_possible_truncation, reason = "the other bits are not needed")]
fn hash(counter: CounterId) -> u64 {
    (counter.as_u128() >> 6) as u64
}
