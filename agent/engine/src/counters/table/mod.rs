//! Counters of one agent: the view of each, and its state as well if the counts live here. The table has a cap.
//!
//! Past the cap, idle counters make room; if none is idle, unknown callers are left to the [sketch](crate::counters::sketch). The
//! table stays small, nobody is unlimited, and known callers are not affected. Neither are callers of other rules: if
//! several rules limit, a rule gets a place only while it holds less than a few times the free places, so a flooded
//! rule leaves a fifth to all others (dynamic thresholds, Choudhury and Hahne, 1998). A rule alone may fill the table.

mod counter_places;
mod shard;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{
    Charge, ChargeResults, CounterId, Counters, PrimaryIndex, StoreError, StoredCounter, step_at_once,
};

use crate::counters::sketch::Sketches;
use crate::counters::view::{CounterView, update_in_step};
use crate::engine_settings::SKETCH_BYTES_DEFAULT;
use crate::time::TimeBounds;
pub use counter_places::COUNTERS_MAX_RANGE;
use counter_places::{LATE, Places};
pub(crate) use shard::TableEntry;
use shard::TableShard;

const SHARDS: usize = 64;
/// Minimum time between two sweeps of a shard for a table that is full, in ms.
const SWEEP_INTERVAL_MS: u64 = 500;

/// Counters of one agent.
pub struct AgentTable {
    names: RandomState,
    places: Mutex<Places>,
    shards: Box<[CacheLines<Mutex<TableShard>>]>,
    /// Numbers of changes of each shard that ended a cached denial early. They are read without the lock and change rarely.
    denials_ended: [AtomicU32; SHARDS],
    sketches: Sketches,
    counters_max: usize,
    /// Turn of the sweep.
    turn: AtomicUsize,
}

/// A value that shares no cache lines with others.
#[derive(Default)]
#[repr(align(128))]
struct CacheLines<T>(T);

pub(crate) struct LockedTable<'a> {
    table: &'a AgentTable,
    shards: SmallVec<[(usize, MutexGuard<'a, TableShard>); 2]>,
}

impl AgentTable {
    /// Creates an empty table with a cap on counters.
    #[must_use]
    pub fn new(counters_max: usize) -> Self {
        Self::with_sketch(counters_max, SKETCH_BYTES_DEFAULT)
    }

    /// Creates an empty table with a cap on counters, and on the memory of the sketches beside it.
    pub(crate) fn with_sketch(counters_max: usize, sketch_bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| CacheLines::default()).collect();
        let places = Mutex::new(Places::new(counters_max));
        let denials_ended = [const { AtomicU32::new(0) }; SHARDS];
        let (names, sketches, turn) = (RandomState::default(), Sketches::new(sketch_bytes), AtomicUsize::default());
        Self { names, places, shards, denials_ended, sketches, counters_max, turn }
    }

    /// Locks the shards of some counters, in ascending order.
    pub(crate) fn lock(&self, counters: impl Iterator<Item = CounterId>) -> LockedTable<'_> {
        let mut shards: SmallVec<[usize; 2]> = counters.map(shard_of).collect();
        if shards.len() > 1 {
            shards.sort_unstable();
            shards.dedup();
        }
        let shards = shards.into_iter().map(|index| (index, self.shards[index].0.lock())).collect();
        LockedTable { table: self, shards }
    }

    /// Applies a function to the entry of a counter that has a place. The position at which it was found last makes the
    /// search shorter, and is updated.
    #[inline]
    pub(crate) fn find<R>(
        &self,
        counter: CounterId,
        position: &mut u32,
        now: Timestamp,
        look: impl FnOnce(&mut TableEntry) -> R,
    ) -> Option<R> {
        let mut shard = self.shards[shard_of(counter)].0.lock();
        let entry = shard.find_near(counter, position)?;
        entry.keep(now);
        Some(look(entry))
    }

    /// Returns a number that changes when a cached denial of this counter ends before its time. A refund may have made room, another
    /// call may have taken units, or the store's clock has stepped back. Other counters may change it, too.
    #[inline]
    pub(crate) fn denials_ended(&self, counter: CounterId) -> u32 {
        self.denials_ended[shard_of(counter)].load(Ordering::Acquire)
    }

    pub(crate) fn holds(&self, counter: CounterId) -> bool {
        self.shards[shard_of(counter)].0.lock().find(counter).is_some()
    }

    pub(crate) fn with<R>(&self, counter: CounterId, look: impl FnOnce(&mut CounterView) -> R) -> R {
        let mut table = self.lock([counter].into_iter());
        let view = table.view(counter);
        let denial = view.denial;
        let result = look(view);
        if denial.is_some() && view.denial != denial {
            self.end_denials(counter);
        }
        result
    }

    /// Applies charges to the counts that live here, and updates the views in the same step.
    ///
    /// # Errors
    /// None: the table refuses no counter, and no charge expires here.
    pub fn charge(&self, charges: &[Charge], now: Timestamp) -> Result<ChargeResults, StoreError> {
        self.lock(charges.iter().map(|charge| charge.counter)).charge(charges, now)
    }

    /// Removes the state of a counter, as if it had been lost: for the conformance suite.
    #[doc(hidden)]
    pub fn remove(&self, counter: CounterId) {
        self.lock([counter].into_iter()).remove(counter);
    }

    /// Drops or re-bases all that is kept in the time of a primary, after its clock stepped back by `by_ms` to `now`.
    pub(crate) fn rebase(&self, primary: PrimaryIndex, by_ms: u64, now: Timestamp) {
        for (shard, ended) in self.shards.iter().zip(&self.denials_ended) {
            let mut shard = shard.0.lock();
            shard.rebase(primary, by_ms, now);
            ended.fetch_add(1, Ordering::Release);
        }
    }

    /// Drops all cached denials, because counters may follow other rules now.
    pub(crate) fn end_all_denials(&self) {
        for (shard, ended) in self.shards.iter().zip(&self.denials_ended) {
            shard.0.lock().end_denials();
            ended.fetch_add(1, Ordering::Release);
        }
    }

    /// Tells threads that remember a denial of this counter, whose shard is locked, to look again.
    pub(crate) fn end_denials(&self, counter: CounterId) {
        self.denials_ended[shard_of(counter)].fetch_add(1, Ordering::Release);
    }

    /// Drops idle counters from one of the shards, in turn, and counts the stranded units of its leases. Returns true if the
    /// sketches were dropped, because there is room again. `now` is the agent's own time.
    pub(crate) fn sweep(&self, now: Timestamp, store_now: TimeBounds) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.sweep_shard(&mut self.shards[turn % SHARDS].0.lock(), store_now.earliest);
        self.sketches.end_use(now, self.len(), self.counters_max)
    }

    /// Returns the sketches, which count callers without a place.
    pub(crate) fn sketches(&self) -> &Sketches {
        &self.sketches
    }

    pub(crate) fn len(&self) -> usize {
        self.places.lock().len()
    }

    fn sweep_shard(&self, shard: &mut TableShard, now: Timestamp) {
        let dropped = shard.sweep(now);
        self.places.lock().give_back(&dropped);
    }
}

impl LockedTable<'_> {
    /// Finds a place for a counter of this rule, which may fill the table if it is alone; returns false if there is none.
    pub(crate) fn place(&mut self, counter: CounterId, rule: &str, is_alone: bool, now: Timestamp) -> bool {
        let (table, shard) = (self.table, self.shard(counter));
        if let Some(entry) = shard.find(counter) {
            entry.keep(now);
            return true;
        }
        let tag = table.names.hash_one(rule).max(LATE + 1);
        let mut has_place = table.places.lock().take(tag, is_alone);
        if !has_place && now.ms_since(shard.swept_at) >= SWEEP_INTERVAL_MS {
            table.sweep_shard(shard, now);
            has_place = table.places.lock().take(tag, is_alone);
        }
        if has_place {
            shard.find_or_insert(counter, || (tag, Timestamp::default())).keep(now);
        }
        has_place
    }

    /// Notes the primary that holds a counter. If its slot has moved, what is kept in the time of the former primary ends, as if
    /// the clock had stepped from the one time to the other. `time` returns the bounds of the time of a primary.
    pub(crate) fn follow_primary(
        &mut self,
        counter: CounterId,
        primary: PrimaryIndex,
        time: impl Fn(PrimaryIndex) -> TimeBounds,
    ) {
        let table = self.table;
        let Some(entry) = self.shard(counter).find(counter).filter(|entry| entry.primary != primary) else { return };
        let (before, now) = (time(entry.primary), time(primary));
        entry.primary = primary;
        entry.move_to_primary(before.latest.ms_since(now.earliest), now.earliest);
        table.end_denials(counter);
    }

    /// Returns the view of a counter. Its cached denial must not change.
    pub(crate) fn view(&mut self, counter: CounterId) -> &mut CounterView {
        &mut self.entry(counter).view
    }

    /// Applies charges as [`AgentTable::charge`] does.
    pub(crate) fn charge(&mut self, charges: &[Charge], now: Timestamp) -> Result<ChargeResults, StoreError> {
        let results = step_at_once(self, charges, now)?;
        for (charge, result) in charges.iter().zip(&results) {
            let table = self.table;
            if let Some(entry) = self.shard(charge.counter).find(charge.counter)
                && update_in_step(&mut entry.view, charge, result, now, false)
            {
                table.end_denials(charge.counter);
            }
        }
        Ok(results)
    }

    /// Returns the entry of a counter. It is absent only if its call took longer than any deadline.
    fn entry(&mut self, counter: CounterId) -> &mut TableEntry {
        let table = self.table;
        self.shard(counter).find_or_insert(counter, || {
            table.places.lock().take(LATE, false);
            (LATE, Timestamp::default())
        })
    }

    fn shard(&mut self, counter: CounterId) -> &mut TableShard {
        let index = shard_of(counter);
        let locked = self.shards.iter_mut().find(|(locked, _)| *locked == index);
        &mut locked.expect("the shards of all counters are locked").1
    }
}

impl Counters for LockedTable<'_> {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.shard(counter).find(counter)?.get(counter)
    }

    /// Always finds room: [`LockedTable::place`] has found a place for the counter, or its call is late.
    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        self.entry(charge.counter).get_or_create(charge)
    }

    fn remove(&mut self, counter: CounterId) {
        if let Some(entry) = self.shard(counter).find(counter) {
            entry.remove(counter);
        }
    }
}

fn shard_of(counter: CounterId) -> usize {
    (counter.as_u128() % SHARDS as u128) as usize
}
