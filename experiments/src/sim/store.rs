//! The store of a simulation: a [`MemoryStore`] with a clock of its own, which may step, and a state.

use std::sync::Arc;

use tollgate::store::{ChargeStore, MemoryStore, StoreError};
use tollgate_core::algorithm::CounterState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId};

use super::event::StoreMessage;
use super::faults::StoreState;
use super::scheduler::VirtualClock;

/// The store that several agents share.
pub struct SimStore {
    pub(super) state: StoreState,
    /// Requests that wait for a silent store.
    pub(super) waiting: Vec<StoreMessage>,
    clock: Arc<VirtualClock>,
    memory: MemoryStore,
    offset_ms: i64,
}

impl SimStore {
    pub(super) fn new(counters_max: usize) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let memory = MemoryStore::with_counters_max(clock.clone(), counters_max);
        Self { state: StoreState::Up, waiting: Vec::new(), clock, memory, offset_ms: 0 }
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.state
    }

    /// Returns the store's time at an instant of true time.
    #[must_use]
    pub fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_ms(now.as_ms().saturating_add_signed(self.offset_ms))
    }

    /// Returns the state of a counter.
    #[must_use]
    pub fn peek(&self, counter: CounterId) -> Option<CounterState> {
        self.memory.peek(counter)
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.memory.len()
    }

    pub(super) fn step_clock(&mut self, by_ms: i64) {
        self.offset_ms += by_ms;
    }

    pub(super) fn charge(&self, now: Timestamp, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.clock.set(self.time(now));
        self.memory.try_charge(charges).unwrap_or(Err(StoreError::Unreachable))
    }
}
