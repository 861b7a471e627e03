//! Counters of one agent: the view of each, and its state as well if the counts live here. The table has a cap.
//!
//! Past the cap, idle counters make room; if none is idle, unknown callers of a rule share that rule's overflow counter. The
//! table stays small, nobody is unlimited, and known callers are not affected. Neither are callers of other rules: a rule gets
//! a place only while it holds less than a few times the free places, so a flooded rule leaves a fifth to all others (dynamic
//! thresholds, Choudhury and Hahne, 1998).

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, Counters, StoreError, StoredCounter, step};

use crate::view::{CounterView, forget_denial, update_in_step};

const SHARDS: usize = 64;
/// Multiple of the free places that one rule may hold: alone it fills four fifths.
const FREE_TIMES: usize = 4;
/// Minimum time between two sweeps of a full shard, in ms.
const SWEEP_INTERVAL_MS: u64 = 500;
/// Minimum time for which a place is kept, in ms: the longest `deadline`. No sweep comes between a call's match and its charge
/// or its answer, after which the counter would come back without its rule.
const PLACE_KEPT_MS: u64 = 10_000;

/// Counters of one agent.
pub struct AgentTable {
    shard_len_max: usize,
    names: RandomState,
    shards: Box<[Mutex<TableShard>]>,
}

#[derive(Default)]
struct TableShard {
    counters: HashMap<CounterId, TableEntry, RandomState>,
    /// Number of counters of each rule.
    held: HashMap<RuleTag, usize, RandomState>,
    swept_at: Timestamp,
}

#[derive(Default)]
struct TableEntry {
    view: CounterView,
    /// State, if the counts live here.
    stored: Option<Box<StoredCounter>>,
    /// Rule of the counter; overflow counters have none.
    rule: Option<RuleTag>,
    /// Instant until which the place is kept.
    kept_until: Timestamp,
}

/// Digest of a rule's name.
type RuleTag = u64;

/// The shards of the counters of one request, locked.
struct LockedTable<'a>(SmallVec<[(usize, MutexGuard<'a, TableShard>); 2]>);

impl AgentTable {
    /// Creates an empty table with a cap on counters; each shard rounds its part of the cap up.
    #[must_use]
    pub fn new(counters_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shard_len_max: counters_max.div_ceil(SHARDS), names: RandomState::default(), shards }
    }

    /// Finds a place for a counter of this rule; returns false if there is none. Its callers then share the overflow counter.
    pub(crate) fn place(&self, counter: CounterId, rule: &str, now: Timestamp) -> bool {
        let mut shard = self.shards[shard_of(counter)].lock();
        let kept_until = now.plus_ms(PLACE_KEPT_MS);
        if let Some(entry) = shard.counters.get_mut(&counter) {
            entry.kept_until = kept_until;
            return true;
        }
        let rule = self.names.hash_one(rule);
        if !shard.has_place(rule, self.shard_len_max) && now.ms_since(shard.swept_at) >= SWEEP_INTERVAL_MS {
            shard.sweep(now);
        }
        let has_place = shard.has_place(rule, self.shard_len_max);
        if has_place {
            shard.counters.insert(counter, TableEntry { rule: Some(rule), kept_until, ..TableEntry::default() });
            *shard.held.entry(rule).or_default() += 1;
        }
        has_place
    }

    /// Returns true if the table holds a counter.
    pub(crate) fn holds(&self, counter: CounterId) -> bool {
        self.shards[shard_of(counter)].lock().counters.contains_key(&counter)
    }

    /// Applies a function to the view of a counter.
    pub(crate) fn with<R>(&self, counter: CounterId, look: impl FnOnce(&mut CounterView) -> R) -> R {
        look(&mut self.shards[shard_of(counter)].lock().counters.entry(counter).or_default().view)
    }

    /// Applies charges to the counts that live here, and updates the views in the same step. The shards of all counters are
    /// locked in ascending order.
    ///
    /// # Errors
    /// If a charge has expired.
    pub fn charge(&self, charges: &[Charge], now: Timestamp) -> Result<ChargeResults, StoreError> {
        let mut shards: SmallVec<[usize; 2]> = charges.iter().map(|charge| shard_of(charge.counter)).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut locked = LockedTable(shards.into_iter().map(|index| (index, self.shards[index].lock())).collect());
        let results = step(&mut locked, charges, now)?;
        for (charge, result) in charges.iter().zip(&results) {
            if let Some(entry) = locked.entry(charge.counter) {
                update_in_step(&mut entry.view, charge, result);
            }
        }
        Ok(results)
    }

    /// Removes the state of a counter, as if it had been lost: for the conformance suite.
    #[doc(hidden)]
    pub fn remove(&self, counter: CounterId) {
        if let Some(entry) = self.shards[shard_of(counter)].lock().counters.get_mut(&counter) {
            entry.stored = None;
        }
    }

    /// Drops all cached denials: the store's clock stepped back, and they may hold too long.
    pub(crate) fn forget_denials(&self) {
        for shard in &self.shards {
            shard.lock().counters.values_mut().for_each(|entry| forget_denial(&mut entry.view));
        }
    }

    /// Drops idle counters from one of the shards, in turn.
    pub(crate) fn sweep(&self, turn: usize, now: Timestamp) {
        self.shards[turn % SHARDS].lock().sweep(now);
    }

    /// Returns the number of counters.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().counters.len()).sum()
    }
}

impl TableShard {
    fn has_place(&self, rule: RuleTag, len_max: usize) -> bool {
        let free = len_max.saturating_sub(self.counters.len());
        self.held.get(&rule).copied().unwrap_or_default() < FREE_TIMES * free
    }

    fn sweep(&mut self, now: Timestamp) {
        self.swept_at = now;
        let held = &mut self.held;
        self.counters.retain(|_, entry| {
            let stays = !entry.is_idle_at(now);
            if let Some(count) = entry.rule.filter(|_| !stays).and_then(|rule| held.get_mut(&rule)) {
                *count -= 1;
            }
            stays
        });
        held.retain(|_, count| *count > 0);
        if self.counters.capacity() > 4 * self.counters.len() + 64 {
            self.counters.shrink_to_fit();
        }
    }
}

impl TableEntry {
    /// Returns true if neither the place, the view nor the counts matter any more.
    fn is_idle_at(&self, now: Timestamp) -> bool {
        self.kept_until <= now
            && self.view.is_idle_at(now)
            && self.stored.as_ref().is_none_or(|stored| stored.is_idle_at(now))
    }
}

impl LockedTable<'_> {
    fn shard(&mut self, counter: CounterId) -> &mut TableShard {
        let index = shard_of(counter);
        let position = self.0.iter().position(|(locked, _)| *locked == index);
        &mut self.0[position.expect("the shards of all charges are locked")].1
    }

    fn entry(&mut self, counter: CounterId) -> Option<&mut TableEntry> {
        self.shard(counter).counters.get_mut(&counter)
    }
}

impl Counters for LockedTable<'_> {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.entry(counter)?.stored.as_deref_mut()
    }

    /// There is always room: [`AgentTable::place`] has found a place for the counter, or it is an overflow counter.
    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        let entry = self.shard(charge.counter).counters.entry(charge.counter).or_default();
        Some(&mut **entry.stored.get_or_insert_with(|| Box::new(StoredCounter::new(charge))))
    }

    fn remove(&mut self, counter: CounterId) {
        if let Some(entry) = self.entry(counter) {
            entry.stored = None;
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
        let place = |number: u128, now| table.place(CounterId::from_u128(number), "rule", now);
        let charge_at = |number, now| table.charge(&[charge(number)], now).unwrap()[0].verdict.remaining;
        let placed: Vec<u128> = (0..2_000).filter(|number| place(*number, at) && charge_at(*number, at) == 8).collect();
        assert!(placed.len() <= 640 && placed.len() > 400, "{}", placed.len());
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
        assert!(table.place(CounterId::from_u128(1), "rule", at));
        let held = || table.shards[1].lock().held.len();
        let sweep = |now| (0..SHARDS).for_each(|turn| table.sweep(turn, now));
        sweep(at.plus_ms(PLACE_KEPT_MS - 1));
        assert_eq!(held(), 1);
        sweep(at.plus_ms(PLACE_KEPT_MS));
        assert_eq!(held(), 0);
    }
}
