//! Store in the memory of this process, shared by several agents: the demo, tests and the simulation.
//!
//! A single agent without Redis needs no store: its counts live in the engine's own table, which is made for speed.
//! Here one lock is enough. Both containers leave the semantics to [`step_at_once`]; here are only the lock and the
//! cap. A request never expires: its caller is a thread of this process, and waits until it runs again.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{Charge, ChargeResults, CounterId, Counters, StoredCounter, step_at_once};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitView, LimitWrite, StoredLimit};

use super::limit_records::LimitRecords;
use super::{ChargeStore, StoreError};

const COUNTERS_MAX_DEFAULT: usize = 1_000_000;
/// Number of counters below which idle ones are not searched for.
const SWEEP_LEN_MIN: usize = 256;
/// Minimum time between two searches for idle counters in a full store, in ms.
const SWEEP_INTERVAL_MS: u64 = 500;

/// Store in the memory of this process.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    counters: Mutex<CappedCounters>,
    /// Limits of the region; locked after the counters.
    limits: Mutex<LimitRecords>,
}

/// Counters and limits of a memory store at an instant, for tests in which it loses some.
#[derive(Clone, Default)]
pub struct CounterCopies {
    counters: HashMap<CounterId, StoredCounter, RandomState>,
    limits: LimitRecords,
}

struct CappedCounters {
    counters: HashMap<CounterId, StoredCounter, RandomState>,
    counters_max: usize,
    /// Number of counters at which idle ones are dropped.
    sweep_at_len: usize,
    swept_at: Timestamp,
}

impl MemoryStore {
    /// Creates an empty store that goes by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_counters_max(clock, COUNTERS_MAX_DEFAULT)
    }

    /// Creates an empty store with a cap on counters.
    #[must_use]
    pub fn with_counters_max(clock: Arc<dyn Clock>, counters_max: usize) -> Self {
        let (counters, swept_at) = (HashMap::default(), Timestamp::default());
        let sweep_at_len = SWEEP_LEN_MIN.min(counters_max);
        let counters = Mutex::new(CappedCounters { counters, counters_max, sweep_at_len, swept_at });
        Self { clock, counters, limits: Mutex::default() }
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.counters.lock().counters.len()
    }

    /// Returns the state of a counter, for tests that compare it.
    #[must_use]
    pub fn peek(&self, counter: CounterId) -> Option<CounterState> {
        self.counters.lock().get(counter).map(|counter| counter.state().clone())
    }

    /// Returns the limit that a counter follows, for tests that compare it.
    #[doc(hidden)]
    #[must_use]
    pub fn limit(&self, counter: CounterId) -> Option<Limit> {
        self.counters.lock().get(counter).map(|counter| counter.limit())
    }

    /// Returns a copy of all counters and limits.
    #[doc(hidden)]
    #[must_use]
    pub fn copies(&self) -> CounterCopies {
        let counters = self.counters.lock();
        CounterCopies { counters: counters.counters.clone(), limits: self.limits.lock().clone() }
    }

    /// Replaces all counters and limits, as a flush or a failover does.
    #[doc(hidden)]
    pub fn replace_counters(&self, copies: CounterCopies) {
        let mut counters = self.counters.lock();
        counters.counters = copies.counters;
        *self.limits.lock() = copies.limits;
    }

    fn charge_now(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        let now = self.clock.now();
        let mut counters = self.counters.lock();
        counters.make_room(charges, now);
        if charges.iter().all(|charge| charge.budget.is_none()) {
            return step_at_once(&mut *counters, charges, now);
        }
        let known = |counter| counters.counters.get(&counter).map(|known| (known.limit(), known.generation()));
        let budgeted = self.limits.lock().budgeted(charges, now, known);
        let (charges, ends): (Vec<Charge>, Vec<Option<Timestamp>>) = budgeted.into_iter().unzip();
        let mut results = step_at_once(&mut *counters, &charges, now)?;
        for (result, end) in results.iter_mut().zip(ends) {
            result.limit_until = result.limit_until.into_iter().chain(end).min();
        }
        Ok(results)
    }
}

impl CounterCopies {
    /// Removes a counter.
    #[doc(hidden)]
    pub fn lose(&mut self, counter: CounterId) {
        self.counters.remove(&counter);
    }

    /// Moves the counters that are chosen to other copies.
    #[doc(hidden)]
    pub fn hand_over(&mut self, other: &mut Self, is_chosen: impl Fn(CounterId) -> bool) {
        other.counters.extend(self.counters.extract_if(|counter, _| is_chosen(*counter)));
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

    async fn limit_view(&self, counter: CounterId) -> Option<LimitView> {
        self.limits.lock().view(counter, self.clock.now())
    }
}

impl LimitStore for MemoryStore {
    async fn write_limit(
        &self,
        rule: &str,
        counter: CounterId,
        write: &LimitWrite,
    ) -> Result<(Timestamp, LimitAnswer), StoreError> {
        let now = self.clock.now();
        let mut counters = self.counters.lock();
        let (limit, floor) = self.limits.lock().write_limit(rule, counter, write, now)?;
        let used = counters.get(counter).map_or(0, |counter| counter.used_at(now));
        Ok((now, LimitAnswer { limit, floor, used }))
    }

    async fn write_floor(&self, rule: &str, write: &LimitWrite) -> Result<(Timestamp, StoredLimit), StoreError> {
        let floor = self.limits.lock().write_floor(rule, write)?;
        Ok((self.clock.now(), floor))
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}

impl Counters for CappedCounters {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.counters.get_mut(&counter)
    }

    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        if self.counters.len() >= self.counters_max && !self.counters.contains_key(&charge.counter) {
            return None;
        }
        Some(self.counters.entry(charge.counter).or_insert_with(|| StoredCounter::new(charge)))
    }

    fn remove(&mut self, counter: CounterId) {
        self.counters.remove(&counter);
    }
}

impl CappedCounters {
    /// Drops idle counters if these charges need more room. A full store is not searched again at once.
    fn make_room(&mut self, charges: &[Charge], now: Timestamp) {
        if self.counters.len() + charges.len() <= self.sweep_at_len {
            return;
        }
        let absent = charges.iter().filter(|charge| !self.counters.contains_key(&charge.counter)).count();
        let has_room = self.counters.len() + absent <= self.counters_max;
        if absent > 0 && (has_room || now.ms_since(self.swept_at) >= SWEEP_INTERVAL_MS) {
            self.swept_at = now;
            self.counters.retain(|_, counter| !counter.may_be_dropped_at(now));
            self.sweep_at_len = (2 * self.counters.len()).max(SWEEP_LEN_MIN).min(self.counters_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance;

    impl conformance::Loses for MemoryStore {
        fn lose(&self, counter: CounterId) {
            let mut copies = self.copies();
            copies.lose(counter);
            self.replace_counters(copies);
        }
    }

    #[test]
    fn it_is_a_store() {
        conformance::run(conformance::Container::InProcess, |clock| MemoryStore::new(clock));
    }

    /// J2: the limits of a region decide charges with a budget.
    #[test]
    fn it_is_a_store_of_a_region() {
        let region = |clock: Arc<conformance::HandClock>| {
            let store = Arc::new(MemoryStore::new(clock));
            conformance::RegionUnderTest { limits: store.clone(), store }
        };
        conformance::run_budgets(region);
        conformance::run_budget_histories(region);
    }

    /// capped: past the cap idle counters make room; when none is idle, the store says so and charges nothing.
    #[test]
    fn it_never_holds_more_than_its_cap() {
        let clock = Arc::new(conformance::HandClock::at(1_000_000));
        let store = MemoryStore::with_counters_max(clock.clone(), 6_400);
        let ask = |number: u128| store.charge_now(&[conformance::ask(number, 10)]);
        let full = (0..20_000).filter(|number| ask(*number) == Err(StoreError::Full)).count();
        assert!(full > 0 && store.counters() <= 6_400, "{full} refused, {} held", store.counters());
        clock.set(1_000_000 + 200_000);
        assert!((20_000..22_000).all(|number| ask(number).is_ok()));
    }
    /// capped: a call on two new counters of which only one has a place is not admitted, and so is never free.
    #[test]
    fn a_call_whose_counters_have_no_place_is_not_admitted() {
        let clock = Arc::new(conformance::HandClock::at(1_000_000));
        conformance::no_call_is_free_at_the_cap(&MemoryStore::with_counters_max(clock, 3));
    }
}
