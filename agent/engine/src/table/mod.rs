//! Counters of one agent: the view of each, and its state as well if the counts live here. The table has a cap.
//!
//! Past the cap, idle counters make room; if none is idle, unknown callers are left to the [sketch](crate::sketch). The table
//! stays small, nobody is unlimited, and known callers are not affected. Neither are callers of other rules: if several
//! rules limit, a rule gets a place only while it holds less than a few times the free places, so a flooded rule leaves a fifth
//! to all others (dynamic thresholds, Choudhury and Hahne, 1998). A rule alone may fill the table.

mod counter_places;
mod shard;

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, Counters, StoreError, StoredCounter, step};

use crate::view::{CounterView, forget_denial, update_in_step};
use counter_places::{LATE, Places, RuleTag};
pub(crate) use shard::TableEntry;
use shard::TableShard;

const SHARDS: usize = 64;
/// Minimum time between two sweeps of a shard for a table that is full, in ms.
const SWEEP_INTERVAL_MS: u64 = 500;
/// Minimum time for which a place is kept, in ms: the longest `deadline`. No sweep comes between a call's match and its charge
/// or its answer, after which the counter would come back without its rule.
const PLACE_KEPT_MS: u64 = 10_000;
/// Time by which a place is kept longer, in ms, so that most calls do not write it.
const PLACE_KEPT_STEP_MS: u64 = 1_000;
/// Counters of one agent.
pub struct AgentTable {
    names: RandomState,
    places: Mutex<Places>,
    shards: Box<[CacheLines<Mutex<TableShard>>]>,
}

/// A value that shares no cache lines with others.
#[derive(Default)]
#[repr(align(128))]
struct CacheLines<T>(T);

/// The shards of the counters of one call or request, locked.
pub(crate) struct LockedTable<'a> {
    table: &'a AgentTable,
    shards: SmallVec<[(usize, MutexGuard<'a, TableShard>); 2]>,
}

impl AgentTable {
    /// Creates an empty table with a cap on counters.
    #[must_use]
    pub fn new(counters_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| CacheLines::default()).collect();
        let places = Mutex::new(Places::new(counters_max));
        Self { names: RandomState::default(), places, shards }
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

    /// Applies a function to the entry of a counter that has a place.
    pub(crate) fn find<R>(
        &self,
        counter: CounterId,
        now: Timestamp,
        look: impl FnOnce(&mut TableEntry) -> R,
    ) -> Option<R> {
        let mut shard = self.shards[shard_of(counter)].0.lock();
        let entry = shard.find(counter)?;
        entry.keep(now);
        Some(look(entry))
    }

    /// Returns true if the table holds a counter.
    pub(crate) fn holds(&self, counter: CounterId) -> bool {
        self.shards[shard_of(counter)].0.lock().find(counter).is_some()
    }

    /// Applies a function to the view of a counter.
    pub(crate) fn with<R>(&self, counter: CounterId, look: impl FnOnce(&mut CounterView) -> R) -> R {
        look(self.lock([counter].into_iter()).view(counter))
    }

    /// Applies charges to the counts that live here, and updates the views in the same step.
    ///
    /// # Errors
    /// If a charge has expired.
    pub fn charge(&self, charges: &[Charge], now: Timestamp) -> Result<ChargeResults, StoreError> {
        self.lock(charges.iter().map(|charge| charge.counter)).charge(charges, now)
    }

    /// Removes the state of a counter, as if it had been lost: for the conformance suite.
    #[doc(hidden)]
    pub fn remove(&self, counter: CounterId) {
        self.lock([counter].into_iter()).remove(counter);
    }

    /// Drops all cached denials: the store's clock stepped back, and they may hold too long.
    pub(crate) fn forget_denials(&self) {
        for shard in &self.shards {
            shard.0.lock().entries_mut().for_each(|entry| forget_denial(&mut entry.view));
        }
    }

    /// Drops idle counters from one of the shards, in turn.
    pub(crate) fn sweep(&self, turn: usize, now: Timestamp) {
        self.sweep_shard(&mut self.shards[turn % SHARDS].0.lock(), now);
    }

    /// Returns the number of counters.
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

    /// Returns the view of a counter.
    pub(crate) fn view(&mut self, counter: CounterId) -> &mut CounterView {
        &mut self.entry(counter).view
    }

    /// Applies charges as [`AgentTable::charge`] does.
    pub(crate) fn charge(&mut self, charges: &[Charge], now: Timestamp) -> Result<ChargeResults, StoreError> {
        let results = step(self, charges, now)?;
        for (charge, result) in charges.iter().zip(&results) {
            if let Some(entry) = self.shard(charge.counter).find(charge.counter) {
                update_in_step(&mut entry.view, charge, result);
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

    /// There is always room: [`LockedTable::place`] has found a place for the counter, or its call is late.
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

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::{Algorithm, Limit};
    use tollgate_core::window::{Estimate, Window};

    use super::*;

    fn place(table: &AgentTable, number: u128, is_alone: bool, now: Timestamp) -> bool {
        let counter = CounterId::from_u128(number);
        table.lock([counter].into_iter()).place(counter, "rule", is_alone, now)
    }

    fn charge(counter: u128) -> Charge {
        let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
        let limit = Limit { algorithm, units: 9, window: Window::new(60_000, 12).unwrap(), burst: 0 };
        Charge::enforce(CounterId::from_u128(counter), limit, 1, 1, Timestamp::from_ms(u64::MAX))
    }

    /// capped: a counter with live counts keeps its place however many others come, and leaves once it is idle.
    #[test]
    fn a_counter_with_live_counts_is_never_evicted() {
        let table = AgentTable::new(640);
        let at = Timestamp::from_ms(1_000_000);
        let place = |number: u128, now| place(&table, number, false, now);
        let charge_at = |number, now| table.charge(&[charge(number)], now).unwrap()[0].verdict.remaining;
        let placed: Vec<u128> = (0..2_000).filter(|number| place(*number, at) && charge_at(*number, at) == 8).collect();
        assert_eq!(placed.len(), 640 / 5 * 4);
        let soon = at.plus_ms(1_000);
        assert!(!(2_000..4_000).any(|number| place(number, soon)), "no counter is idle");
        assert!(placed.iter().all(|number| charge_at(*number, soon) == 7));
        let later = at.plus_ms(200_000);
        (0..SHARDS).for_each(|turn| table.sweep(turn, later));
        assert!(table.len() == 0 && place(5_000, later));
    }

    /// capped: a sweep between the match of a call and its charge leaves the counter to its rule.
    #[test]
    fn a_placed_counter_stays_until_its_call_has_been_charged() {
        let (table, at) = (AgentTable::new(640), Timestamp::from_ms(1_000_000));
        assert!(place(&table, 1, false, at));
        let held = || table.places.lock().rules();
        let sweep = |now| (0..SHARDS).for_each(|turn| table.sweep(turn, now));
        sweep(at.plus_ms(PLACE_KEPT_MS - 1));
        assert_eq!(held(), 1);
        sweep(at.plus_ms(PLACE_KEPT_MS + PLACE_KEPT_STEP_MS));
        assert_eq!(held(), 0);
    }

    /// capped: `counters_max` of one rule is what it says.
    #[test]
    fn a_rule_alone_fills_the_table_to_its_cap() {
        let (table, at) = (AgentTable::new(1_000), Timestamp::from_ms(1_000_000));
        assert_eq!((0..5_000).filter(|number| place(&table, *number, true, at)).count(), 1_000);
        assert_eq!(table.len(), 1_000);
    }

    /// capped: a flooded rule leaves places to the others.
    #[test]
    fn a_flooded_rule_leaves_a_fifth_of_the_table_to_the_others() {
        let (table, at) = (AgentTable::new(1_000), Timestamp::from_ms(1_000_000));
        assert_eq!((0..5_000).filter(|number| place(&table, *number, false, at)).count(), 800);
        let other = CounterId::from_u128(9_000);
        assert!(table.lock([other].into_iter()).place(other, "other", false, at));
    }

    /// capped: the memory of counters that were swept is free.
    #[test]
    fn a_swept_table_gives_its_memory_back() {
        let (table, at) = (AgentTable::new(100_000), Timestamp::from_ms(1_000_000));
        (0..100_000).for_each(|number| assert!(place(&table, number, true, at)));
        let kept: Vec<u128> = (0..100_000).step_by(1_000).collect();
        let later = at.plus_ms(PLACE_KEPT_MS * 2);
        assert!(kept.iter().all(|number| place(&table, *number, true, later)));
        (0..SHARDS).for_each(|turn| table.sweep(turn, later));
        assert_eq!(table.len(), kept.len());
        assert!(kept.iter().all(|number| table.holds(CounterId::from_u128(*number))), "the others are still found");
        let capacity: usize = table.shards.iter().map(|shard| shard.0.lock().capacity()).sum();
        assert!(capacity < 64 * 256, "{capacity}");
    }
}
