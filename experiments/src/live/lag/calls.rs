//! Instants of every call of a run: due, decided, and known to the other agents.
//!
//! Call number i belongs to key i mod K and is that key's call number i / K; key k belongs to agent k mod N, so neither is
//! stored. Instants are microseconds since the start of the run; 0 means "not yet".

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tollgate_core::clock::{Stopwatch, Timestamp};
use tollgate_sim::figures::{as_us, histogram};

use super::plan::{DESCRIPTOR, LagPlan};

/// Approximate number of keys. At 5,000 calls a second each key has one call in 200 ms, so its calls rarely wait for each
/// other.
const KEYS: u32 = 1_000;
/// Parts of the path from a call to its signal, in order.
pub(super) const LEGS: [&str; 4] = [
    "call to decision",
    "decision to the log of calls",
    "log of calls to that of signals",
    "log of signals to the other agent",
];

pub(super) struct Calls {
    since: Stopwatch,
    /// Instant of `since` on this machine's clock.
    since_at: Timestamp,
    /// Instant at which the first call is due.
    first: OnceLock<Duration>,
    agents: u32,
    pub(super) keys: u32,
    rate: u64,
    warm_up: u64,
    made: AtomicU64,
    known: AtomicU64,
    instants: Box<[CallInstants]>,
    /// Durations of the [`LEGS`], in microseconds.
    legs: Mutex<[Histogram<u64>; LEGS.len()]>,
}

/// Instants behind one batch of signals at one agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalInstants {
    /// Receipt at the agent.
    pub(super) received: u64,
    /// Append time of the newest batch of calls that is counted, by Kafka's clock.
    pub(super) counted: u64,
    /// Append time of the signal, by Kafka's clock.
    pub(super) signalled: u64,
}

#[derive(Default)]
struct CallInstants {
    decided_us: AtomicU64,
    /// Receipt at the next agent.
    next_us: AtomicU64,
    /// Latest receipt at any agent, and the number of agents that have received it.
    latest_us: AtomicU64,
    known_by: AtomicU32,
}

impl Calls {
    pub(super) fn new(plan: &LagPlan, now: Timestamp) -> Self {
        let agents = plan.agents.get();
        let instants = (0..plan.calls()).map(|_| CallInstants::default()).collect();
        Self {
            since: Stopwatch::start(),
            since_at: now,
            first: OnceLock::new(),
            agents,
            keys: KEYS.div_ceil(agents) * agents,
            rate: plan.rate.get().into(),
            warm_up: plan.warm_up_calls(),
            made: AtomicU64::new(0),
            known: AtomicU64::new(0),
            instants,
            legs: Mutex::new(std::array::from_fn(|_| histogram())),
        }
    }

    /// Starts the schedule of calls.
    pub(super) fn begin(&self) {
        self.first.get_or_init(|| self.since.elapsed());
    }

    pub(super) fn len(&self) -> u64 {
        self.instants.len() as u64
    }

    /// Returns the largest number of calls of a key.
    pub(super) fn per_key(&self) -> u64 {
        self.len().div_ceil(self.keys.into())
    }

    pub(super) fn agent_of(&self, key: u32) -> u32 {
        key % self.agents
    }

    pub(super) fn is_measured(&self, call: u64) -> bool {
        call >= self.warm_up
    }

    pub(super) fn now(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) fn due(&self, call: u64) -> Duration {
        let after_us = u128::from(call) * 1_000_000 / u128::from(self.rate);
        let first = self.first.get().copied().unwrap_or_default();
        first + Duration::from_micros(u64::try_from(after_us).unwrap_or(u64::MAX))
    }

    /// Converts a time of another clock, which is assumed to equal this machine's, to microseconds of the run.
    pub(super) fn us_at(&self, at: Timestamp) -> u64 {
        at.ms_since(self.since_at) * 1_000
    }

    pub(super) fn decided(&self, call: u64, at_us: u64) {
        self.instants_of(call).decided_us.store(at_us, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Records that an agent has received a signal of `total` calls of a key after one of `known` calls.
    pub(super) fn received(&self, agent: u32, key: u32, (known, total): (u64, u64), at: SignalInstants) {
        let owner = self.agent_of(key);
        if agent == owner {
            return;
        }
        let is_next = agent == (owner + 1) % self.agents;
        for nth in known..total {
            let number = nth * u64::from(self.keys) + u64::from(key);
            if number >= self.len() {
                return;
            }
            let instants_of = self.instants_of(number);
            instants_of.latest_us.fetch_max(at.received, Ordering::Relaxed);
            if instants_of.known_by.fetch_add(1, Ordering::AcqRel) + 2 == self.agents {
                self.known.fetch_add(1, Ordering::Relaxed);
            }
            if is_next {
                instants_of.next_us.store(at.received, Ordering::Relaxed);
                if self.is_measured(number) {
                    self.record_legs(number, at);
                }
            }
        }
    }

    pub(super) fn are_all_known(&self) -> bool {
        self.known.load(Ordering::Relaxed) >= self.len()
    }

    /// Returns the time from the due instant of a call to its receipt at the next agent, in microseconds.
    pub(super) fn lag_us(&self, call: u64) -> Option<u64> {
        let received_us = self.instants_of(call).next_us.load(Ordering::Relaxed);
        (received_us > 0).then(|| received_us.saturating_sub(as_us(self.due(call))))
    }

    /// Returns the same time for the last of all agents.
    pub(super) fn slowest_lag_us(&self, number: u64) -> Option<u64> {
        let instants_of = self.instants_of(number);
        let all_know = instants_of.known_by.load(Ordering::Acquire) + 1 >= self.agents;
        all_know.then(|| instants_of.latest_us.load(Ordering::Relaxed).saturating_sub(as_us(self.due(number))))
    }

    pub(super) fn legs(&self) -> [Histogram<u64>; LEGS.len()] {
        self.legs.lock().clone()
    }

    /// Returns the descriptor value of a key.
    pub(super) fn name(key: u32) -> String {
        format!("{DESCRIPTOR}-{key}")
    }

    fn record_legs(&self, number: u64, at: SignalInstants) {
        let decided_us = match self.instants_of(number).decided_us.load(Ordering::Relaxed) {
            // The signal arrived before the answer.
            0 => at.counted,
            decided_us => decided_us,
        };
        let stops = [as_us(self.due(number)), decided_us, at.counted, at.signalled, at.received];
        let mut legs = self.legs.lock();
        for (leg, stops) in legs.iter_mut().zip(stops.windows(2)) {
            leg.saturating_record(stops[1].saturating_sub(stops[0]));
        }
    }

    fn instants_of(&self, number: u64) -> &CallInstants {
        &self.instants[usize::try_from(number).unwrap_or(usize::MAX)]
    }
}
