//! One stored counter: its state, the limit that it is evaluated against, and the requests that were charged on it.
//!
//! Every container of counters holds these records, and [`step`](super::step) is the only code that changes one; the Redis
//! store evaluates copies for its results. The arithmetic of the state is in [`algorithm`](crate::algorithm).

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::{Charge, ChargeMode, ChargeResult, RequestId};
use crate::algorithm::{CounterState, Limit};
use crate::clock::Timestamp;
use crate::window::Window;

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
    requests: Option<Box<ChargedRequests>>,
}

/// Ids of the requests that were charged within the last window, and the instants of their charges.
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
        Self::of(CounterState::new(&charge.limit), charge.limit, charge.generation)
    }

    /// Returns the counter with this state, as a store holds it; the requests are in that store.
    #[must_use]
    pub fn of(state: CounterState, limit: Limit, generation: u64) -> Self {
        Self { state, generation, limit, requests: None }
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

    /// Returns the newest generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns true if the counter holds nothing that a later step could see.
    #[must_use]
    pub fn is_idle_at(&self, now: Timestamp) -> bool {
        let expired = |requests: &ChargedRequests| {
            requests.charged_at.values().all(|at| has_expired(*at, self.limit.window, now))
        };
        self.state.is_idle_at(now) && self.requests.as_deref().is_none_or(expired)
    }

    /// Evaluates a charge before anything of its request is charged. A refund is applied at once, so its result and those
    /// of later charges show the counter after it.
    pub fn evaluate(&mut self, charge: &Charge, now: Timestamp) -> ChargeResult {
        if charge.generation >= self.generation {
            if charge.limit != self.limit {
                self.state.fit(&charge.limit);
                self.limit = charge.limit;
            }
            self.generation = charge.generation;
        }
        let now = self.state.advance(&self.limit, now);
        if let ChargeMode::Refund { at } = charge.mode {
            self.state.refund(at, charge.cost);
        }
        let repeated = charge.request.is_some_and(|id| self.has_charged(id, now));
        let is_free = repeated || matches!(charge.mode, ChargeMode::Refund { .. });
        let mut verdict = self.state.evaluate(&self.limit, now, if is_free { 0 } else { charge.cost });
        verdict.admitted |= repeated;
        ChargeResult { verdict, charged: false, repeated, at: now, limit: self.limit.units }
    }

    /// Charges what was evaluated.
    pub(super) fn commit(&mut self, charge: &Charge, result: &mut ChargeResult) {
        result.charged = true;
        if result.repeated {
            return;
        }
        match charge.mode {
            ChargeMode::Enforce { .. } | ChargeMode::CountOnly { .. } => self.state.charge(result.at, charge.cost),
            ChargeMode::Backfill { at } => self.state.charge(at.min(result.at), charge.cost),
            ChargeMode::Evaluate { .. } | ChargeMode::Refund { .. } => return,
        }
        if let Some(id) = charge.request {
            let requests = self.requests.get_or_insert_with(Box::default);
            requests.insert(id, result.at, self.limit.window);
        }
    }

    fn has_charged(&self, id: RequestId, now: Timestamp) -> bool {
        let charged_at = self.requests.as_ref().and_then(|requests| requests.charged_at.get(&id));
        charged_at.is_some_and(|at| !has_expired(*at, self.limit.window, now))
    }
}

impl Default for ChargedRequests {
    fn default() -> Self {
        Self { charged_at: HashMap::default(), sweep_at_len: REQUESTS_SWEEP_LEN_MIN }
    }
}

impl ChargedRequests {
    fn insert(&mut self, id: RequestId, now: Timestamp, window: Window) {
        if self.charged_at.len() >= self.sweep_at_len {
            let is_full = self.charged_at.len() >= COUNTER_REQUESTS_MAX;
            self.charged_at.retain(|_, at| !has_expired(*at, window, now));
            if is_full {
                self.drop_oldest(COUNTER_REQUESTS_MAX / 4 * 3);
            }
            self.sweep_at_len = (2 * self.charged_at.len()).clamp(REQUESTS_SWEEP_LEN_MIN, COUNTER_REQUESTS_MAX);
        }
        self.charged_at.insert(id, now);
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

fn has_expired(charged_at: Timestamp, window: Window, now: Timestamp) -> bool {
    charged_at.plus_ms(window.width_ms()) <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_remembers_so_many_requests_and_drops_the_oldest() {
        let window = Window::new(60_000, 12).unwrap();
        let mut requests = ChargedRequests::default();
        for id in 0..30_000_u32 {
            requests.insert(RequestId::from_u128(id.into()), Timestamp::from_ms(u64::from(id) / 1_000), window);
            assert!(requests.charged_at.len() <= COUNTER_REQUESTS_MAX);
        }
        let knows = |id: u128| requests.charged_at.contains_key(&RequestId::from_u128(id));
        assert!((22_500..30_000).all(knows), "the newest are known");
        assert!(!knows(0), "the oldest is dropped");
    }
}
