//! Leaky bucket as one list in Redis: RPUSH puts a call into the queue, and LTRIM removes those that have drained.
//!
//! Source 002, "Leaky bucket (single Redis list)". The queue drains at the rate of the quota and holds one quota. A call that finds
//! room passes at its turn.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use super::central::StoreStep;
use crate::scenario::ways::network::Trial;

/// Bytes of an element: the call's turn, and the list's own bytes.
const ELEMENT_BYTES: u64 = 16;

pub(super) struct RedisList {
    quota: Quota,
    /// Turns of the queued calls.
    queues: Vec<VecDeque<Timestamp>>,
}

impl RedisList {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, queues: vec![VecDeque::new(); trial.callers] }
    }
}

impl StoreStep for RedisList {
    fn step(&mut self, caller: usize, now: Timestamp) -> Option<u64> {
        let (queue, units) = (&mut self.queues[caller], self.quota.units());
        let gap_ms = self.quota.width_ms().div_ceil(units);
        // The last call that drained tells when the next one may.
        while queue.get(1).is_some_and(|next| *next <= now) {
            queue.pop_front();
        }
        let waiting = queue.iter().filter(|turn| **turn > now).count() as u64;
        if waiting >= units {
            return None;
        }
        let turn = queue.back().map_or(now, |last| last.plus_ms(gap_ms).max(now));
        queue.push_back(turn);
        Some(turn.ms_since(now))
    }

    fn bytes(&self) -> u64 {
        ELEMENT_BYTES * self.quota.units()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;

    use super::*;

    #[test]
    fn calls_pass_one_by_one_and_a_full_queue_refuses() {
        let quota: Quota = "3/min".parse().unwrap();
        let mut list = RedisList { quota, queues: vec![VecDeque::new()] };
        let at = |seconds: u64| Timestamp::from_ms(6_000_000 + seconds * 1_000);
        let answers = [0, 0, 0, 0, 0, 25].map(|seconds| list.step(0, at(seconds)));
        assert_eq!(answers, [Some(0), Some(20_000), Some(40_000), Some(60_000), None, Some(55_000)]);
    }
}
