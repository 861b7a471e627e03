//! The store of a simulation: a [`MemoryStore`] with a clock of its own, which may drift and step, a registry of
//! live agents, their witnesses, a replica, and a state.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate::store::{ChargeStore, CounterCopies, MemoryStore, StoreError};
use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId};
use tollgate_core::messages::presence::PresenceSet;

use super::event::{Life, StoreMessage};
use super::faults::{StoreLoss, StoreState};
use super::presence_set::SimPresenceSet;
use super::scheduler::{DriftingClock, VirtualClock};
use super::settings::SimSettings;

/// The store that several agents share.
pub struct SimStore {
    /// The state.
    pub state: StoreState,
    /// Requests that wait for a silent store.
    pub(super) waiting: Vec<StoreMessage>,
    clock: DriftingClock,
    /// The clock as the memory reads it.
    shown: Arc<VirtualClock>,
    memory: MemoryStore,
    /// The set of live agents.
    presence: SimPresenceSet,
    /// The number of each life of an agent.
    witnesses: WitnessNumbers,
    /// The data that a failover brings back.
    replica: (CounterCopies, WitnessNumbers),
    /// The run id, which a failover changes.
    run: u64,
}

type WitnessNumbers = BTreeMap<(usize, Life), u64>;

impl SimStore {
    pub(super) fn new(settings: &SimSettings) -> Self {
        let shown = Arc::new(VirtualClock::default());
        let memory = MemoryStore::with_counters_max(shown.clone(), settings.counters_max);
        let clock = DriftingClock { offset_ms: 0, drift_ppm: settings.store_drift_ppm, since: settings.start };
        Self {
            state: StoreState::Up,
            waiting: Vec::new(),
            clock,
            shown,
            memory,
            presence: SimPresenceSet::default(),
            witnesses: WitnessNumbers::new(),
            replica: Default::default(),
            run: 0,
        }
    }

    /// Returns the store's time at an instant of true time.
    #[must_use]
    pub fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.at(now)
    }

    /// Returns the state of a counter.
    #[must_use]
    pub fn peek(&self, counter: CounterId) -> Option<CounterState> {
        self.memory.peek(counter)
    }

    /// Returns the limit that a counter follows.
    #[must_use]
    pub fn limit(&self, counter: CounterId) -> Option<Limit> {
        self.memory.limit(counter)
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn counters(&self) -> usize {
        self.memory.counters()
    }

    pub(super) fn step_clock(&mut self, by_ms: i64) {
        self.clock.offset_ms += by_ms;
    }

    /// Returns the live agents.
    pub(super) fn announce(&mut self, now: Timestamp, agent: usize) -> PresenceSet {
        self.presence.update(self.time(now), agent, false)
    }

    /// Drops the set of live agents. The next announcement creates another one.
    pub(super) fn empty_presence_set(&mut self) {
        self.presence = SimPresenceSet::default();
    }

    /// Raises the number of a life of an agent. Returns the number before.
    pub(super) fn witness(&mut self, agent: usize, life: Life, number: u64) -> Option<u64> {
        let before = self.witnesses.get(&(agent, life)).copied();
        self.witnesses.insert((agent, life), number.max(before.unwrap_or_default()));
        before
    }

    /// Returns the run id.
    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// Brings the replica up to date.
    pub(super) fn replicate(&mut self) {
        self.replica = (self.memory.copies(), self.witnesses.clone());
    }

    pub(super) fn lose(&mut self, loss: StoreLoss) {
        match loss {
            StoreLoss::All => {
                self.memory.replace_counters(CounterCopies::default());
                self.witnesses.clear();
                self.empty_presence_set();
                // A replica follows.
                self.replicate();
            }
            StoreLoss::Counter(counter) => {
                let mut copies = self.memory.copies();
                copies.lose(counter);
                self.memory.replace_counters(copies);
            }
            StoreLoss::SinceReplicated => {
                let (copies, witnesses) = self.replica.clone();
                self.memory.replace_counters(copies);
                self.witnesses = witnesses;
                self.run += 1;
            }
        }
    }

    /// Removes an agent that stops.
    pub(super) fn forget(&mut self, now: Timestamp, agent: usize) {
        self.presence.update(self.time(now), agent, true);
    }

    /// The charges of a request that comes too late have expired, as in a server.
    pub(super) fn charge(&self, now: Timestamp, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        let store_now = self.time(now);
        if charges.iter().any(|charge| charge.mode.has_expired(store_now)) {
            return Err(StoreError::Expired(store_now));
        }
        self.shown.set(store_now);
        self.memory.try_charge(charges).unwrap_or(Err(StoreError::Unreachable))
    }
}
