//! The store of a simulation: a [`MemoryStore`] with a clock of its own, which may drift and step, a registry of
//! live agents, their witnesses, a replica, and a state.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate::store::{ChargeStore, CounterCopies, MemoryStore, StoreError};
use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId};
use tollgate_core::messages::presence::PresenceSet;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

use super::event::{Life, LimitMessage, StoreMessage};
use super::faults::{StoreLoss, StoreState};
use super::presence_set::SimPresenceSet;
use super::region_mistake::RegionMistake;
use super::scheduler::{DriftingClock, VirtualClock};
use super::settings::SimSettings;
use super::store_limits::AcknowledgedLimits;

/// The store that several agents share.
pub struct SimStore {
    /// The state.
    pub state: StoreState,
    /// Requests that wait for a silent store.
    pub(super) waiting: Vec<StoreMessage>,
    pub(super) waiting_limits: Vec<LimitMessage>,
    clock: DriftingClock,
    /// The clock as the memory reads it.
    shown: Arc<VirtualClock>,
    memory: MemoryStore,
    /// The set of live agents.
    presence: SimPresenceSet,
    /// The number of each life of an agent.
    witnesses: WitnessNumbers,
    /// The limits of the region that it has acknowledged.
    limits: AcknowledgedLimits,
    /// The data that a failover brings back.
    replica: (CounterCopies, WitnessNumbers, AcknowledgedLimits),
    /// The run id, which a failover changes.
    run: u64,
}

type WitnessNumbers = BTreeMap<(usize, Life), u64>;

impl SimStore {
    pub(super) fn new(settings: &SimSettings) -> Self {
        let shown = Arc::new(VirtualClock::default());
        let memory = MemoryStore::with_counters_max(shown.clone(), settings.counters_max);
        let clock = DriftingClock {
            offset_ms: settings.store_offset_ms,
            drift_ppm: settings.store_drift_ppm,
            since: settings.start,
        };
        Self {
            state: StoreState::Up,
            waiting: Vec::new(),
            waiting_limits: Vec::new(),
            clock,
            shown,
            memory,
            presence: SimPresenceSet::default(),
            witnesses: WitnessNumbers::new(),
            limits: AcknowledgedLimits::default(),
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

    /// Returns the units that a counter of a rule with a global scope may have now: the floor and the granted units. None is known
    /// before a floor was written.
    #[must_use]
    pub fn budget(&self, rule: &str, counter: CounterId, now: Timestamp) -> Option<u64> {
        self.limits.units_at(rule, counter, self.time(now))
    }

    /// Returns the units of a counter as [`SimStore::budget`] does, for charges by a window of this width.
    #[must_use]
    pub fn budget_of_window(&self, rule: &str, counter: CounterId, width_ms: u64, now: Timestamp) -> Option<u64> {
        self.limits.units_of_window(rule, (counter, width_ms), self.time(now))
    }

    pub(super) fn copies(&self) -> CounterCopies {
        self.memory.copies()
    }

    /// Replaces all counters, which have moved. The replica follows.
    pub(super) fn replace(&mut self, copies: CounterCopies) {
        self.memory.replace_counters(copies);
        self.replica.0 = self.memory.copies();
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
        self.replica = (self.memory.copies(), self.witnesses.clone(), self.limits.clone());
    }

    pub(super) fn lose(&mut self, loss: StoreLoss) {
        match loss {
            StoreLoss::All => {
                self.memory.replace_counters(CounterCopies::default());
                self.witnesses.clear();
                self.limits = AcknowledgedLimits::default();
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
                let (copies, witnesses, limits) = self.replica.clone();
                self.memory.replace_counters(copies);
                (self.witnesses, self.limits) = (witnesses, limits);
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

    /// Writes the limit of a counter of the region. Returns the store's answer.
    pub(super) fn write_limit(
        &mut self,
        now: Timestamp,
        (rule, counter): (&str, CounterId),
        write: &LimitWrite,
        mistake: Option<RegionMistake>,
    ) -> Option<LimitAnswer> {
        let store_now = self.time(now);
        self.shown.set(store_now);
        let altered = self.limits.altered(mistake, counter, store_now, write);
        let (_, mut answer) = at_once(self.memory.write_limit(rule, counter, &altered)).ok()?;
        self.limits.limits.insert(counter, answer.limit);
        if altered != *write {
            answer.limit.ledger = write.limit.ledger;
        }
        Some(answer)
    }

    /// Writes the floor of a rule. Returns the floor in force.
    pub(super) fn write_floor(&mut self, now: Timestamp, rule: &Arc<str>, write: &LimitWrite) -> Option<StoredLimit> {
        self.shown.set(self.time(now));
        let (_, floor) = at_once(self.memory.write_floor(rule, write)).ok()?;
        self.limits.floors.insert(rule.clone(), floor);
        Some(floor)
    }
}

/// Returns the output of a future that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the memory store waits for nothing"),
    }
}
