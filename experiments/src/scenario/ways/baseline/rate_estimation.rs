//! Rate estimation in a central store: a count of the calls that decays exponentially.
//!
//! Rejected by source 004: "the first two don't satisfy the required semantics of allowing up to the maximum allowed requests within
//! the given interval, regardless of the timing". The estimate is that of Stoica and others (CSFQ, SIGCOMM 1998), with the window as
//! its time constant.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use super::central::StoreStep;
use crate::scenario::ways::network::Trial;

pub(super) struct RateEstimation {
    quota: Quota,
    counts: Vec<DecayingCount>,
}

#[derive(Clone, Copy, Default)]
struct DecayingCount {
    units: f64,
    last: Timestamp,
}

impl RateEstimation {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, counts: vec![DecayingCount::default(); trial.callers] }
    }
}

impl StoreStep for RateEstimation {
    #[expect(clippy::cast_precision_loss, reason = "small times and quotas")]
    fn step(&mut self, caller: usize, now: Timestamp) -> Option<u64> {
        let (count, quota) = (&mut self.counts[caller], self.quota);
        let passed = now.ms_since(count.last) as f64 / quota.width_ms() as f64;
        let units = count.units * (-passed).exp() + 1.0;
        let is_admitted = units <= quota.units() as f64;
        if is_admitted {
            *count = DecayingCount { units, last: now };
        }
        is_admitted.then_some(0)
    }

    fn bytes(&self) -> u64 {
        16
    }
}
