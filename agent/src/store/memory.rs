//! Store in the memory of this process, shared by several agents: the demo, tests and the simulation.
//!
//! A single agent without Redis needs no store: its counts live in the engine's own table. Both containers leave the semantics
//! to [`step`]; here are only the shards, their locks and the cap.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tollgate_core::algorithm::CounterState;
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{Charge, ChargeResults, CounterId, Counters, StoredCounter, step};

use super::{ChargeStore, StoreError};

/// Default cap on the counters of a memory store.
const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
const SHARDS: usize = 64;
/// Number of counters of a shard below which idle ones are not searched for.
const SWEEP_LEN_MIN: usize = 256;

/// Store in the memory of this process.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    shard_len_max: usize,
    shards: Box<[Mutex<Shard>]>,
}

struct Shard {
    counters: HashMap<CounterId, StoredCounter, RandomState>,
    /// Number of counters at which idle ones are dropped.
    sweep_at_len: usize,
}

/// The shards of the counters of one request, locked.
struct LockedShards<'a> {
    shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
    shard_len_max: usize,
}

impl MemoryStore {
    /// Creates an empty store that goes by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_counters_max(clock, COUNTERS_MAX_DEFAULT)
    }

    /// Creates an empty store with a cap on counters; each shard rounds its part of the cap up.
    #[must_use]
    pub fn with_counters_max(clock: Arc<dyn Clock>, counters_max: usize) -> Self {
        let shard = || Mutex::new(Shard { counters: HashMap::default(), sweep_at_len: SWEEP_LEN_MIN });
        Self { clock, shard_len_max: counters_max.div_ceil(SHARDS), shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().counters.len()).sum()
    }

    /// Returns true if the store holds no counter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the state of a counter, for tests that compare it.
    #[must_use]
    pub fn peek(&self, counter: CounterId) -> Option<CounterState> {
        self.shards[shard_of(counter)].lock().counters.get(&counter).map(|counter| counter.state().clone())
    }

    fn charge_now(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        let now = self.clock.now();
        Ok(step(&mut self.lock(charges), charges, now)?)
    }

    /// Locks the shards of these counters, always in ascending order.
    fn lock(&self, charges: &[Charge]) -> LockedShards<'_> {
        let mut wanted: SmallVec<[usize; 2]> = charges.iter().map(|charge| shard_of(charge.counter)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let shards = wanted.into_iter().map(|index| (index, self.shards[index].lock())).collect();
        LockedShards { shards, shard_len_max: self.shard_len_max }
    }
}

impl ChargeStore for MemoryStore {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.charge_now(charges)
    }

    fn try_charge(&self, charges: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        Some(self.charge_now(charges))
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}

impl LockedShards<'_> {
    fn shard(&mut self, counter: CounterId) -> &mut Shard {
        let index = shard_of(counter);
        let position = self.shards.iter().position(|(locked, _)| *locked == index);
        &mut self.shards[position.expect("the shards of all charges are locked")].1
    }
}

impl Counters for LockedShards<'_> {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.shard(counter).counters.get_mut(&counter)
    }

    fn get_or_create(&mut self, charge: &Charge, now: Timestamp) -> Option<&mut StoredCounter> {
        let len_max = self.shard_len_max;
        self.shard(charge.counter).get_or_create(charge, now, len_max)
    }

    fn remove(&mut self, counter: CounterId) {
        self.shard(counter).counters.remove(&counter);
    }
}

impl Shard {
    fn get_or_create(&mut self, charge: &Charge, now: Timestamp, len_max: usize) -> Option<&mut StoredCounter> {
        if self.counters.len() >= self.sweep_at_len.min(len_max) && !self.counters.contains_key(&charge.counter) {
            self.counters.retain(|_, counter| !counter.is_idle_at(now));
            self.sweep_at_len = (2 * self.counters.len()).max(SWEEP_LEN_MIN);
            if self.counters.len() >= len_max {
                return None;
            }
        }
        Some(match self.counters.entry(charge.counter) {
            Entry::Occupied(occupied) => occupied.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(StoredCounter::new(charge)),
        })
    }
}

fn shard_of(counter: CounterId) -> usize {
    (counter.as_u128() % SHARDS as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance;

    impl conformance::Loses for MemoryStore {
        fn lose(&self, counter: CounterId) {
            self.shards[shard_of(counter)].lock().counters.remove(&counter);
        }
    }

    #[test]
    fn it_is_a_store() {
        conformance::run(conformance::Refusal::ChargesNothing, |clock| MemoryStore::new(clock));
    }

    /// capped: past the cap idle counters make room; when none is idle, the store says so and charges nothing.
    #[test]
    fn it_never_holds_more_than_its_cap() {
        let clock = Arc::new(conformance::HandClock::at(1_000_000));
        let store = MemoryStore::with_counters_max(clock.clone(), 6_400);
        let ask = |number: u128| store.charge_now(&[conformance::ask(number, 10)]);
        let full = (0..20_000).filter(|number| ask(*number) == Err(StoreError::Full)).count();
        assert!(full > 0 && store.len() <= 6_400, "{full} refused, {} held", store.len());
        clock.set(1_000_000 + 200_000);
        assert!((20_000..22_000).all(|number| ask(number).is_ok()));
    }
}
