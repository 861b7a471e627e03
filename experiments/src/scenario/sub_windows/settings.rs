//! Parameters of the experiment, and the cells that follow from them.

use serde::Deserialize;
use tollgate_core::window::Window;

use crate::scenario::arrivals::MINUTE_MS;
use crate::scenario::setting_error::SettingError;

/// Estimates of a sliding window, by their names in a rule.
pub(super) const ESTIMATES: [&str; 2] = ["interpolated", "conservative"];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct SubWindowsSettings {
    /// Numbers of sub-windows.
    pub(super) sub_windows: Vec<u32>,
    /// CPU time of a step in Redis with so many sub-windows, measured, as a ratio to that with the first number.
    pub(super) step_costs: Vec<f64>,
    /// Sizes of the fleet.
    pub(super) agents: Vec<usize>,
    /// Quotas, in calls per minute.
    pub(super) quotas: Vec<u64>,
    /// Demands, in quotas.
    pub(super) loads: Vec<f64>,
    /// Sum of the quotas of all callers, in calls per minute.
    pub(super) units_per_minute: u64,
    /// Minutes that are not measured, after callers begin to call.
    pub(super) warm_up_minutes: u64,
    pub(super) minutes: u64,
}

/// Rule, fleet and demand of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubWindowsCase {
    pub(super) estimate: &'static str,
    pub(super) parts: u32,
    pub(super) quota: u64,
    pub(super) agents: usize,
    pub(super) load: f64,
}

impl SubWindowsSettings {
    pub(super) fn checked(&self) -> Result<(), SettingError> {
        let lens = [
            ("sub_windows", self.sub_windows.len()),
            ("agents", self.agents.len()),
            ("quotas", self.quotas.len()),
            ("loads", self.loads.len()),
        ];
        for (key, len) in lens {
            SettingError::unless_in(key, len, 1..=10).map_err(|_| SettingError::new(key, "needs 1 to 10 values"))?;
        }
        if let Some(parts) = self.sub_windows.iter().find(|parts| Window::new(MINUTE_MS, **parts).is_err()) {
            return Err(SettingError::new("sub_windows", format!("has {parts}, which does not divide the minute")));
        }
        if self.step_costs.len() != self.sub_windows.len() {
            return Err(SettingError::new("step_costs", "needs a value for each of `sub_windows`"));
        }
        for cost in &self.step_costs {
            SettingError::unless_in("step_costs", *cost, 0.1..=100.0)?;
        }
        for agents in &self.agents {
            SettingError::unless_in("agents", *agents, 1..=100)?;
        }
        for quota in &self.quotas {
            SettingError::unless_in("quotas", *quota, 1..=100_000)?;
        }
        for load in &self.loads {
            SettingError::unless_in("loads", *load, 0.01..=10.0)?;
        }
        SettingError::unless_in("units_per_minute", self.units_per_minute, 1..=1_000_000)?;
        SettingError::unless_in("warm_up_minutes", self.warm_up_minutes, 0..=60)?;
        SettingError::unless_in("minutes", self.minutes, 1..=60)
    }

    pub(super) fn callers(&self, quota: u64) -> u64 {
        (self.units_per_minute / quota).max(1)
    }

    /// Returns the cases of the cells, in the order of the tables.
    pub(super) fn cases(&self) -> Vec<SubWindowsCase> {
        let mut cases = Vec::new();
        for quota in &self.quotas {
            for agents in &self.agents {
                for parts in &self.sub_windows {
                    for load in &self.loads {
                        let (quota, agents, parts, load) = (*quota, *agents, *parts, *load);
                        let case = |estimate| SubWindowsCase { estimate, parts, quota, agents, load };
                        cases.extend(ESTIMATES.map(case));
                    }
                }
            }
        }
        cases
    }
}

impl SubWindowsCase {
    /// Returns the beginning of the names of its numbers.
    pub(super) fn name(&self) -> String {
        let Self { estimate, parts, quota, agents, load } = self;
        format!("{estimate} {parts}, {agents} agents, {load} of {quota}/min")
    }
}
