//! Parameters of the experiment.

use serde::Deserialize;

use crate::scenario::setting_error::SettingError;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct WaySettings {
    pub(super) agents: Vec<usize>,
    /// Number of agents of the tables with all columns.
    pub(super) shown_agents: usize,
    /// Largest fleet in which the ways with a bus run for all minutes. In larger ones they run for some seconds.
    pub(super) long_bus_agents_max: usize,
    /// Calls per minute of each caller.
    pub(super) quota: u64,
    /// Length of the calls.
    pub(super) minutes: u64,
    /// Demand of the callers that want too much, and of those that do not, in quotas.
    pub(super) demand: f64,
    pub(super) fair: f64,
    /// Calls of a burst, in quotas.
    pub(super) burst: u64,
    /// Number of callers by which a lag is measured.
    pub(super) probes: usize,
    /// Longest delays of a message, one way.
    pub(super) peer_ms_max: u64,
    pub(super) store_ms_max: u64,
    /// Longest delay between an agent and a store that is far.
    pub(super) far_store_ms_max: u64,
    pub(super) bus_ms_max: u64,
    /// Calls that a node serves in a second, over which the messages of timers are divided.
    pub(super) calls_per_node_s: u64,
    pub(super) counter_bytes: MeasuredBytes,
}

/// Bytes of a counter of the product, by the benches: at an agent with a store and without, and in Redis.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct MeasuredBytes {
    pub(super) node_beside_store: u64,
    pub(super) node_without_store: u64,
    pub(super) store: u64,
}

impl WaySettings {
    /// Refuses values that do not fit.
    pub(super) fn check_values(&self) -> Result<(), SettingError> {
        for agents in &self.agents {
            SettingError::unless_in("agents", *agents, 2..=2_000)?;
        }
        SettingError::unless_in("agents", self.agents.len(), 1..=10)
            .map_err(|_| SettingError::new("agents", "needs 1 to 10 values"))?;
        if !self.agents.is_sorted_by(|a, b| a < b) {
            return Err(SettingError::new("agents", "is not in ascending order"));
        }
        if !self.agents.contains(&self.shown_agents) {
            let shown = self.shown_agents;
            return Err(SettingError::new("shown_agents", format!("is {shown}; write one of `agents`")));
        }
        SettingError::unless_in("long_bus_agents_max", self.long_bus_agents_max, 2..=2_000)?;
        SettingError::unless_in("quota", self.quota, 60..=10_000)?;
        SettingError::unless_in("minutes", self.minutes, 2..=60)?;
        SettingError::unless_in("demand", self.demand, 1.0..=100.0)?;
        SettingError::unless_in("fair", self.fair, 0.01..=1.0)?;
        SettingError::unless_in("burst", self.burst, 1..=100)?;
        SettingError::unless_in("probes", self.probes, 1..=100)?;
        for (key, ms) in [
            ("peer_ms_max", self.peer_ms_max),
            ("store_ms_max", self.store_ms_max),
            ("far_store_ms_max", self.far_store_ms_max),
            ("bus_ms_max", self.bus_ms_max),
        ] {
            SettingError::unless_in(key, ms, 1..=100)?;
        }
        SettingError::unless_in("calls_per_node_s", self.calls_per_node_s, 1..=1_000_000)
    }

    /// Returns true if a fleet of this size runs for some seconds if it has a bus.
    pub(super) fn is_short_with_bus(&self, agents: usize) -> bool {
        agents > self.long_bus_agents_max
    }

    /// Returns the place of the fleet that is shown.
    pub(super) fn shown(&self) -> usize {
        self.agents.iter().position(|agents| *agents == self.shown_agents).expect("it is checked")
    }

    #[cfg(test)]
    pub(super) fn small() -> Self {
        Self {
            agents: vec![2, 5],
            shown_agents: 5,
            long_bus_agents_max: 2,
            quota: 120,
            minutes: 2,
            demand: 6.0,
            fair: 0.5,
            burst: 2,
            probes: 3,
            peer_ms_max: 2,
            store_ms_max: 1,
            far_store_ms_max: 5,
            bus_ms_max: 5,
            calls_per_node_s: 5_000,
            counter_bytes: MeasuredBytes { node_beside_store: 385, node_without_store: 332, store: 136 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_do_not_fit_are_refused() {
        type Change = fn(&mut WaySettings);
        let cases: [(Change, &str); 4] = [
            (|settings| settings.agents = vec![1], "`agents` is 1; write 2 to 2000"),
            (|settings| settings.agents = vec![5, 2], "`agents` is not in ascending order"),
            (|settings| settings.shown_agents = 7, "`shown_agents` is 7; write one of `agents`"),
            (|settings| settings.minutes = 1, "`minutes` is 1; write 2 to 60"),
        ];
        for (change, expected) in cases {
            let mut settings = WaySettings::small();
            change(&mut settings);
            let refused = format!("{:?}", settings.check_values());
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
