//! Counters in this process: exact for one process, and the reference for every other store.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{CounterId, RequestId};
use tollgate_core::rules::Generation;

use super::{ChargeResults, ChargeStore, StoreError};
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult};

/// How many counters a memory store holds unless told otherwise.
const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
const SHARDS: usize = 64;
/// How many requests a counter remembers by name. When so many were charged within a window the oldest quarter of them is
/// forgotten: whoever repeats one of those pays again.
const REQUESTS_MAX: usize = 10_000;
/// A shard below this size is not worth sweeping.
const SWEEP_LEN_MIN: usize = 256;

/// Counters in this process.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    shard_len_max: usize,
    shards: Box<[Mutex<Shard>]>,
}

struct Shard {
    counters: HashMap<CounterId, Counter, RandomState>,
    /// When it has grown to this, what is idle is dropped.
    sweep_at_len: usize,
}

struct Counter {
    /// Whether nothing but giving back was ever asked of it.
    is_untouched: bool,
    state: CounterState,
    generation: Generation,
    limit: Limit,
    /// Requests that were charged, by name, and when; those of the last window, at most [`REQUESTS_MAX`].
    requests: HashMap<RequestId, Timestamp, RandomState>,
    /// When it has grown to this, what has left is dropped.
    sweep_requests_at_len: usize,
}

impl MemoryStore {
    /// An empty store that goes by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_counters_max(clock, COUNTERS_MAX_DEFAULT)
    }

    /// An empty store that holds at most about so many counters.
    #[must_use]
    pub fn with_counters_max(clock: Arc<dyn Clock>, counters_max: usize) -> Self {
        let shard = || Mutex::new(Shard { counters: HashMap::default(), sweep_at_len: SWEEP_LEN_MIN });
        Self { clock, shard_len_max: counters_max.div_ceil(SHARDS), shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// How many counters it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().counters.len()).sum()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a counter holds, for those who check on the store.
    #[must_use]
    pub fn peek(&self, counter: CounterId) -> Option<CounterState> {
        self.shards[shard_of(counter)].lock().counters.get(&counter).map(|counter| counter.state.clone())
    }

    fn step(&self, takes: &[Charge]) -> Result<ChargeResults, StoreError> {
        let now = self.clock.now();
        if takes.iter().any(|take| take.mode.has_expired(now)) {
            return Err(StoreError::Expired);
        }
        let mut shards = self.lock(takes);
        let mut answers = ChargeResults::new();
        for take in takes {
            let counter = shards.of(take.counter).counter(take, now, self.shard_len_max)?;
            answers.push(counter.look(take, now));
        }
        let refused = |(take, taken): (&Charge, &ChargeResult)| {
            matches!(take.mode, ChargeMode::Enforce { .. }) && !taken.verdict.admitted
        };
        let room = !takes.iter().zip(&answers).any(refused);
        for (take, taken) in takes.iter().zip(&mut answers) {
            if let Some(counter) = shards.of(take.counter).counters.get_mut(&take.counter)
                && (room || !matches!(take.mode, ChargeMode::Enforce { .. }))
            {
                counter.settle(take, taken);
            }
        }
        // A counter that was not there is not made by giving back.
        for take in takes {
            let counters = &mut shards.of(take.counter).counters;
            if counters.get(&take.counter).is_some_and(|counter| counter.is_untouched) {
                counters.remove(&take.counter);
            }
        }
        Ok(answers)
    }

    /// Locks the shards of these counters, always in the same order.
    fn lock(&self, takes: &[Charge]) -> Locked<'_> {
        let mut wanted: SmallVec<[usize; 2]> = takes.iter().map(|take| shard_of(take.counter)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Locked { shards: wanted.into_iter().map(|index| (index, self.shards[index].lock())).collect() }
    }
}

impl ChargeStore for MemoryStore {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.step(charges)
    }

    fn try_charge(&self, charges: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        Some(self.step(charges))
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}

struct Locked<'a> {
    shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
}

impl Locked<'_> {
    fn of(&mut self, counter: CounterId) -> &mut Shard {
        let index = shard_of(counter);
        let place = self.shards.iter().position(|(locked, _)| *locked == index);
        &mut self.shards[place.expect("the shards of all takes are locked")].1
    }
}

impl Shard {
    /// The counter of a take, opened if need be, fitted to the newest rule that it knows.
    fn counter(&mut self, take: &Charge, now: Timestamp, len_max: usize) -> Result<&mut Counter, StoreError> {
        if self.counters.len() >= self.sweep_at_len.min(len_max) && !self.counters.contains_key(&take.counter) {
            self.counters.retain(|_, counter| !counter.is_idle_at(now));
            self.sweep_at_len = (2 * self.counters.len()).max(SWEEP_LEN_MIN);
            if self.counters.len() >= len_max {
                return Err(StoreError::Full);
            }
        }
        let counter = match self.counters.entry(take.counter) {
            Entry::Occupied(occupied) => occupied.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Counter::new(take)),
        };
        if take.generation >= counter.generation {
            counter.generation = take.generation;
            counter.limit = take.limit;
            counter.state.fit(&take.limit);
        }
        Ok(counter)
    }
}

impl Counter {
    fn new(take: &Charge) -> Self {
        let (state, requests) = (CounterState::new(&take.limit), HashMap::default());
        let (generation, limit) = (take.generation, take.limit);
        Self { is_untouched: true, state, generation, limit, requests, sweep_requests_at_len: SWEEP_LEN_MIN }
    }

    /// What it says to a take, before anything is charged.
    fn look(&mut self, take: &Charge, now: Timestamp) -> ChargeResult {
        let advanced = self.state.advance(now);
        self.is_untouched &= matches!(take.mode, ChargeMode::Refund { .. });
        let repeated = take.request.is_some_and(|id| self.has_charged(id, advanced.now));
        let free = repeated || matches!(take.mode, ChargeMode::Refund { .. });
        let cost = if free { 0 } else { take.cost };
        let mut verdict = self.state.evaluate(&self.limit, advanced.now, cost);
        verdict.admitted |= repeated;
        let (at, rebased) = (advanced.now, advanced.rebased);
        ChargeResult { verdict, charged: false, repeated, firm: true, at, limit: self.limit.units, rebased }
    }

    /// Charges, or gives back.
    fn settle(&mut self, take: &Charge, taken: &mut ChargeResult) {
        taken.charged = true;
        match take.mode {
            _ if taken.repeated => return,
            ChargeMode::Enforce { .. } | ChargeMode::CountOnly { .. } => self.state.charge(taken.at, take.cost),
            ChargeMode::Backfill { at } => self.state.charge(at.min(taken.at), take.cost),
            ChargeMode::Refund { at } => return self.state.refund(at, take.cost),
        }
        if let Some(id) = take.request {
            self.remember(id, taken.at);
        }
    }

    fn has_charged(&self, id: RequestId, now: Timestamp) -> bool {
        self.requests.get(&id).is_some_and(|at| at.plus_ms(self.limit.window.width_ms()) > now)
    }

    fn remember(&mut self, id: RequestId, now: Timestamp) {
        if self.requests.len() >= self.sweep_requests_at_len {
            let width_ms = self.limit.window.width_ms();
            let full = self.requests.len() >= REQUESTS_MAX;
            self.requests.retain(|_, at| at.plus_ms(width_ms) > now);
            if full {
                self.forget_oldest(REQUESTS_MAX / 4 * 3);
            }
            self.sweep_requests_at_len = (2 * self.requests.len()).clamp(SWEEP_LEN_MIN, REQUESTS_MAX);
        }
        self.requests.insert(id, now);
    }

    /// Forgets the oldest requests, so that at most so many are left: many at a time, for it looks at all of them.
    fn forget_oldest(&mut self, kept: usize) {
        let Some(forgotten @ 1..) = self.requests.len().checked_sub(kept) else { return };
        let mut all: Vec<(Timestamp, RequestId)> = self.requests.iter().map(|(id, at)| (*at, *id)).collect();
        all.select_nth_unstable_by_key(forgotten - 1, |(at, _)| *at);
        for (_, id) in &all[..forgotten] {
            self.requests.remove(id);
        }
    }

    fn is_idle_at(&self, now: Timestamp) -> bool {
        let width_ms = self.limit.window.width_ms();
        self.state.is_idle_at(now) && self.requests.values().all(|at| at.plus_ms(width_ms) <= now)
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
        let ask = |number: u128| store.step(&[conformance::ask(number, 10)]);
        let full = (0..20_000).filter(|number| ask(*number) == Err(StoreError::Full)).count();
        assert!(full > 0 && store.len() <= 6_400, "{full} refused, {} held", store.len());
        clock.set(1_000_000 + 200_000);
        assert!((20_000..22_000).all(|number| ask(number).is_ok()));
    }

    /// The names of a counter's requests were kept without a status: a busy counter of a day's window held all of them.
    #[test]
    fn a_counter_remembers_so_many_requests_and_forgets_the_oldest() {
        let clock = Arc::new(conformance::HandClock::at(1_000_000));
        let store = MemoryStore::new(clock.clone());
        let ask = |id: u128| {
            let take = Charge { request: Some(RequestId::from_u128(id)), ..conformance::ask(1, 1_000_000) };
            store.step(&[take]).expect("there is room")[0].repeated
        };
        let held = || store.shards[1].lock().counters[&CounterId::from_u128(1)].requests.len();
        for id in 0..30_000_u32 {
            clock.set(1_000_000 + u64::from(id) / 1_000);
            assert!(!ask(id.into()), "{id} is new");
            assert!(held() <= REQUESTS_MAX);
        }
        assert!((22_500..30_000).all(ask), "the newest are known");
        assert!(!ask(0), "the oldest is forgotten, and charged again");
        clock.set(1_000_000 + 100_000);
        assert!(!ask(29_999), "after a window it is as good as new");
    }
}
