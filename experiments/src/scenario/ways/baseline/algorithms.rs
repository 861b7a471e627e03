//! The algorithms of the product in a central store, each with its default burst and sub-windows.

use tollgate_core::algorithm::{Algorithm, CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;

use super::central::StoreStep;
use crate::scenario::ways::network::Trial;

pub(super) struct OwnAlgorithm {
    limit: Limit,
    states: Vec<CounterState>,
}

impl OwnAlgorithm {
    pub(super) fn new(trial: &Trial, algorithm: Algorithm) -> Self {
        let limit = LimitPolicy::of(trial.quota).counted_by(algorithm).limit();
        Self { limit, states: vec![CounterState::new(&limit); trial.callers] }
    }
}

impl StoreStep for OwnAlgorithm {
    fn step(&mut self, caller: usize, now: Timestamp) -> Option<u64> {
        let verdict = self.states[caller].step(&self.limit, now, 1);
        verdict.admitted.then_some(verdict.delay_ms)
    }

    fn bytes(&self) -> u64 {
        match self.limit.algorithm {
            Algorithm::SlidingWindow(_) => 8 * (u64::from(self.limit.window.sub_windows()) + 2),
            Algorithm::SlidingLog => 8 * self.limit.units,
            _ => 16,
        }
    }
}
