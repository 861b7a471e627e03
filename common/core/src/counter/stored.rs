//! One stored counter: its state, the limit that it is evaluated against, and the requests that were charged on it.
//!
//! Every container of counters holds these records, and [`step`](super::step) is the only code that changes one; the Redis
//! store evaluates copies for its results. The arithmetic of the state is in [`algorithm`](crate::algorithm).

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::{Charge, ChargeMode, ChargeResult, RequestId};
use crate::algorithm::{Algorithm, CounterState, Limit, Verdict};
use crate::clock::Timestamp;
use crate::window::Estimate;

/// Maximum number of request ids of one counter. Past the cap the oldest quarter is dropped; a retry of one of those is
/// charged again.
const COUNTER_REQUESTS_MAX: usize = 10_000;
/// Number of request ids below which expired ones are not searched for.
const REQUESTS_SWEEP_LEN_MIN: usize = 256;

/// A counter as a container holds it.
#[derive(Clone, Debug)]
pub struct StoredCounter {
    state: CounterState,
    generation: u64,
    limit: Limit,
    /// Instant of the first step; time 0 until then, and once the state was re-based.
    born: Timestamp,
    requests: Option<Box<ChargedRequests>>,
}

/// Ids of the requests whose charges may still count, and the instants of their charges.
#[derive(Clone, Debug)]
struct ChargedRequests {
    charged_at: HashMap<RequestId, Timestamp, RandomState>,
    /// Number of ids at which expired ones are dropped.
    sweep_at_len: usize,
}

impl StoredCounter {
    /// Creates the unused counter that a charge refers to.
    #[must_use]
    pub fn new(charge: &Charge) -> Self {
        Self::of(CounterState::new(&charge.limit), charge.limit, charge.generation, Timestamp::default())
    }

    /// Returns the counter with this state, as a store holds it; the requests are in that store.
    #[must_use]
    pub fn of(state: CounterState, limit: Limit, generation: u64, born: Timestamp) -> Self {
        Self { state, generation, limit, born, requests: None }
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &CounterState {
        &self.state
    }

    /// Returns the limit of the newest generation.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns the instant of the first step; time 0 if the state was re-based.
    #[must_use]
    pub fn born(&self) -> Timestamp {
        self.born
    }

    /// Returns the newest generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns true if the counter holds nothing that a later step could see.
    #[must_use]
    pub fn is_idle_at(&self, now: Timestamp) -> bool {
        let expired = |requests: &ChargedRequests| {
            let lasts_ms = self.limit.lasts_ms();
            requests.charged_at.values().all(|at| has_expired(*at, lasts_ms, now))
        };
        self.state.is_idle_at(now) && self.requests.as_deref().is_none_or(expired)
    }

    /// Returns true if a store may drop the counter. One whose units were all refunded is kept for a window after its
    /// last step: agents take it for lost if it is gone while a charge that was acknowledged would still be in the
    /// window.
    #[must_use]
    pub fn may_be_dropped_at(&self, now: Timestamp) -> bool {
        has_expired(self.state.last(), self.limit.window.width_ms(), now) && self.is_idle_at(now)
    }

    /// Returns the units of the window that ends at `now`, at least: the largest number that the state allows for.
    #[doc(hidden)]
    #[must_use]
    pub fn used_at(&self, now: Timestamp) -> u64 {
        let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
        let limit = Limit { algorithm, units: u64::MAX, burst: 0, ..self.limit };
        let mut state = self.state.clone();
        state.fit(&limit);
        let now = state.advance(&limit, now);
        u64::MAX - state.evaluate(&limit, now, 0).remaining
    }

    /// Evaluates a charge before anything of its request is charged. A refund or a reset is applied at once, so its result and
    /// those of later charges show the counter after it.
    #[inline]
    pub fn evaluate(&mut self, charge: &Charge, now: Timestamp) -> ChargeResult {
        if charge.generation >= self.generation {
            if charge.limit != self.limit {
                self.state.fit(&charge.limit);
                self.limit = charge.limit;
            }
            self.generation = charge.generation;
        } else if charge.budget.is_some() && charge.limit.units != self.limit.units {
            // The store has put the quota in force into the charge, whatever the generation of its rules.
            self.limit.units = charge.limit.units;
            self.state.fit(&self.limit);
        }
        let last = self.state.last();
        let is_new = last == Timestamp::default();
        let now = self.state.advance(&self.limit, now);
        if is_new {
            self.born = now;
        } else if now < last {
            self.born = Timestamp::default();
        }
        let known_at = charge.request.and_then(|id| self.charged_at(id, now));
        let mut repeated = known_at.is_some();
        if let ChargeMode::Refund { at, .. } = charge.mode {
            // A request that was released may hold a slot again. The decision on it is later than the earlier release then.
            let held_at = self.slot_of(charge, now);
            repeated = known_at.is_some_and(|released_at| held_at.is_none() || at < released_at);
            if !repeated {
                self.state.refund(held_at.unwrap_or(at), charge.cost);
            }
        }
        if charge.mode == ChargeMode::Reset && self.limit.algorithm != Algorithm::Concurrency {
            self.state.empty(&self.limit);
        }
        let is_free = repeated || charge.mode.removes_units() || matches!(charge.mode, ChargeMode::Reopen { .. });
        let verdict = self.state.evaluate(&self.limit, now, if is_free { 0 } else { charge.cost });
        let mut verdict = Verdict { admitted: verdict.admitted || repeated, ..verdict };
        let leased = match charge.mode {
            ChargeMode::Lease { units_max, agents, .. } if verdict.admitted && !repeated && self.limit.leases() => {
                let units = (verdict.remaining / u64::from(agents.max(1))).min(units_max.into());
                // The remainder after the last call of this cost would never be spent.
                units - units.checked_rem(charge.cost).unwrap_or(0)
            }
            _ => 0,
        };
        let is_last = verdict.remaining - leased < charge.cost;
        if is_last && verdict.admitted && !repeated && self.limit.leases() && charge.mode.is_enforced() {
            verdict.retry_at = self.has_room_at(charge, leased, now);
        }
        let (limit, previous) = (self.limit.units, if is_new { now } else { last });
        let is_of_window = charge.limit.window == self.limit.window;
        let (born, limit_until) =
            if is_of_window { (self.born, None) } else { (Timestamp::default(), Some(self.leases_until(now))) };
        ChargeResult { verdict, charged: false, repeated, leased, at: now, limit, limit_until, born, previous }
    }

    /// Returns the instant from which another charge of the same cost has room, after this one and its lease at `now`.
    #[cold]
    fn has_room_at(&self, charge: &Charge, leased: u64, now: Timestamp) -> Timestamp {
        let mut after = self.state.clone();
        after.charge(now, charge.cost.saturating_add(leased));
        after.evaluate(&self.limit, now, charge.cost).retry_at
    }

    /// Returns the instant from which units that are charged at `now` may not be spent any more, for an agent that does not know
    /// the window of the counter.
    #[cold]
    fn leases_until(&self, now: Timestamp) -> Timestamp {
        let window = self.limit.window;
        if self.limit.leases() { window.start_of(window.sub_window(now) + 1) } else { now }
    }

    /// Charges what was evaluated at `now`.
    #[inline]
    pub(super) fn commit(&mut self, charge: &Charge, result: &mut ChargeResult, now: Timestamp) {
        result.charged = true;
        if result.repeated {
            return;
        }
        match charge.mode {
            ChargeMode::Enforce { .. } | ChargeMode::CountOnly { .. } => self.state.charge(result.at, charge.cost),
            ChargeMode::Lease { .. } => self.state.charge(result.at, charge.cost.saturating_add(result.leased)),
            ChargeMode::Backfill { at } => self.state.charge(backfilled_at(at, now, result.at), charge.cost),
            ChargeMode::Reopen { at } => {
                let at = at.min(result.at);
                self.state.charge(at, charge.cost.saturating_sub(self.state.held_around(at)));
            }
            ChargeMode::Refund { .. } => {}
            ChargeMode::Reset | ChargeMode::Evaluate { .. } => return,
        }
        if let Some(id) = charge.request {
            // A release returns the slot of this instant.
            let charged_at = match charge.mode {
                ChargeMode::Backfill { at } if self.limit.algorithm == Algorithm::Concurrency => {
                    backfilled_at(at, now, result.at)
                }
                _ => result.at,
            };
            let requests = self.requests.get_or_insert_with(Box::default);
            requests.insert(id, charged_at, self.limit.lasts_ms(), result.at);
            if let Some(refunded) = charge.refunds_whole() {
                requests.charged_at.remove(&refunded);
            }
        }
    }

    /// Returns the instant of the slot that the request of a release holds, if it is known.
    fn slot_of(&self, charge: &Charge, now: Timestamp) -> Option<Timestamp> {
        let is_of_slots = self.limit.algorithm == Algorithm::Concurrency;
        charge.refunds_whole().filter(|_| is_of_slots).and_then(|id| self.charged_at(id, now))
    }

    fn charged_at(&self, id: RequestId, now: Timestamp) -> Option<Timestamp> {
        let charged_at = *self.requests.as_ref()?.charged_at.get(&id)?;
        (!has_expired(charged_at, self.limit.lasts_ms(), now)).then_some(charged_at)
    }
}

impl Default for ChargedRequests {
    fn default() -> Self {
        Self { charged_at: HashMap::default(), sweep_at_len: REQUESTS_SWEEP_LEN_MIN }
    }
}

impl ChargedRequests {
    fn insert(&mut self, id: RequestId, charged_at: Timestamp, lasts_ms: u64, now: Timestamp) {
        if self.charged_at.len() >= self.sweep_at_len {
            let is_full = self.charged_at.len() >= COUNTER_REQUESTS_MAX;
            self.charged_at.retain(|_, at| !has_expired(*at, lasts_ms, now));
            if is_full {
                self.drop_oldest(COUNTER_REQUESTS_MAX / 4 * 3);
            }
            self.sweep_at_len = (2 * self.charged_at.len()).clamp(REQUESTS_SWEEP_LEN_MIN, COUNTER_REQUESTS_MAX);
        }
        self.charged_at.insert(id, charged_at);
    }

    /// Drops the oldest ids until at most `len` are left. Many are dropped at a time, because the search visits all ids.
    fn drop_oldest(&mut self, len: usize) {
        let Some(excess @ 1..) = self.charged_at.len().checked_sub(len) else { return };
        let mut all: Vec<(Timestamp, RequestId)> = self.charged_at.iter().map(|(id, at)| (*at, *id)).collect();
        all.select_nth_unstable_by_key(excess - 1, |(at, _)| *at);
        for (_, id) in &all[..excess] {
            self.charged_at.remove(id);
        }
    }
}

/// Returns the time at which backfilled units count. A counter that ignores a small step back of the clock stays at
/// `last`. Units that were admitted after the step have the same age there as by the clock.
fn backfilled_at(at: Timestamp, now: Timestamp, last: Timestamp) -> Timestamp {
    if at <= now { at.plus_ms(last.ms_since(now)) } else { at.min(last) }
}

fn has_expired(charged_at: Timestamp, lasts_ms: u64, now: Timestamp) -> bool {
    charged_at.plus_ms(lasts_ms) <= now
}
