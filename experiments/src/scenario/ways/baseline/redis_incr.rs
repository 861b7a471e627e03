//! Fixed window in Redis: INCR and EXPIRE on one key for each minute.
//!
//! Source 002, "Fixed window counter". INCR counts denied calls as well.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use super::central::StoreStep;
use super::counts::{FIXED_BYTES, FixedCount};
use crate::scenario::ways::network::Trial;

pub(super) struct RedisIncr {
    quota: Quota,
    counts: Vec<FixedCount>,
}

impl RedisIncr {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, counts: vec![FixedCount::default(); trial.callers] }
    }
}

impl StoreStep for RedisIncr {
    fn step(&mut self, caller: usize, now: Timestamp) -> Option<u64> {
        let units = self.counts[caller].units(now, self.quota);
        *units += 1;
        (*units <= self.quota.units()).then_some(0)
    }

    fn bytes(&self) -> u64 {
        FIXED_BYTES
    }
}
