//! Parameters of the experiment, and the cells that follow from them.

use serde::Deserialize;

use super::sizing::{Load, MeasuredFigures};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct PriceSettings {
    pub(super) agents: Vec<usize>,
    /// Exponents of the Zipf distribution of a caller's calls over the agents.
    pub(super) skews: Vec<f64>,
    /// Quotas, in calls per minute.
    pub(super) quotas: Vec<u64>,
    /// Demand of each caller, in quotas.
    pub(super) demand: f64,
    /// Sum of the quotas of all callers, in calls per minute.
    pub(super) units_per_minute: u64,
    /// Minutes that are not measured, after callers begin to call.
    pub(super) warm_up_minutes: u64,
    pub(super) minutes: u64,
    /// Loads for which sizes are computed.
    pub(super) loads: Vec<Load>,
    pub(super) figures: MeasuredFigures,
}

/// Fleet, traffic and rule of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseCase {
    pub(super) quota: u64,
    pub(super) agents: usize,
    pub(super) skew: f64,
}

impl PriceSettings {
    pub(super) fn callers(&self, quota: u64) -> u64 {
        (self.units_per_minute / quota).max(1)
    }

    /// Returns the cases of the cells, in their order. A single agent has no skew.
    pub(super) fn cases(&self) -> impl Iterator<Item = LeaseCase> {
        let skews = |agents| if agents == 1 { &self.skews[..1] } else { &self.skews[..] };
        let of_fleet =
            move |quota, agents| skews(agents).iter().map(move |skew| LeaseCase { quota, agents, skew: *skew });
        let of_quota = move |quota| self.agents.iter().flat_map(move |agents| of_fleet(quota, *agents));
        self.quotas.iter().flat_map(move |quota| of_quota(*quota))
    }

    /// Returns the number of agents of the simulated fleet that stands for that of a load.
    pub(super) fn simulated_agents(&self, load: Load) -> usize {
        let distance = |agents: &usize| (*agents as u64).abs_diff(load.agents);
        self.agents.iter().copied().min_by_key(distance).expect("there is a fleet")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::scenario::experiment::Experiment;

    /// Returns parameters other than those of the program's file.
    pub(in crate::scenario::price) fn small() -> PriceSettings {
        PriceSettings {
            agents: vec![2],
            skews: vec![0.0],
            quotas: vec![600],
            demand: 0.9,
            units_per_minute: 1_200,
            warm_up_minutes: 0,
            minutes: 1,
            loads: vec![Load { calls_per_second: 1_000, agents: 5 }],
            figures: MeasuredFigures {
                redis_step_us: 6.0,
                redis_script_us: 27.0,
                cached_denial_ns: 200.0,
                leased_call_ratio: 1.5,
            },
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |settings: PriceSettings| format!("{:?}", settings.check().expect_err("it is refused"));
        assert!(refused(PriceSettings { loads: vec![], ..small() }).contains("needs 1 to 10 values"));
        assert!(refused(PriceSettings { agents: vec![4, 1], ..small() }).contains("ascending order"));
        assert!(small().check().is_ok());
    }
}
