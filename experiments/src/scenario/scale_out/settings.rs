//! Parameters of the experiment.

use serde::Deserialize;
use tollgate_core::rules::Quota;
use tollgate_sim::figures::ratio;

use crate::scenario::arrivals::MINUTE_MS;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScaleOutSettings {
    /// Least and most agents.
    pub(super) agents: [usize; 2],
    /// Time with the least agents, in which agents join, with the most agents, in which agents leave, and with the least again.
    pub(super) before_s: u64,
    pub(super) up_s: u64,
    pub(super) peak_s: u64,
    pub(super) down_s: u64,
    pub(super) after_s: u64,
    /// Begin and end of each loss of the store, in the runs that lose it.
    pub(super) lost_s: Vec<[u64; 2]>,
    /// Quota of a caller, per minute.
    pub(super) quota: u64,
    pub(super) callers: u64,
    /// Demand of each caller, in quotas.
    pub(super) demand: f64,
}

impl ScaleOutSettings {
    pub(super) fn per_minute(&self) -> Quota {
        Quota::new(self.quota, MINUTE_MS).expect("a quota in range")
    }

    pub(super) fn percent(&self, units: u64) -> f64 {
        100.0 * ratio(units, self.quota)
    }
}
